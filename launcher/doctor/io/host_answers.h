// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A host's side of an examination: says what the machine is, listens at a port, and looks for the
// others by name and by connection. Whoever comes to the port is told a random word and nothing
// else; it is closed when the examination is over.

#include <asio/io_context.hpp>
#include <memory>
#include <string>

#include "launcher/fanout/io/host_side.h"
#include "proto/environment.h"

namespace cpprun::io {

// For fanout's host side.
Answerer make_host_answers(asio::io_context& context, const Environment& environment);

}  // namespace cpprun::io

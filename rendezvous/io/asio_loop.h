// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The event loop of a program, for parts that are told of nothing but that.

#include <asio/io_context.hpp>

#include "rendezvous/io/event_loop.h"

namespace cpprun {

EventLoop loop_of(asio::io_context& context);

}  // namespace cpprun

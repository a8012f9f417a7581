// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Memory for one key: in no core file, gone in a forked child, and wiped when nobody has it any
// more.

#include <memory>

#include "proto/secure/secret.h"

namespace cpprun {

// Throws std::bad_alloc where the machine has no page left.
std::shared_ptr<Key> make_key_memory();

}  // namespace cpprun

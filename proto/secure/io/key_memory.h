// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Memory for one key: excluded from core files, cleared in forked children, and wiped when it is
// released.

#include <memory>

#include "proto/secure/secret.h"

namespace cpprun {

// Throws std::bad_alloc if there is no memory.
std::shared_ptr<Key> make_key_memory();

}  // namespace cpprun

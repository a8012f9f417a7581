// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// OpenSSL 3 of this machine, opened when somebody needs it.

#include <string_view>

#include "proto/result.h"
#include "proto/secure/openssl.h"

namespace cpprun {

// It stays open until the process ends. The reason where it cannot be had says what to install, and
// what it is for.
Result<OpenSsl> open_openssl(std::string_view purpose = "a secret");

}  // namespace cpprun

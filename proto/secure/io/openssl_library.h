// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// OpenSSL 3 of this machine, opened when somebody needs it.

#include "proto/result.h"
#include "proto/secure/openssl.h"

namespace cpprun {

// It stays open until the process ends. The reason where it cannot be had says what to install.
Result<OpenSsl> open_openssl();

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// This machine's OpenSSL 3, loaded on demand.

#include <string_view>

#include "proto/result.h"
#include "proto/secure/openssl.h"

namespace cpprun {

// It stays loaded until the process exits. The error says what to install, and what `purpose` needs
// it.
Result<OpenSsl> open_openssl(std::string_view purpose = "a secret");

}  // namespace cpprun

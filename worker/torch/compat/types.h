// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// LibTorch 2.6 has no float8_e8m0fnu.

namespace cpprun::compat {

// Undefined in versions without the type.
template <class Type>
constexpr Type float8_e8m0fnu() {
  if constexpr (requires { Type::Float8_e8m0fnu; }) {
    return Type::Float8_e8m0fnu;
  } else {
    return Type::Undefined;
  }
}

}  // namespace cpprun::compat

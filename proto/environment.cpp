// SPDX-License-Identifier: BSD-3-Clause
#include "proto/environment.h"

namespace cpprun {

Environment environment_of(char** variables) {
  Environment environment;
  for (char** each = variables; each != nullptr && *each != nullptr; ++each) {
    const std::string_view text(*each);
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

}  // namespace cpprun

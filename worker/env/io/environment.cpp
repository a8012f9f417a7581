// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/environment.h"

#include <unistd.h>

#include <string_view>

namespace cpprun {

Environment read_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    // An entry without '=' is legal and means nothing.
    if (equals == std::string_view::npos) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

}  // namespace cpprun

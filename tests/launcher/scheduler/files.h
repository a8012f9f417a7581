// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The files of a host, as a map.

#include <map>
#include <string>

#include "proto/environment.h"

namespace cpprun::probe {

inline TextFile files(std::map<std::string, std::string> all = {}) {
  return [all = std::move(all)](const std::string& path) -> Result<std::string> {
    const auto found = all.find(path);
    if (found == all.end()) return failure("No such file or directory");
    return found->second;
  };
}

}  // namespace cpprun::probe

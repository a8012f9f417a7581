// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What was settled for each flag, by the command line or the environment, and the way from there to
// a checked Config. Every check complains by itself and the rest goes on, so that a person sees all
// mistakes at once.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli/cli.h"
#include "launcher/config.h"

namespace cpprun {

struct Setting {
  std::string value;
  std::string source;  // "--nnodes" or "PET_NNODES", for complaints
};

class Settings {
 public:
  void settle(std::string_view flag, Setting setting) { by_flag_[flag] = std::move(setting); }
  const Setting* find(std::string_view flag) const {
    const auto found = by_flag_.find(flag);
    return found == by_flag_.end() ? nullptr : &found->second;
  }
  bool has(std::string_view flag) const { return find(flag) != nullptr; }

 private:
  std::map<std::string_view, Setting> by_flag_;  // names live in the table of flags
};

// Appends to `mistakes`; the Config is of use only where there are none.
Config config_of(const Settings& settings, const CommandLine& line,
                 std::vector<std::string>& mistakes);

}  // namespace cpprun

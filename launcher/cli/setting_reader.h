// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How a setting is read and complained about: numbers within bounds, the name under which a person
// knows it. Each kind of setting (rendezvous, workers, endings, logs) is read through one of these,
// so that all mistakes end up in one list.

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/cli/settings.h"
#include "launcher/environment.h"

namespace cpprun {

inline constexpr int any_count_max = 2'147'483'647;  // where a number has no bound of its own

class SettingReader {
 public:
  // `mistakes` and `notes` are appended to. All four outlive the reader.
  SettingReader(const Settings& settings, const Environment& environment,
                std::vector<std::string>& mistakes, std::vector<std::string>& notes)
      : settings_(settings), environment_(environment), mistakes_(mistakes), notes_(notes) {}

  const Setting* find(std::string_view flag) const { return settings_.find(flag); }
  bool has(std::string_view flag) const { return settings_.has(flag); }
  const Environment& environment() const { return environment_; }

  // "--nnodes" or "PET_NNODES", whichever settled it.
  std::string source(std::string_view flag) const;
  // Nothing where the flag was not given, or was given with something else, which is a mistake.
  std::optional<int> number(std::string_view flag, int lowest, int highest);
  // The same for a name that every node tells the master.
  std::optional<std::string> name(std::string_view flag, std::size_t bytes_max);
  // For complaints of other readers.
  std::vector<std::string>& mistakes() { return mistakes_; }

  template <class... Values>
  void complain(fmt::format_string<Values...> text, Values&&... values) {
    mistakes_.push_back(fmt::format(text, std::forward<Values>(values)...));
  }

  // A sentence worth saying at the start, e.g. that a flag has no effect.
  template <class... Values>
  void note(fmt::format_string<Values...> text, Values&&... values) {
    notes_.push_back(fmt::format(text, std::forward<Values>(values)...));
  }

 private:
  const Settings& settings_;
  const Environment& environment_;
  std::vector<std::string>& mistakes_;
  std::vector<std::string>& notes_;
};

}  // namespace cpprun

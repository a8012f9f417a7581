// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the readers of each kind of setting (rendezvous, workers, endings, logs) have in common: the
// flags, the environment, and where to put a complaint or a note. A complaint begins with the name
// under which the person knows the setting.

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "launcher/cli/flags.h"
#include "launcher/cli/mistakes.h"
#include "proto/environment.h"

namespace cpprun {

class SettingReader {
 public:
  // `mistakes` and `notes` are appended to. All four outlive the reader.
  SettingReader(const Flags& flags, const Environment& environment, Mistakes& mistakes,
                std::vector<std::string>& notes)
      : flags_(flags), environment_(environment), mistakes_(mistakes), notes_(notes) {}

  const Flags& flags() const { return flags_; }
  const Environment& environment() const { return environment_; }

  // complain(flags.nnodes, "={} is too much", 9): "--nnodes=9 is too much".
  template <class T, class... Values>
  void complain(const Flag<T>& flag, fmt::format_string<Values...> text, Values&&... values) {
    mistakes_.add(flag.place, flag.source + fmt::format(text, std::forward<Values>(values)...));
  }
  // The same for a whole sentence about it.
  template <class T>
  void complain_whole(const Flag<T>& flag, std::string sentence) {
    mistakes_.add(flag.place, std::move(sentence));
  }

  // A sentence worth saying at the start, e.g. that a flag has no effect.
  template <class T, class... Values>
  void note(const Flag<T>& flag, fmt::format_string<Values...> text, Values&&... values) {
    notes_.push_back(flag.source + fmt::format(text, std::forward<Values>(values)...));
  }
  void note(std::string sentence) { notes_.push_back(std::move(sentence)); }

 private:
  const Flags& flags_;
  const Environment& environment_;
  Mistakes& mistakes_;
  std::vector<std::string>& notes_;
};

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Turns the flags' values into a checked Config: the common part of the readers (SettingReader) and
// the readers themselves. A failed check adds its own error and reading continues, so that the user
// sees all errors at once.

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "launcher/cli/cli.h"
#include "launcher/cli/flags.h"
#include "launcher/config.h"
#include "proto/environment.h"

namespace cpprun {

// Drops each setting that contradicts a stronger one. A setting in the environment or a file must
// not make a contradicting command fail. Returns a note for each.
std::vector<std::string> drop_contradicted(Flags& flags);

// Appends errors to `diagnostics`. The Config is valid only if there are none.
Config config_of(const Flags& flags, const CommandLine& line, Diagnostics& diagnostics);

// Common to the readers of all kinds of settings: the flags, the environment, and where to add
// errors and notes. An error starts with the name under which the user gave the setting.
class SettingReader {
 public:
  // Appends to `diagnostics` and `notes`. All four must outlive the reader.
  SettingReader(const Flags& flags, const Environment& environment, Diagnostics& diagnostics,
                std::vector<std::string>& notes)
      : flags_(flags), environment_(environment), diagnostics_(diagnostics), notes_(notes) {}

  const Flags& flags() const { return flags_; }
  const Environment& environment() const { return environment_; }

  // complain(flags.nnodes, "={} is too much", 9): "--nnodes=9 is too much".
  template <class T, class... Values>
  void report_error(const Flag<T>& flag, fmt::format_string<Values...> text, Values&&... values) {
    diagnostics_.add(flag.place, flag.source + fmt::format(text, std::forward<Values>(values)...));
  }
  // The same for a complete sentence about the flag.
  template <class T>
  void report_sentence(const Flag<T>& flag, std::string sentence) {
    diagnostics_.add(flag.place, std::move(sentence));
  }

  // A note to print at the start, e.g. that a flag has no effect.
  template <class T, class... Values>
  void note(const Flag<T>& flag, fmt::format_string<Values...> text, Values&&... values) {
    notes_.push_back(flag.source + fmt::format(text, std::forward<Values>(values)...));
  }
  void note(std::string sentence) { notes_.push_back(std::move(sentence)); }

 private:
  const Flags& flags_;
  const Environment& environment_;
  Diagnostics& diagnostics_;
  std::vector<std::string>& notes_;
};

// The workers on this node: their number, role and program.
void read_worker_settings(SettingReader& reader, const CommandLine& line, Config& config);

// Where the workers' output goes: files, console, filters, prefixes.
void read_log_settings(SettingReader& reader, Config& config);

// How workers end: restart limits, the grace period for a worker to stop, and the signals that end
// the job.
void read_ending_settings(SettingReader& reader, const TextFile& read_file, Config& config);

// Whether the nodes of a job share a secret, and where it is stored.
void read_secret_settings(SettingReader& reader, Config& config);

}  // namespace cpprun

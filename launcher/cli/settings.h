// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The way from the flags' values to a checked Config: what its readers share (SettingReader), and
// the readers. Every check complains by itself and the rest goes on, so that a person sees all
// mistakes at once.

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "launcher/cli/cli.h"
#include "launcher/cli/flags.h"
#include "launcher/config.h"
#include "launcher/text_file.h"
#include "proto/environment.h"

namespace cpprun {

// Drops each setting that contradicts a stronger one: what an operator sets in the environment or a
// file must not stop a command that says otherwise. Returns a note for each.
std::vector<std::string> drop_contradicted(Flags& flags);

// Appends to `mistakes`; the Config is of use only where there are none.
Config config_of(const Flags& flags, const CommandLine& line, Mistakes& mistakes);

// What the readers of each kind of setting (rendezvous, workers, endings, logs) have in common: the
// flags, the environment, and where to put a complaint or a note. A complaint begins with the name
// under which the person knows the setting.
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

// What runs on this node: how many workers, of which role, and by which program.
void read_worker_settings(SettingReader& reader, const CommandLine& line, Config& config);

// Where the workers' words go: files, console, filters, prefixes.
void read_log_settings(SettingReader& reader, Config& config);

// How workers end: how often the job may be restarted, how much time a worker has to stop, and
// which signals end the job.
void read_ending_settings(SettingReader& reader, const TextFile& read_file, Config& config);

// Whether the nodes of a job share a secret, and where it lies.
void read_secret_settings(SettingReader& reader, Config& config);

}  // namespace cpprun

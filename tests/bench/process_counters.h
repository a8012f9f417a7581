// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Counters of the kernel for a process: processor time, memory, wake-ups. Read from /proc, for all
// of its threads together.

#include <sys/types.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace cpprun::bench {

struct Counters {
  double cpu_seconds = 0;  // on a processor, to the nanosecond
  long wake_ups = 0;       // times it waited and resumed
  long resident_bytes = 0;
  long shared_out_bytes = 0;  // PSS: pages that others use too count in part
};

// The number behind "key:" in a file of such lines; 0 where there is none.
inline long number_in(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    long value = 0;
    if (word.size() == key.size() + 1 && word.starts_with(key) && file >> value) return value;
  }
  return 0;
}

inline Counters counters_of(pid_t pid) {
  const std::string directory = "/proc/" + std::to_string(pid);
  Counters counters;
  std::error_code gone;  // Then everything stays 0.
  for (const auto& task : std::filesystem::directory_iterator(directory + "/task", gone)) {
    double nanoseconds = 0;
    std::ifstream(task.path() / "schedstat") >> nanoseconds;
    counters.cpu_seconds += nanoseconds / 1e9;
    counters.wake_ups += number_in(task.path() / "status", "voluntary_ctxt_switches");
  }
  counters.resident_bytes = number_in(directory + "/status", "VmRSS") * 1024;
  counters.shared_out_bytes = number_in(directory + "/smaps_rollup", "Pss") * 1024;
  return counters;
}

}  // namespace cpprun::bench

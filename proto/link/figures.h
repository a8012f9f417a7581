// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The state of one worker as its node sees it, for display only. Ages instead of times, since
// clocks of different machines differ.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "proto/clock.h"
#include "proto/ids.h"
#include "proto/result.h"

namespace cpprun {

enum class WorkerState {
  starting,   // requested
  running,    // its program is running
  ending,     // was sent a signal to exit
  succeeded,  // exited with 0
  failed,     // ended in any other way, or never started
};
// "running".
std::string_view to_text(WorkerState state);

namespace link {

// Upper bound of steps, samples and kibibytes; consumers compute with doubles.
inline constexpr std::int64_t figure_max = 1LL << 53;

struct WorkerStats {
  LocalRank local_rank{};
  int pid = 0;  // 0: never started
  WorkerState state = WorkerState::starting;
  Duration since{};  // time in that state
  // From its heartbeats; empty if there is none or it does not report the value.
  std::optional<std::int64_t> step = {};
  std::optional<std::int64_t> millisteps_per_second = {};
  std::optional<std::int64_t> samples = {};
  std::optional<std::int64_t> checkpoint_step = {};
  std::optional<Duration> last_beat = {};  // time since the last heartbeat
  // From the kernel, for the process itself without its children.
  std::optional<std::int64_t> resident_kib = {};
  std::optional<std::int64_t> cpu_percent = {};  // of one CPU, since the last sample
  std::optional<Duration> last_words = {};       // time since its last line of output
  friend bool operator==(const WorkerStats&, const WorkerStats&) = default;
};

// As whole numbers: ages in milliseconds, -1 for an empty value. Clamped to the range that a
// receiver accepts.
using FiguresRow = std::array<std::int64_t, 12>;
FiguresRow row_of(const WorkerStats& figures);
// Checks every number; the error names the first invalid one.
Result<WorkerStats> figures_of(const FiguresRow& row);
std::string_view name_of_column(std::size_t index);

}  // namespace link

}  // namespace cpprun

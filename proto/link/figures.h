// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What one worker does, as its own node sees it: figures for people, which decide nothing. Ages and
// not moments, because no two machines have the same clock.

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
  starting,   // it was asked for
  running,    // its program is executed
  ending,     // it was sent a signal to end
  succeeded,  // it has ended with 0
  failed,     // it has ended in any other way, or never started
};
// "running".
std::string_view to_text(WorkerState state);

namespace link {

// Steps, samples and kibibytes that anybody will ever have: they are counted with as doubles.
inline constexpr std::int64_t figure_max = 1LL << 53;

struct WorkerFigures {
  LocalRank local_rank{};
  int pid = 0;  // 0: it never started
  WorkerState state = WorkerState::starting;
  Duration since{};  // for so long it has been in that state
  // What its heartbeats say; nothing where it has none, or has not said that.
  std::optional<std::int64_t> step = {};
  std::optional<std::int64_t> millisteps_per_second = {};
  std::optional<std::int64_t> samples = {};
  std::optional<std::int64_t> checkpoint_step = {};
  std::optional<Duration> last_beat = {};  // for so long it has not beaten
  // What the kernel says of the process itself, not of its children.
  std::optional<std::int64_t> resident_kib = {};
  std::optional<std::int64_t> cpu_percent = {};  // of one processor, since the last look
  std::optional<Duration> last_words = {};  // since it wrote the last line that passed through us
  friend bool operator==(const WorkerFigures&, const WorkerFigures&) = default;
};

// The same as whole numbers: ages in milliseconds, -1 for nothing. Clamped to what a stranger
// believes.
using FiguresRow = std::array<std::int64_t, 12>;
FiguresRow row_of(const WorkerFigures& figures);
// Every number is looked at; an error names the first that cannot be.
Result<WorkerFigures> figures_of(const FiguresRow& row);
std::string_view name_of_column(std::size_t index);

}  // namespace link

}  // namespace cpprun

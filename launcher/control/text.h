// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What cpprunctl prints: durations, jobs, daemons, failures and secrets.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/control/views.h"
#include "launcher/table.h"
#include "proto/clock.h"
#include "proto/result.h"
#include "proto/secure/secret.h"

namespace cpprun {

// Durations as people write and read them.

// Parses "2h", "1h30m", "45m", "2d", "90s" or "90" to seconds: at least one, at most a year.
Result<std::int64_t> parse_duration(std::string_view text);

// "0.4 s", "12 s", "3 min", "2 h 5 min", "4 d 3 h".
std::string duration_text(double seconds);

// Jobs as text for people: all of them in a table, or one of them with its nodes and rounds. Pure.

struct SeenJob {
  JobView job;
  std::string place;  // where it was found; shown if the address of its page is unknown
};

// Tables of jobs, nodes and rounds. A node's row has fewer columns on a narrow terminal, and
// columns for statistics only if a node reports them.
Table jobs_table(const std::vector<SeenJob>& jobs);
Table nodes_table(const std::vector<NodeView>& nodes, double now);
Table rounds_table(const JobView& job);

std::string list_text(const std::vector<SeenJob>& jobs, const Canvas& canvas);
std::string status_text(const JobView& job, const std::vector<NodeView>& nodes,
                        const Canvas& canvas);

// "job "a" has been running for 3 min: round 2, 4 of 4 nodes, 32 workers; 1 of 3 restarts is used".
std::string job_sentence(const JobView& job);
// "step 1200 of 5000 (24 %), 18 min left, loss 0.31"; empty if the workers report neither.
std::string progress_sentence(const ProgressView& progress);
Tint tint_of(const std::string& state);
// "rank 3 on beta: SIGKILL (out_of_memory)".
std::string failure_text(const FailureView& failure);

// A cpprund as text for people: its role, the standbys, whether its state is saved, and the last
// leader change. Pure.

// Excludes the warnings.
std::string daemon_text(const DaemonView& daemon);

// One line per warning.
std::string warnings_text(const std::vector<std::string>& warnings, const Canvas& canvas);

// What failed in a job and why, as far as its coordinator knows: the report of a running job.
std::string failure_story(const JobView& job, const Canvas& canvas);

// The verdict, the clusters with their stacks, and what could not be read. With `rank`, only the
// cluster of that rank.
std::string stacks_text(const CaptureView& capture, std::optional<int> rank);

// For keygen: names of secrets and messages about them.

using IdBytes = std::array<unsigned char, 6>;

// "20261123-k3v9qd": the date in UTC, and enough letters to make two secrets of a day distinct.
std::string secret_id(WallTime now, const IdBytes& random);

// What was created, where, and what to do with it.
std::string made_text(std::string_view id, std::string_view path);
// The same for a secret added before an old one, which stays valid.
std::string added_text(std::string_view id, std::string_view path, std::string_view old_id);

// The content of a secrets file, in this order. The caller has to wipe the text. No other copy is
// left.
std::string secrets_text(const Secrets& secrets);

// The lines that `cpprunctl top` shows on a terminal of a given size, and its keys. Pure.

// One job with its nodes, or all jobs if none was selected.
struct TopView {
  std::vector<SeenJob> jobs;
  std::optional<JobView> job = {};
  std::vector<NodeView> nodes = {};
  std::string trouble = {};  // why the last refresh failed; empty: it did not
};

enum class TopOrder { number, host, state, heard, since };

struct TopSettings {
  TopOrder order = TopOrder::number;
  bool is_reversed = false;
  std::size_t first = 0;  // first row shown
};

// At most `height` lines, none wider than the terminal.
std::vector<std::string> top_frame(const TopView& view, const TopSettings& settings,
                                   const Canvas& canvas, std::size_t height);

enum class KeyEffect { none, changed, quit };
// Keys as a terminal sends them. An arrow key is three bytes.
KeyEffect press(TopSettings& settings, std::string_view key);

}  // namespace cpprun

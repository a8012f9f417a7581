// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What cpprunctl prints, as text: lengths of time, jobs, daemons, failures and secrets.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/control/views.h"
#include "launcher/table.h"
#include "proto/clock.h"
#include "proto/result.h"
#include "proto/secure/secret.h"

namespace cpprun {

// Lengths of time as people write and read them.

// "2h", "1h30m", "45m", "2d", "90s" or "90": so many seconds, at least one and at most a year.
Result<std::int64_t> parse_duration(std::string_view text);

// "0.4 s", "12 s", "3 min", "2 h 5 min", "4 d 3 h".
std::string duration_text(double seconds);

// Jobs as text for people: all of them in a table, and one of them with its nodes and rounds. Pure:
// text out of values.

struct SeenJob {
  JobView job;
  std::string place;
};

// A node's row tells less where the terminal is narrow, and figures where somebody has them.
Table jobs_table(const std::vector<SeenJob>& jobs);
Table nodes_table(const std::vector<NodeView>& nodes, double now);
Table rounds_table(const JobView& job);

std::string list_text(const std::vector<SeenJob>& jobs, const Canvas& canvas);
std::string status_text(const JobView& job, const std::vector<NodeView>& nodes,
                        const Canvas& canvas);

// "job "a" has been running for 3 min: round 2, 4 of 4 nodes, 32 workers; 1 of 3 restarts is used".
std::string job_sentence(const JobView& job);
Tint tint_of(const std::string& state);
// "rank 3 on beta: SIGKILL (out_of_memory)".
std::string failure_text(const FailureView& failure);

// A cpprund as text for people: whether it leads, who stands by, what is kept, what has changed
// last. Pure: text out of values.

// Without its warnings.
std::string daemon_text(const DaemonView& daemon);

// A line each.
std::string warnings_text(const std::vector<std::string>& warnings, const Canvas& canvas);

// What has failed in a job and why, as far as its coordinator knows: the report while it runs.
std::string failure_story(const JobView& job, const Canvas& canvas);

// What keygen calls a secret, and what it says of one.

using IdBytes = std::array<unsigned char, 6>;

// "20261123-k3v9qd": the day, in universal time, and as many letters as keep two of a day apart.
std::string secret_id(WallTime now, const IdBytes& random);

// What was made where, and what is to be done with it.
std::string made_text(std::string_view id, std::string_view path);
// The same where it was put before one that is still there.
std::string added_text(std::string_view id, std::string_view path, std::string_view old_id);

// A file of these, in this order. Its text is the caller's to wipe; no copy of it is left.
std::string secrets_text(const Secrets& secrets);

}  // namespace cpprun

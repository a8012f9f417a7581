// SPDX-License-Identifier: BSD-3-Clause
#include "proto/link/message.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "proto/bounds.h"
#include "proto/link/bounds.h"
#include "proto/link/codec.h"
#include "proto/state_machine.h"
#include "proto/text.h"

namespace cpprun {

std::string_view to_text(WorkerState state) {
  switch (state) {
    case WorkerState::starting:
      return "starting";
    case WorkerState::running:
      return "running";
    case WorkerState::ending:
      return "ending";
    case WorkerState::succeeded:
      return "succeeded";
    case WorkerState::failed:
      return "failed";
  }
  return "";
}

}  // namespace cpprun

namespace cpprun::link {

namespace {

constexpr int exit_codes_max = 255;  // waitid(2) reports eight bits
constexpr int signals_max = 64;      // SIGRTMAX on Linux
constexpr int ports_max = 65'535;
// An invalid byte is sent as the replacement character, which has three bytes.
constexpr std::size_t bytes_a_byte_max = 3;
constexpr int any = std::numeric_limits<int>::max();
constexpr Duration policy_time_max = std::chrono::milliseconds(any);

// Keeps the first violation.
class Check {
 public:
  void number(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
    if (value >= least && value <= most) return;
    report_error(fmt::format("{}={} is out of range", name, value));
  }
  void text(const char* name, const std::string& value, std::size_t bytes_max) {
    if (value.size() <= bytes_max) return;
    report_error(
        fmt::format("{} of {} bytes, and the maximum is {}", name, value.size(), bytes_max));
  }
  void count(const char* name, std::size_t value, std::size_t most) {
    if (value <= most) return;
    report_error(fmt::format("{} {}, and the maximum is {}", value, name, most));
  }
  std::optional<std::string> problem() && { return std::move(problem_); }

 private:
  void report_error(std::string text) {
    if (!problem_) problem_ = std::move(text);
  }
  std::optional<std::string> problem_;
};

// A sentence as the encoder cuts it, including the mark of a cut.
void sentence(Check& check, const char* name, const std::string& text) {
  constexpr std::string_view mark = "…";
  check.text(name, text, bounds::link_text_bytes_max * bytes_a_byte_max + mark.size());
}

void milliseconds(Check& check, const char* name, Duration value, Duration most) {
  using Unit = std::chrono::milliseconds;
  check.number(name, std::chrono::duration_cast<Unit>(value).count(), 0,
               std::chrono::duration_cast<Unit>(most).count());
}

// A failure; an exit with 0 is never reported as one.
void bad_end(Check& check, const ExitStatus& status) {
  check.number(status.signalled ? "signal" : "status", status.value, 1,
               status.signalled ? signals_max : exit_codes_max);
}

void failure_of_worker(Check& check, const Failure& failure) {
  check.number("rank", failure.rank.value, 0, any);
  check.number("local_rank", failure.local_rank.value, 0, bounds::local_world_size_max - 1);
  check.number("node", failure.group_rank.value, 0, bounds::nodes_max - 1);
  check.number("pid", failure.pid, 0, any);
  bad_end(check, failure.status);
  check.text("a host", failure.host, bounds::host_bytes_max);
  check.text("a cause", failure.cause, bounds::cause_bytes_max);
  sentence(check, "a message", failure.message);
}

void limits_of(Check& check, const Join& join) {
  check.text("a job's id", join.job, bounds::job_id_bytes_max * bytes_a_byte_max);
  check.text("a host", join.host, bounds::host_bytes_max);
  check.text("a role", join.role, bounds::role_bytes_max * bytes_a_byte_max);
  check.number("pid", join.pid, 0, any);
  check.count("addresses", join.addresses.size(), bounds::node_addresses_max);
  for (const std::string& each : join.addresses) {
    check.text("an address", each, bounds::address_bytes_max);
  }
  check.count("codes in final", join.restarts.final_codes.size(), bounds::no_restart_codes_max);
  for (const int code : join.restarts.final_codes) {
    check.number("final", code, -signals_max, exit_codes_max);
  }
  check.count("codes in free", join.restarts.free_codes.size(), bounds::no_restart_codes_max);
  for (const int code : join.restarts.free_codes) {
    check.number("free", code, -signals_max, exit_codes_max);
  }
  check.count("budgets", join.restarts.budgets.size(), cause_budgets_max);
  for (const CauseBudget& each : join.restarts.budgets) {
    check.text("a cause", each.cause, bounds::cause_bytes_max);
  }
  check.number("fruitless", join.restarts.fruitless_max, 0, any);
  check.number("host_failures", join.restarts.host_limit.failures, 0, any);
  milliseconds(check, "host_window_ms", join.restarts.host_limit.window, policy_time_max);
}

void limits_of(Check& check, const WhoHosts& question) {
  check.text("a job's id", question.job, bounds::job_id_bytes_max * bytes_a_byte_max);
  check.text("a host", question.host, bounds::host_bytes_max);
  check.number("pid", question.pid, 0, any);
  check.text("an address", question.leads_address, bounds::address_bytes_max);
  check.number("leads_port", question.leads_port, 0, ports_max);
}

void limits_of(Check& check, const Hosts& answer) {
  check.text("a job's id", answer.job, bounds::job_id_bytes_max * bytes_a_byte_max);
  check.text("a host", answer.host, bounds::host_bytes_max);
  check.number("pid", answer.pid, 0, any);
}

void limits_of(Check& check, const Failed& failed) {
  failure_of_worker(check, failed.failure);
  check.number("attempt", failed.attempt, 0, any);
}

void limits_of(Check& check, const RestartWorker& restart) {
  check.number("rank", restart.rank.value, 0, any);
  check.number("attempt", restart.attempt, 1, any);
  check.number("restart", restart.restart_count, 0, any);
  milliseconds(check, "pause_ms", restart.pause, policy_time_max);
  sentence(check, "a reason", restart.reason);
}

void limits_of(Check& check, const Leave& leave) {
  check.number("signal", leave.signal, 0, signals_max);
  sentence(check, "a reason", leave.reason);
}

void limits_of(Check& check, const Save& save) {
  check.number("signal", save.signal, 1, signals_max);
}

void limits_of(Check& check, const Heartbeat& beat) {
  check.number("trip",
               std::chrono::duration_cast<std::chrono::microseconds>(beat.round_trip).count(), 0,
               any);
  milliseconds(check, "watch_ms", beat.watch, watch_time_max);
  sentence(check, "a notice", beat.notice);
  milliseconds(check, "quiet_ms", beat.quiet, bounds::agent_time_max);
  milliseconds(check, "hang_ms", beat.hang_timeout, policy_time_max);
}

constexpr int parts_of(std::size_t bytes_max) {
  return static_cast<int>((bytes_max - 1) / bounds::record_part_bytes_max + 1);
}

void limits_of(Check& check, const Captured& captured) {
  check.number("parts", captured.parts, 1, parts_of(evidence_bytes_max));
  check.number("part", captured.part, 0, std::max(1, captured.parts) - 1);
  check.count("bytes", captured.bytes.size(), bounds::record_part_bytes_max);
  milliseconds(check, "quiet_ms", captured.quiet, bounds::agent_time_max);
}

void limits_of(Check& check, const Upgraded& upgraded) {
  sentence(check, "a version", upgraded.version);
  sentence(check, "an error", upgraded.error);
  milliseconds(check, "took_us", upgraded.took, bounds::agent_time_max);
}

void limits_of(Check& check, const Verdict& verdict) {
  check.number("rank", verdict.rank.value, 0, any);
  milliseconds(check, "quiet_ms", verdict.quiet, bounds::agent_time_max);
  check.text("a kind", verdict.kind, bounds::cause_bytes_max);
  sentence(check, "a verdict", verdict.sentence);
  check.count("clusters", verdict.clusters.size(), verdict_clusters_max);
  for (const std::string& each : verdict.clusters) {
    check.text("a cluster", each, verdict_line_bytes_max);
  }
}

void limits_of(Check& check, const Drained& drained) {
  milliseconds(check, "unsaved_ms", drained.unsaved, bounds::agent_time_max);
}

void limits_of(Check& check, const Record& record) {
  check.number("parts", record.parts, 1, bounds::record_parts_max);
  check.number("part", record.part, 0, std::max(1, record.parts) - 1);
  check.count("bytes", record.bytes.size(), bounds::record_part_bytes_max);
}

void limits_of(Check& check, const Stands& stands) {
  check.number("port", stands.port, 1, ports_max);
}

void limits_of(Check& check, const Standby& standby) {
  check.text("an address", standby.address, bounds::address_bytes_max);
  check.number("port", standby.port, 1, ports_max);
}

void limits_of(Check& check, const Led& led) {
  check.text("an address", led.address, bounds::address_bytes_max);
  check.number("port", led.port, 1, ports_max);
}

void limits_of(Check& check, const NotLeading& answer) {
  sentence(check, "a reason", answer.reason);
  check.text("an address", answer.address, bounds::place_bytes_max);
  check.number("port", answer.port, 0, ports_max);
}

void limits_of(Check& check, const Members& members) {
  check.count("places", members.places.size(), bounds::members_max);
  for (const std::string& each : members.places) {
    check.text("a place", each, bounds::place_bytes_max);
  }
  milliseconds(check, "patience_ms", members.takeover_window, bounds::agent_time_max);
}

void limits_of(Check& check, const Follow& follow) {
  check.text("a name", follow.name, bounds::host_bytes_max);
  check.text("a cluster", follow.cluster, bounds::host_bytes_max);
  check.text("a version", follow.version, bounds::host_bytes_max);
  check.text("a place", follow.address, bounds::place_bytes_max);
  check.number("features", follow.features, 0, any);
}

void limits_of(Check& check, const Leads& leads) {
  check.text("a name", leads.name, bounds::host_bytes_max);
  check.text("a cluster", leads.cluster, bounds::host_bytes_max);
  check.text("a version", leads.version, bounds::host_bytes_max);
  check.number("features", leads.features, 0, any);
}

// The codec has checked each number.
void limits_of(Check& check, const Status& status) {
  check.count("workers", status.workers.size(), bounds::local_world_size_max);
  for (std::size_t i = 1; i < status.workers.size(); ++i) {
    check.number("local_rank", status.workers[i].local_rank.value,
                 status.workers[i - 1].local_rank.value + 1, bounds::local_world_size_max - 1);
  }
}

void limits_of(Check& check, const Sealed& sealed) {
  check.number("restart", sealed.restart_count, 0, any);
  check.number("nodes", sealed.group_world_size, 1, bounds::nodes_max);
  check.number("node", sealed.group_rank.value, 0, std::max(1, sealed.group_world_size) - 1);
  check.number("world", sealed.world_size, 1, any);
  check.number("base", sealed.base_rank.value, 0, std::max(1, sealed.world_size) - 1);
  check.number("role_world", sealed.role_world_size, 1, sealed.world_size);
  check.number("role_base", sealed.role_base_rank, 0, std::max(1, sealed.role_world_size) - 1);
  check.number("store_port", sealed.store_port, 1, ports_max);
  if (sealed.failed_before) failure_of_worker(check, *sealed.failed_before);
  check.count("neighbours", sealed.neighbour.size(), bounds::node_addresses_max);
  for (const std::string& each : sealed.neighbour) {
    check.text("an address", each, bounds::address_bytes_max);
  }
}

void limits_of(Check& check, const Finish& finish) {
  check.number("code", finish.exit_code, 0, exit_codes_max);
  sentence(check, "a reason", finish.reason);
  if (finish.root) failure_of_worker(check, *finish.root);
  check.count("others", finish.consequences.size(), bounds::consequences_max);
  check.number("other_count", finish.consequence_count, 0, any);
  check.number("restarts", finish.restarts, 0, any);
  for (const Consequence& each : finish.consequences) {
    check.number("rank", each.rank.value, 0, any);
    check.number("node", each.group_rank.value, 0, bounds::nodes_max - 1);
    bad_end(check, each.status);
  }
  if (!finish.time) return;
  check.count("causes of lost time", finish.time->lost.size(), bounds::causes_counted_max);
  for (const LostTime& each : finish.time->lost) {
    check.text("a cause", each.cause, bounds::cause_bytes_max);
    check.text("a host", each.host, bounds::host_bytes_max);
  }
}

}  // namespace

std::optional<std::string> beyond_limits(const Message& message) {
  Check check;
  std::visit(Overloaded{
                 [](const Succeeded&) {},
                 [](const TakeOver&) {},
                 [](const Capture&) {},
                 [](const Upgrade&) {},
                 [&](const Waiting& m) { sentence(check, "a reason", m.reason); },
                 [&](const Refused& m) { sentence(check, "a reason", m.reason); },
                 [&](const Drain& m) { sentence(check, "a reason", m.reason); },
                 [&](const Dismissed& m) { sentence(check, "a reason", m.reason); },
                 [&](const auto& m) { limits_of(check, m); },
             },
             message);
  return std::move(check).problem();
}

namespace {

// Cuts between two characters and marks the cut.
void cut(std::string& text, std::size_t bytes_max) {
  constexpr std::string_view mark = "…";
  if (text.size() <= bytes_max) return;
  text.resize(length_within(text, bytes_max > mark.size() ? bytes_max - mark.size() : 0));
  text += mark;
}

void cut_texts(Failure& failure, std::size_t bytes_max) {
  cut(failure.message, bytes_max);
  cut(failure.host, bytes_max);
  cut(failure.cause, bytes_max);
}

void cut_texts(Finish& finish, std::size_t bytes_max) {
  cut(finish.reason, bytes_max);
  if (finish.root) cut_texts(*finish.root, bytes_max);
}

constexpr std::size_t time_bytes_max = bounds::round_frame_bytes_max / 2;

bool fits(const Finish& finish, std::size_t bytes_max = bounds::round_frame_bytes_max) {
  return encode(finish).size() <= bytes_max;
}

// Largest loss first.
void sort_time(Finish& finish) {
  if (!finish.time) return;
  auto& lost = finish.time->lost;
  std::stable_sort(lost.begin(), lost.end(), [](const LostTime& left, const LostTime& right) {
    return sum_of(left.time) > sum_of(right.time);
  });
}

// Drops what does not fit together with a short sentence.
void shorten_time(Finish& finish) {
  if (!finish.time) return;
  auto& lost = finish.time->lost;
  while (!fits(Finish{.reason = {}, .time = finish.time}, time_bytes_max)) {
    if (lost.empty()) return finish.time.reset();
    lost.pop_back();
  }
}

}  // namespace

Finish brief(Finish finish) {
  std::size_t text_bytes = bounds::round_frame_bytes_max / 4;
  sort_time(finish);
  auto& others = finish.consequences;
  others.resize(std::min(others.size(), bounds::consequences_brief_max));
  cut_texts(finish, text_bytes);
  // Usually done here: if the whole frame fits the budget of the times, so do the times.
  if (fits(finish, time_bytes_max)) return finish;
  shorten_time(finish);
  // Time use is worth less than the reason, names of consequences less than half a sentence. The
  // loop ends: a frame without them has fewer than 300 bytes.
  while (true) {
    cut_texts(finish, text_bytes);
    if (fits(finish)) return finish;
    if (finish.time && !finish.time->lost.empty()) {
      finish.time->lost.pop_back();
    } else if (finish.time) {
      finish.time.reset();
    } else if (text_bytes < 128 && !others.empty()) {
      others.pop_back();
    } else {
      text_bytes /= 2;
    }
  }
}

Sealed brief(Sealed sealed) {
  // An escaped character has up to six bytes.
  std::size_t text_bytes = bounds::round_frame_bytes_max / 4;
  while (sealed.failed_before) {
    cut_texts(*sealed.failed_before, text_bytes);
    if (encode(sealed).size() <= bounds::round_frame_bytes_max) break;
    text_bytes /= 2;
    if (text_bytes < 24) sealed.failed_before.reset();
  }
  return sealed;
}

Status brief(Status status) {
  // More rows than fit even if all numbers but the first had one digit. Avoids encoding a thousand
  // rows again and again.
  constexpr std::size_t rows_max = status_frame_bytes_max / (2 * FiguresRow{}.size());
  if (status.workers.size() > rows_max) status.workers.resize(rows_max);
  while (encode(status).size() > status_frame_bytes_max) status.workers.pop_back();
  return status;
}

namespace {

using Milliseconds = std::chrono::milliseconds;

struct Column {
  std::string_view name;
  std::int64_t least;
  std::int64_t most;
};

constexpr std::int64_t nothing = -1;
constexpr std::int64_t ages_max = Milliseconds{bounds::agent_time_max}.count();
constexpr std::array<Column, std::tuple_size_v<FiguresRow>> columns = {{
    {"local_rank", 0, bounds::local_world_size_max - 1},
    {"pid", 0, std::numeric_limits<int>::max()},
    {"state", 0, static_cast<std::int64_t>(WorkerState::failed)},
    {"since", 0, ages_max},
    {"step", nothing, figure_max},
    {"rate", nothing, figure_max},
    {"samples", nothing, figure_max},
    {"checkpoint", nothing, figure_max},
    {"beat", nothing, ages_max},
    {"resident", nothing, figure_max},
    {"cpu", nothing, 100LL * bounds::cpus_max},
    {"words", nothing, ages_max},
}};

std::int64_t number_of(Duration age) {
  return std::chrono::duration_cast<Milliseconds>(age).count();
}
std::int64_t number_of(const std::optional<Duration>& age) {
  return age ? std::max<std::int64_t>(number_of(*age), 0) : nothing;
}
std::int64_t number_of(const std::optional<std::int64_t>& number) {
  return number ? std::max<std::int64_t>(*number, 0) : nothing;
}

std::optional<std::int64_t> known(std::int64_t number) {
  return number == nothing ? std::nullopt : std::optional(number);
}
std::optional<Duration> age(std::int64_t number) {
  return number == nothing ? std::nullopt : std::optional<Duration>(Milliseconds{number});
}

}  // namespace

FiguresRow row_of(const WorkerStats& figures) {
  FiguresRow row = {figures.local_rank.value,
                    figures.pid,
                    static_cast<std::int64_t>(figures.state),
                    number_of(figures.since),
                    number_of(figures.step),
                    number_of(figures.millisteps_per_second),
                    number_of(figures.samples),
                    number_of(figures.checkpoint_step),
                    number_of(figures.last_beat),
                    number_of(figures.resident_kib),
                    number_of(figures.cpu_percent),
                    number_of(figures.last_words)};
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] = std::clamp(row[i], columns[i].least, columns[i].most);
  }
  return row;
}

std::string_view name_of_column(std::size_t index) {
  return columns.at(index).name;
}

Result<WorkerStats> figures_of(const FiguresRow& row) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (row[i] >= columns[i].least && row[i] <= columns[i].most) continue;
    return failure(fmt::format("{}={} is out of range", columns[i].name, row[i]));
  }
  return WorkerStats{.local_rank = LocalRank{static_cast<int>(row[0])},
                     .pid = static_cast<int>(row[1]),
                     .state = static_cast<WorkerState>(row[2]),
                     .since = Milliseconds{row[3]},
                     .step = known(row[4]),
                     .millisteps_per_second = known(row[5]),
                     .samples = known(row[6]),
                     .checkpoint_step = known(row[7]),
                     .last_beat = age(row[8]),
                     .resident_kib = known(row[9]),
                     .cpu_percent = known(row[10]),
                     .last_words = age(row[11])};
}

}  // namespace cpprun::link

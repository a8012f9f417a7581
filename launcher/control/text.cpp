// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/text.h"

#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <limits>
#include <tuple>

#include "launcher/failure/causes.h"
#include "launcher/failure/diagnosis.h"
#include "launcher/output/lines.h"
#include "launcher/plan/host_facts.h"
#include "proto/text.h"

namespace cpprun {

namespace {

constexpr std::int64_t minute = 60;
constexpr std::int64_t hour = 60 * minute;
constexpr std::int64_t day = 24 * hour;
constexpr std::int64_t seconds_max = 366 * day;

std::int64_t seconds_of(char unit) {
  if (unit == 's') return 1;
  if (unit == 'm') return minute;
  if (unit == 'h') return hour;
  return unit == 'd' ? day : 0;
}

}  // namespace

Result<std::int64_t> parse_duration(std::string_view text) {
  const auto wrong = [text] {
    return failure(fmt::format("\"{}\" is not a duration, such as 90s, 45m, 2h, 1h30m or 2d",
                               plain_line(text)));
  };
  std::int64_t total = 0;
  std::int64_t unit_before = std::numeric_limits<std::int64_t>::max();
  auto rest = text;
  while (!rest.empty()) {
    std::size_t digits = 0;
    while (digits < rest.size() && std::isdigit(static_cast<unsigned char>(rest[digits])) != 0) {
      ++digits;
    }
    const auto number = exact_number<std::int64_t>(rest.substr(0, digits));
    if (!number || *number > seconds_max) return wrong();
    rest.remove_prefix(digits);
    // A number without a unit counts as seconds, but only if it stands alone.
    const bool is_bare = rest.empty() && total == 0;
    const std::int64_t unit = is_bare ? 1 : seconds_of(rest.empty() ? '?' : rest.front());
    if (unit == 0 || unit >= unit_before) return wrong();
    if (!rest.empty()) rest.remove_prefix(1);
    unit_before = unit;
    total += *number * unit;
  }
  if (total < 1 || total > seconds_max) return wrong();
  return total;
}

std::string duration_text(double seconds) {
  if (!(seconds >= 0)) return "0 s";
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::min(seconds, 1e15));
  if (whole < minute) return fmt::format("{} s", whole);
  if (whole < hour) return fmt::format("{} min", whole / minute);
  if (whole < day) return fmt::format("{} h {} min", whole / hour, whole % hour / minute);
  return fmt::format("{} d {} h", whole / day, whole % day / hour);
}

namespace {

constexpr std::size_t shown_command_bytes = 200;

std::string since_text(double now, std::optional<double> since) {
  return since ? duration_text(now - *since) : "-";
}

std::string nodes_text(const JobView& job) {
  const auto there = job.nodes();
  if (job.nodes_min == job.nodes_max) return fmt::format("{}/{}", there, job.nodes_max);
  return fmt::format("{}/{}-{}", there, job.nodes_min, job.nodes_max);
}

std::string ranks_text(const NodeView& node) {
  if (!node.base_rank || node.workers < 1) return "-";
  if (node.workers == 1) return fmt::format("{}", *node.base_rank);
  return fmt::format("{}-{}", *node.base_rank, *node.base_rank + node.workers - 1);
}

std::string state_text(const NodeView& node) {
  if (!node.is_connected) return node.state + ", away";
  return node.is_leaving ? node.state + ", leaving" : node.state;
}

std::string heard_text(const NodeView& node) {
  if (node.hosts_coordinator) return "here";
  return node.silence ? duration_text(*node.silence) : "-";
}

template <class Write>
std::string or_dash(const std::optional<double>& figure, Write&& write) {
  return figure ? write(*figure) : std::string("-");
}

void add_figures(Table& table, const std::vector<NodeView>& nodes) {
  const auto add = [&](const char* title, auto StatsView::*which, auto&& write) {
    const bool is_known = std::ranges::any_of(
        nodes, [&](const NodeView& node) { return (node.figures.*which).has_value(); });
    if (!is_known) return;
    table.columns.push_back({.title = title, .is_number = true});
    for (std::size_t at = 0; at < nodes.size(); ++at) {
      table.rows[at].push_back({or_dash(nodes[at].figures.*which, write)});
    }
  };
  add("STEP", &StatsView::step, [](double step) { return fmt::format("{:.0f}", step); });
  add("STEPS/S", &StatsView::steps_per_second,
      [](double speed) { return fmt::format("{:.2f}", speed); });
  const auto percent = [](double load) { return fmt::format("{:.0f}", load); };
  add("CPU %", &StatsView::cpu_percent, percent);
  add("MEMORY", &StatsView::resident_bytes, memory_text);
  add("GPU %", &StatsView::gpu_percent, percent);
  add("GPU MEMORY", &StatsView::gpu_used_bytes, memory_text);
}

std::string state_words(const std::string& state) {
  if (state == "gathering") return "has been waiting for nodes";
  if (state == "pausing") return "has been waiting to restart";
  if (state == "draining") return "has been stopping its workers";
  return "has been running";
}

}  // namespace

Tint tint_of(const std::string& state) {
  if (state == "running" || state == "succeeded") return Tint::good;
  if (state == "gathering" || state == "pausing" || state == "waiting") return Tint::busy;
  if (state == "draining" || state == "drained") return Tint::bad;
  return Tint::plain;
}

std::string failure_text(const FailureView& failure) {
  const auto ending =
      failure.signal.empty() ? fmt::format("exit code {}", failure.exit_code) : failure.signal;
  const auto cause = failure.cause.empty() ? std::string() : fmt::format(" ({})", failure.cause);
  return plain_line(fmt::format("rank {} on {}: {}{}", failure.rank, failure.host, ending, cause));
}

std::string job_sentence(const JobView& job) {
  const auto name = plain_line(job.id);
  if (job.state == "over") {
    const auto why = job.reason.empty() ? std::string() : ": " + plain_line(job.reason);
    return fmt::format("job \"{}\" ended with exit code {}{}", name, job.exit_code.value_or(0),
                       why);
  }
  const auto length = job.since ? fmt::format(" for {}", duration_text(job.now - *job.since)) : "";
  return fmt::format("job \"{}\" {}{}: round {}, {} nodes, {} workers; {} of {} restarts used",
                     name, state_words(job.state), length, job.round, nodes_text(job),
                     job.world_size, job.restarts, job.restarts_max);
}

std::string progress_sentence(const ProgressView& progress) {
  std::string text;
  if (progress.total && progress.step && *progress.total > 0) {
    const double share = static_cast<double>(*progress.step) / static_cast<double>(*progress.total);
    text = fmt::format("step {} of {} ({:.0f} %)", *progress.step, *progress.total,
                       std::floor(100 * std::min(share, 1.0)));
    if (progress.remaining) text += fmt::format(", {} left", duration_text(*progress.remaining));
  }
  for (const auto& [name, value] : progress.metrics) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", plain_line(name),
                        value ? fmt::format("{:.4g}", *value) : "NaN");
  }
  return text;
}

Table jobs_table(const std::vector<SeenJob>& jobs) {
  Table table{.columns = {{.title = "JOB", .gives_way = true},
                          {.title = "STATE"},
                          {.title = "SINCE", .is_number = true},
                          {.title = "ROUND", .is_number = true},
                          {.title = "NODES", .is_number = true},
                          {.title = "WORKERS", .is_number = true},
                          {.title = "RESTARTS", .is_number = true},
                          {.title = "AT", .gives_way = true}},
              .rows = {}};
  for (const auto& [job, place] : jobs) {
    const bool is_bad_end = job.state == "over" && job.exit_code.value_or(0) != 0;
    const auto state =
        job.exit_code ? fmt::format("{} ({})", job.state, *job.exit_code) : job.state;
    table.rows.push_back({{job.id},
                          {state, is_bad_end ? Tint::bad : tint_of(job.state)},
                          {since_text(job.now, job.since)},
                          {fmt::format("{}", job.round)},
                          {nodes_text(job)},
                          {fmt::format("{}", job.world_size)},
                          {fmt::format("{}/{}", job.restarts, job.restarts_max)},
                          {job.page.empty() ? place : job.page, Tint::faint}});
  }
  return table;
}

Table nodes_table(const std::vector<NodeView>& nodes, double now) {
  Table table{.columns = {{.title = "NODE", .is_number = true},
                          {.title = "HOST", .gives_way = true},
                          {.title = "STATE"},
                          {.title = "SINCE", .is_number = true},
                          {.title = "RANKS", .is_number = true},
                          {.title = "HEARD", .is_number = true},
                          {.title = "PID", .is_number = true}},
              .rows = {}};
  for (const auto& node : nodes) {
    table.rows.push_back({{node.node ? fmt::format("{}", *node.node) : "-"},
                          {node.host},
                          {state_text(node), node.is_connected ? tint_of(node.state) : Tint::bad},
                          {since_text(now, node.since)},
                          {ranks_text(node)},
                          {heard_text(node)},
                          {fmt::format("{}", node.pid)}});
  }
  add_figures(table, nodes);
  return table;
}

Table rounds_table(const JobView& job) {
  Table table{.columns = {{.title = "ROUND", .is_number = true},
                          {.title = "BEGAN"},
                          {.title = "LASTED", .is_number = true},
                          {.title = "ENDED BY", .gives_way = true}},
              .rows = {}};
  for (const auto& round : job.rounds) {
    const bool runs = !round.ended && job.state != "over";
    const auto what = round.failure                  ? failure_text(*round.failure)
                      : runs && round.reason.empty() ? std::string("(running)")
                                                     : round.reason;
    table.rows.push_back({{fmt::format("{}", round.round)},
                          {duration_text(job.now - round.began) + " ago"},
                          {duration_text(round.ended.value_or(job.now) - round.began)},
                          {what, round.failure ? Tint::bad : Tint::plain}});
  }
  return table;
}

std::string list_text(const std::vector<SeenJob>& jobs, const Canvas& canvas) {
  return table_text(jobs_table(jobs), canvas);
}

std::string status_text(const JobView& job, const std::vector<NodeView>& nodes,
                        const Canvas& canvas) {
  std::string text = job_sentence(job) + "\n";
  if (const auto progress = progress_sentence(job.progress); !progress.empty()) {
    text += progress + "\n";
  }
  if (!job.command.empty()) {
    text += "command: " + plain_line(job.command, shown_command_bytes);
    if (!job.user.empty()) text += fmt::format(" (user {})", plain_line(job.user));
    text += "\n";
  }
  if (!job.page.empty()) text += "status page: " + plain_line(job.page) + "\n";
  if (!job.waits_for.empty()) text += plain_line(job.waits_for) + "\n";
  if (!job.warnings.empty()) {
    text += warnings_text(job.warnings, canvas);
  } else if (!job.cover.empty()) {
    text += plain_line(job.cover) + "\n";
  }
  if (!nodes.empty()) text += "\n" + table_text(nodes_table(nodes, job.now), canvas);
  if (!job.rounds.empty()) text += "\n" + table_text(rounds_table(job), canvas);
  if (job.rounds_left_out > 0) {
    text += fmt::format("({} rounds between the first and the last are no longer recorded)\n",
                        job.rounds_left_out);
  }
  return text;
}

namespace {

std::string called_at(const std::string& name, const std::string& place) {
  return fmt::format("\"{}\" at {}", plain_line(name), plain_line(place));
}

std::string role_line(const DaemonView& daemon) {
  const std::string length =
      daemon.since ? fmt::format(" for {}", duration_text(daemon.now - *daemon.since)) : "";
  const std::string own = fmt::format("cpprund {} ({})", called_at(daemon.name, daemon.place),
                                      plain_line(daemon.version));
  if (daemon.leads) {
    const std::string_view leads = daemon.since ? "has been the leader" : "is the leader";
    const bool is_alone = !daemon.has_etcd && daemon.standbys.empty();
    if (is_alone) return fmt::format("{} {}{}, without a standby\n", own, leads, length);
    return fmt::format("{} {}{} (epoch {})\n", own, leads, length, daemon.epoch);
  }
  if (daemon.leader.empty()) return own + " is a standby, no known leader\n";
  return fmt::format("{} is a standby, {}; the jobs are on {}, the leader{} (epoch {})\n", own,
                     daemon.is_in_sync ? "in sync" : "not yet in sync",
                     called_at(daemon.leader, daemon.leader_address), length, daemon.epoch);
}

std::string standby_line(const StandbyView& standby) {
  const std::string state =
      standby.is_in_sync && standby.bytes_behind == 0 ? "in sync"
      : standby.is_in_sync ? fmt::format("in sync, {} in flight", size_text(standby.bytes_behind))
                           : fmt::format("catching up, {} behind", size_text(standby.bytes_behind));
  return fmt::format("  standby {} ({}): {}\n", called_at(standby.name, standby.place),
                     plain_line(standby.version), state);
}

std::string kept_line(const DaemonView& daemon) {
  if (daemon.has_etcd) return "  state: on the leader and its standbys; job records also in etcd\n";
  if (!daemon.is_durable) return "  state: in memory only (no --state)\n";
  if (!*daemon.is_durable) {
    return "  state: cannot write to the state directory (--state); see the log of this cpprund\n";
  }
  return daemon.is_synced ? "  state: on disk before each reply (--state-sync)\n"
                          : "  state: in the state directory (--state)\n";
}

std::string change_line(const DaemonView& daemon) {
  const ChangeView& change = *daemon.last_change;
  const std::string before =
      change.from.empty() ? "" : fmt::format(" from \"{}\"", plain_line(change.from));
  const std::string silence =
      change.silence ? fmt::format("; no leader for {:.3f} s", *change.silence) : "";
  return fmt::format("  \"{}\" took over{} {} ago: {}{}\n", plain_line(change.to), before,
                     duration_text(daemon.now - change.time), plain_line(change.reason), silence);
}

}  // namespace

std::string daemon_text(const DaemonView& daemon) {
  std::string text = role_line(daemon);
  for (const StandbyView& each : daemon.standbys) text += standby_line(each);
  text += kept_line(daemon);
  if (!daemon.trouble.empty()) text += fmt::format("  etcd: {}\n", plain_line(daemon.trouble));
  if (daemon.last_change) text += change_line(daemon);
  return text;
}

std::string warnings_text(const std::vector<std::string>& warnings, const Canvas& canvas) {
  std::string text;
  for (const std::string& each : warnings) {
    text += tinted("warning: " + plain_line(each), Tint::bad, canvas.has_colour) + "\n";
  }
  return text;
}

namespace {

constexpr std::string_view indent = "    ";
// Stands for the program's path in the hint, because the coordinator does not know it.
constexpr const char* program = "PROGRAM";

// Prefixes every line of foreign text with a mark, so that it is not taken for cpprunctl's own
// output.
std::string quoted_lines(const std::string& words) {
  const std::string plain = printable(words);
  std::string text;
  for (const auto line : split(plain, '\n')) {
    if (!trimmed(line).empty()) text += fmt::format("{}| {}\n", indent, line);
  }
  return text;
}

std::string cause_text(const std::string& id) {
  const Cause* cause = find_cause(id);
  if (cause == nullptr) return {};
  return fmt::format("{}why: {}\n{}hint: {}\n", indent, cause->sentence, indent,
                     cause_advice(*cause, program));
}

std::string about(const FailureView& failure, std::size_t consequences, const Canvas& canvas) {
  auto text = tinted(failure_text(failure), Tint::bad, canvas.has_colour) +
              fmt::format(" (node {}, pid {})\n", failure.node, failure.pid);
  text += cause_text(failure.cause) + quoted_lines(failure.message);
  if (consequences > 0) {
    text += fmt::format("{}{} other workers failed as a consequence\n", indent, consequences);
  }
  return text;
}

}  // namespace

std::string failure_story(const JobView& job, const Canvas& canvas) {
  std::string text = job_sentence(job) + "\n";
  std::size_t failed = 0;
  for (const auto& round : job.rounds) {
    const auto age = duration_text(job.now - round.ended.value_or(job.now));
    const auto head = fmt::format("\nround {}, {} ago: ", round.round, age);
    if (round.failure) {
      text += head + about(*round.failure, round.consequence_count, canvas);
      ++failed;
    } else if (round.ended && !round.reason.empty()) {
      text += head + plain_line(round.reason) + "\n";
    }
  }
  if (job.rounds_left_out > 0) {
    text += fmt::format("\n({} rounds between the first and the last are no longer recorded)\n",
                        job.rounds_left_out);
  }
  if (failed == 0 && !job.root) text += "\nno worker of this job has failed\n";
  // A failure before any recorded round is known only from the end of the job.
  if (failed == 0 && job.root) text += "\nat the end of the job: " + about(*job.root, 0, canvas);
  return text;
}

namespace {

std::string frames_text(const std::vector<hang::Frame>& stack) {
  std::string text;
  std::size_t width = 0;
  for (const hang::Frame& frame : stack) width = std::max(width, frame.function.size());
  for (const hang::Frame& frame : stack) {
    std::string line = "  " + frame.function;
    if (!frame.file.empty()) {
      line.append(width - frame.function.size() + 2, ' ');
      line += frame.line == 0 ? frame.file : fmt::format("{}:{}", frame.file, frame.line);
    }
    text += plain_line(line) + "\n";
  }
  return text;
}

}  // namespace

std::string stacks_text(const CaptureView& capture, std::optional<int> rank) {
  std::string text;
  if (!rank) text += plain_line(capture.verdict) + "\n";
  bool is_found = false;
  for (const hang::Cluster& each : capture.evidence.clusters) {
    if (rank && !each.ranks.has(Rank{*rank})) continue;
    is_found = true;
    text += "\n" + plain_line(hang::text_of(each)) + "\n";
    text += frames_text(each.stack);
    if (each.native_stack.empty()) continue;
    text += fmt::format("  C and C++ of rank {}:\n", each.ranks.first().value);
    text += frames_text(each.native_stack);
  }
  if (rank && !is_found) text += fmt::format("no data for rank {}\n", *rank);
  for (const hang::Unread& each : capture.evidence.unread) {
    if (rank && !each.ranks.has(Rank{*rank})) continue;
    const bool has_probe = each.reason.find(hang::no_debug_server) == std::string::npos;
    text += fmt::format(
        "\nrank{} {}: {}\n", each.ranks.count() == 1 ? "" : "s", each.ranks.to_text(),
        has_probe ? "not read: " + plain_line(each.reason) : "no Python stack (no probe)");
    if (!has_probe) text += "  hint: start the job with --probe=on\n";
  }
  for (const std::string& each : capture.silent_nodes) {
    text += fmt::format(
        "\nno stacks from {} (no answer in time, disconnected, or an earlier version of cpprun)\n",
        plain_line(each));
  }
  return text;
}

namespace {

// Thirty-two letters, so that all are equally likely. Without those that look like another one.
constexpr std::string_view letters = "abcdefghijkmnpqrstuvwxyz23456789";
static_assert(letters.size() == 32);

}  // namespace

std::string secret_id(WallTime now, const IdBytes& random) {
  const std::chrono::year_month_day day{std::chrono::floor<std::chrono::days>(now)};
  std::string id =
      fmt::format("{:04}{:02}{:02}-", static_cast<int>(day.year()),
                  static_cast<unsigned>(day.month()), static_cast<unsigned>(day.day()));
  for (const unsigned char byte : random) id += letters[byte % letters.size()];
  return id;
}

std::string made_text(std::string_view id, std::string_view path) {
  return fmt::format(
      "created secret {} in {}\n"
      "Every node needs this file, readable only by its user: copy it (scp -p), or use a shared\n"
      "home directory. A running cpprund reads it on SIGHUP; a cpprund that has no secret yet "
      "must\n"
      "be restarted. Any user with this file can join and stop your jobs.\n",
      id, plain_line(path));
}

std::string added_text(std::string_view id, std::string_view path, std::string_view old_id) {
  return fmt::format(
      "created secret {} in {}, before {}\n"
      "Copy the file to every node, and send each cpprund a SIGHUP to reload it. A process that\n"
      "has the file accepts both secrets. When all nodes have it and earlier jobs ended, remove\n"
      "the line of the old secret everywhere.\n",
      id, plain_line(path), old_id);
}

std::string secrets_text(const Secrets& secrets) {
  std::string text;
  // Reserve up front, because a reallocation would leave an unwiped copy.
  text.reserve(secret_file_bytes_max);
  for (const auto& secret : secrets) {
    std::string line = secret_line(secret);
    text += line;
    text += '\n';
    ::explicit_bzero(line.data(), line.size());
  }
  return text;
}

namespace {

constexpr std::size_t page_rows = 10;
constexpr std::string_view keys =
    "q quit · sort by n number, h host, s state, l last heard, t since · r reverse · up/down";

// Nodes without a number come after those that have one.
std::tuple<bool, int> number_of(const NodeView& node) {
  return {!node.node, node.node.value_or(0)};
}

bool stands_before(const NodeView& left, const NodeView& right, TopOrder order) {
  const auto by = [&](const auto& key_of) {
    const auto mine = key_of(left);
    const auto theirs = key_of(right);
    return mine == theirs ? number_of(left) < number_of(right) : mine < theirs;
  };
  switch (order) {
    case TopOrder::number:
      return number_of(left) < number_of(right);
    case TopOrder::host:
      return by([](const NodeView& node) { return node.host; });
    case TopOrder::state:
      return by([](const NodeView& node) { return node.state; });
    case TopOrder::heard:
      // Nodes with the longest silence first, because users look for those.
      return by([](const NodeView& node) { return -node.silence.value_or(-1); });
    case TopOrder::since:
      return by([](const NodeView& node) { return -node.since; });
  }
  return false;
}

bool stands_before(const SeenJob& left, const SeenJob& right, TopOrder order) {
  if (order == TopOrder::state && left.job.state != right.job.state) {
    return left.job.state < right.job.state;
  }
  const auto since_of = [](const SeenJob& seen) { return -seen.job.since.value_or(0); };
  if (order == TopOrder::since && since_of(left) != since_of(right)) {
    return since_of(left) < since_of(right);
  }
  return std::tie(left.job.id, left.place) < std::tie(right.job.id, right.place);
}

template <class Rows>
Rows sorted(Rows rows, const TopSettings& settings) {
  std::stable_sort(rows.begin(), rows.end(), [&](const auto& left, const auto& right) {
    return stands_before(left, right, settings.order);
  });
  if (settings.is_reversed) std::reverse(rows.begin(), rows.end());
  return rows;
}

// The latest round with a failure.
std::string last_failure(const JobView& job) {
  for (auto at = job.rounds.rbegin(); at != job.rounds.rend(); ++at) {
    if (at->failure) return "last failure: " + failure_text(*at->failure);
  }
  return "no worker has failed";
}

std::vector<std::string> head_of(const TopView& view, const Canvas& canvas) {
  std::vector<std::string> lines;
  if (view.job) {
    lines.push_back(clipped(job_sentence(*view.job), canvas.width));
    const auto progress = progress_sentence(view.job->progress);
    if (!progress.empty()) lines.push_back(clipped(progress, canvas.width));
    const auto& waits = view.job->waits_for;
    lines.push_back(clipped(waits.empty() ? last_failure(*view.job) : waits, canvas.width));
  } else {
    lines.push_back(clipped(fmt::format("{} jobs", view.jobs.size()), canvas.width));
  }
  if (view.job && !view.job->warnings.empty()) {
    const std::string warning = "warning: " + plain_line(view.job->warnings.front());
    lines.push_back(tinted(clipped(warning, canvas.width), Tint::bad, canvas.has_colour));
  }
  if (!view.trouble.empty()) {
    lines.push_back(tinted(clipped(view.trouble, canvas.width), Tint::bad, canvas.has_colour));
  }
  lines.emplace_back();
  return lines;
}

}  // namespace

std::vector<std::string> top_frame(const TopView& view, const TopSettings& settings,
                                   const Canvas& canvas, std::size_t height) {
  auto lines = head_of(view, canvas);
  const Table table = view.job ? nodes_table(sorted(view.nodes, settings), view.job->now)
                               : jobs_table(sorted(view.jobs, settings));
  const auto rows = lines_of(table, canvas);
  constexpr std::size_t around = 2;  // the header row and the keys
  const std::size_t room = height > lines.size() + around ? height - lines.size() - around : 0;
  const std::size_t count = rows.size() - 1;
  const std::size_t first = std::min(settings.first, count > room ? count - room : 0);
  lines.push_back(rows.front());
  for (std::size_t at = first; at < count && at - first < room; ++at) lines.push_back(rows[at + 1]);
  std::string foot(keys);
  if (count > room) foot = fmt::format("{}-{} of {} · {}", first + 1, first + room, count, foot);
  lines.push_back(tinted(clipped(foot, canvas.width), Tint::faint, canvas.has_colour));
  if (lines.size() > height) lines.resize(height);
  return lines;
}

KeyEffect press(TopSettings& settings, std::string_view key) {
  const auto order_by = [&](TopOrder order) {
    settings.order = order;
    return KeyEffect::changed;
  };
  const auto move = [&](std::ptrdiff_t rows) {
    const auto now = static_cast<std::ptrdiff_t>(settings.first);
    settings.first = static_cast<std::size_t>(std::max<std::ptrdiff_t>(now + rows, 0));
    return KeyEffect::changed;
  };
  constexpr auto page = static_cast<std::ptrdiff_t>(page_rows);
  if (key == "q" || key == "Q") return KeyEffect::quit;
  if (key == "n") return order_by(TopOrder::number);
  if (key == "h") return order_by(TopOrder::host);
  if (key == "s") return order_by(TopOrder::state);
  if (key == "l") return order_by(TopOrder::heard);
  if (key == "t") return order_by(TopOrder::since);
  if (key == "r") {
    settings.is_reversed = !settings.is_reversed;
    return KeyEffect::changed;
  }
  if (key == "\x1b[A" || key == "k") return move(-1);
  if (key == "\x1b[B" || key == "j") return move(1);
  if (key == "\x1b[5~") return move(-page);
  if (key == "\x1b[6~" || key == " ") return move(page);
  return KeyEffect::none;
}

}  // namespace cpprun

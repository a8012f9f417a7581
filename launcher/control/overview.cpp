// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/overview.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/control/daemon_text.h"
#include "launcher/control/durations.h"
#include "proto/text.h"

namespace cpprun {

namespace {

constexpr double bytes_of_mebibyte = 1024.0 * 1024.0;
constexpr double mebibytes_of_gibibyte = 1024.0;

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

std::string memory_text(double bytes) {
  const double mebibytes = bytes / bytes_of_mebibyte;
  if (mebibytes < mebibytes_of_gibibyte) return fmt::format("{:.0f} MiB", mebibytes);
  return fmt::format("{:.1f} GiB", mebibytes / mebibytes_of_gibibyte);
}

template <class Write>
std::string or_dash(const std::optional<double>& figure, Write&& write) {
  return figure ? write(*figure) : std::string("-");
}

void add_figures(Table& table, const std::vector<NodeView>& nodes) {
  const auto add = [&](const char* title, auto FiguresView::*which, auto&& write) {
    const bool is_known = std::ranges::any_of(
        nodes, [&](const NodeView& node) { return (node.figures.*which).has_value(); });
    if (!is_known) return;
    table.columns.push_back({.title = title, .is_number = true});
    for (std::size_t at = 0; at < nodes.size(); ++at) {
      table.rows[at].push_back({or_dash(nodes[at].figures.*which, write)});
    }
  };
  add("STEP", &FiguresView::step, [](double step) { return fmt::format("{:.0f}", step); });
  add("STEPS/S", &FiguresView::steps_per_second,
      [](double speed) { return fmt::format("{:.2f}", speed); });
  add("CPU %", &FiguresView::cpu_percent, [](double load) { return fmt::format("{:.0f}", load); });
  add("MEMORY", &FiguresView::resident_bytes, memory_text);
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += line + "\n";
  return text;
}

std::string state_words(const std::string& state) {
  if (state == "gathering") return "has been gathering its nodes";
  if (state == "pausing") return "has been pausing before a restart";
  if (state == "draining") return "has been ending its workers";
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
    return fmt::format("job \"{}\" is over with exit code {}{}", name, job.exit_code.value_or(0),
                       why);
  }
  const auto length = job.since ? fmt::format(" for {}", duration_text(job.now - *job.since)) : "";
  return fmt::format("job \"{}\" {}{}: round {}, {} nodes, {} workers; {} of {} restarts used",
                     name, state_words(job.state), length, job.round, nodes_text(job),
                     job.world_size, job.restarts, job.restarts_max);
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
                          {place, Tint::faint}});
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
                          {.title = "WHAT BROKE IT", .gives_way = true}},
              .rows = {}};
  for (const auto& round : job.rounds) {
    const bool runs = !round.ended && job.state != "over";
    const auto what = round.failure                  ? failure_text(*round.failure)
                      : runs && round.reason.empty() ? std::string("it runs")
                                                     : round.reason;
    table.rows.push_back({{fmt::format("{}", round.round)},
                          {duration_text(job.now - round.began) + " ago"},
                          {duration_text(round.ended.value_or(job.now) - round.began)},
                          {what, round.failure ? Tint::bad : Tint::plain}});
  }
  return table;
}

std::string list_text(const std::vector<SeenJob>& jobs, const Canvas& canvas) {
  return joined(lines_of(jobs_table(jobs), canvas));
}

std::string status_text(const JobView& job, const std::vector<NodeView>& nodes,
                        const Canvas& canvas) {
  std::string text = job_sentence(job) + "\n";
  if (!job.waits_for.empty()) text += plain_line(job.waits_for) + "\n";
  if (!job.warnings.empty()) {
    text += warnings_text(job.warnings, canvas);
  } else if (!job.cover.empty()) {
    text += plain_line(job.cover) + "\n";
  }
  if (!nodes.empty()) text += "\n" + joined(lines_of(nodes_table(nodes, job.now), canvas));
  if (!job.rounds.empty()) text += "\n" + joined(lines_of(rounds_table(job), canvas));
  if (job.rounds_left_out > 0) {
    text += fmt::format("({} rounds between the first and the last are kept no more)\n",
                        job.rounds_left_out);
  }
  return text;
}

}  // namespace cpprun

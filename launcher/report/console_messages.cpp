// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/console_messages.h"

#include <fmt/format.h>

#include <chrono>

#include "launcher/failure/diagnosis.h"
#include "proto/state_machine.h"
#include "proto/text.h"
#include "proto/time_use.h"
#include "rendezvous/hang/verdict.h"

namespace cpprun {

ConsoleStyle console_style(bool terminal, const Environment& environment, const LogOptions& logs) {
  const std::string* no_colour = find_variable(environment, "NO_COLOR");
  const std::string* kind = find_variable(environment, "TERM");
  // An empty NO_COLOR counts as not set, as no-color.org specifies.
  const bool refused =
      (no_colour != nullptr && !no_colour->empty()) || (kind != nullptr && *kind == "dumb");
  const bool timed =
      logs.times == LogTimes::always || (logs.times == LogTimes::automatic && !terminal);
  return {.terminal = terminal, .colour = terminal && !refused, .timed = timed, .most = logs.level};
}

namespace {

constexpr const char* red = "\x1b[31m";
constexpr const char* yellow = "\x1b[33m";
constexpr const char* grey = "\x1b[90m";
constexpr const char* end_of_colour = "\x1b[0m";

const char* colour_of(LogLevel level) {
  switch (level) {
    case LogLevel::error:
      return red;
    case LogLevel::warning:
      return yellow;
    case LogLevel::info:
    case LogLevel::debug:
      break;
  }
  return "";
}

std::string count_of(int count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// "2 nodes × 2 workers", or "2 nodes, 5 workers, 2 of them here" if nodes differ.
std::string size_text(const Config& config, const link::Sealed& sealed) {
  const auto nodes = count_of(sealed.group_world_size, "node");
  if (sealed.world_size == sealed.group_world_size * config.local_world_size) {
    return fmt::format("{} × {}", nodes, count_of(config.local_world_size, "worker"));
  }
  return fmt::format("{}, {}, {} of them here", nodes, count_of(sealed.world_size, "worker"),
                     config.local_world_size);
}

std::string killed_text(const events::WorkerKilled& event) {
  const std::string seen = event.last_seen.empty() ? "" : "; " + event.last_seen;
  if (!event.grace) {
    return fmt::format("killing the worker with local rank {} at once{}", event.local_rank.value,
                       seen);
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*event.grace).count();
  return fmt::format(
      "killing the worker with local rank {}, which did not exit within {} s "
      "(--shutdown-timeout){}",
      event.local_rank.value, seconds, seen);
}

// The groups and the hint are shown once or twice in a job, not by each of a thousand nodes.
std::string hang_text(const events::HangFound& event) {
  const link::Verdict& verdict = event.verdict;
  std::string text = verdict.is_timeout
                         ? "a process group of PyTorch timed out"
                         : fmt::format("the job is hung: no rank made progress for {:.0f} s",
                                       in_seconds(verdict.quiet));
  if (!event.is_here && !event.is_first_node) return text + "; " + verdict.sentence;
  for (const auto part : hang::parts_of(verdict.sentence)) text += fmt::format("\n  {}", part);
  if (!verdict.clusters.empty()) text += "\n  stack groups:";
  for (const std::string& each : verdict.clusters) text += "\n    " + each;
  if (!event.stacks_file.empty()) text += "\n  full stacks: " + event.stacks_file;
  const auto hint = hang::hint_of(verdict.kind);
  return hint.empty() ? text : fmt::format("{}\n  hint: {}", text, hint);
}

std::string failed_text(const events::FirstFailure& event) {
  const Outcome& outcome = event.outcome;
  if (!outcome.verdict.empty()) return "";  // HangFound came before
  const auto pid = outcome.pid == 0 ? std::string() : fmt::format(", pid {}", outcome.pid);
  return fmt::format("rank {} (local rank {}{}) {}", outcome.rank.value, outcome.local_rank.value,
                     pid, to_text(outcome, event.executable));
}

std::string restarting_text(const events::WorkerRestarting& event) {
  const std::string when =
      event.pause > Duration{} ? fmt::format(" in {:.1f} s", in_seconds(event.pause)) : "";
  return fmt::format("restarting rank {} alone{}: {}", event.rank.value, when, event.reason);
}

std::string lease_nearly_missed_text(const events::LeaseNearlyMissed& event) {
  return fmt::format(
      "the master took {:.1f} s to respond; {:.1f} s later this node would have stopped its "
      "workers (lease: {} s); if this happens often, set a longer lease on every node (--rdzv-conf "
      "keep_alive_max_attempt=…)",
      in_seconds(event.silence), in_seconds(event.lease + event.takeover_window - event.silence),
      in_seconds(event.lease));
}

std::string leader_changed_text(const events::LeaderChanged& event) {
  std::string facts = event.epoch != 0 ? fmt::format("epoch {}", event.epoch) : "";
  if (event.silence > Duration{}) {
    facts += fmt::format("{}{:.1f} s", facts.empty() ? "" : ", ", in_seconds(event.silence));
  }
  if (!facts.empty()) facts = " (" + facts + ")";
  return fmt::format("leadership moved from {} to {}{}{}", to_string(event.from),
                     to_string(event.to), facts,
                     event.keeps_workers ? "; workers were not interrupted" : "");
}

std::string agent_upgraded_text(const events::AgentUpgraded& event) {
  const std::string to =
      event.from == event.to ? "" : fmt::format(" from {} to {}", event.from, event.to);
  return fmt::format("the agent was upgraded{} ({:.0f} ms); workers were not interrupted", to,
                     1000 * in_seconds(event.took));
}

}  // namespace

std::string ConsoleMessages::line(LogLevel level, const std::string& text) const {
  if (text.empty() || level > style_.most) return "";
  // Messages quote untrusted text: names of processes, hosts and keys.
  const std::string plain = plain_lines(text);
  const char* const colour = colour_of(level);
  if (!style_.colour || *colour == '\0') return fmt::format("cpprun: {}\n", plain);
  return fmt::format("{}cpprun: {}{}\n", colour, plain, end_of_colour);
}

std::string ConsoleMessages::for_terminal(const std::string& text) const {
  if (!style_.terminal || style_.most < LogLevel::info) return "";
  return style_.colour ? fmt::format("{}{}{}\n", grey, text, end_of_colour) : text + "\n";
}

std::string ConsoleMessages::started(const Config& config, const link::Sealed& sealed,
                                     const ResolvedProgram& program,
                                     const SocketInterfaces& sockets,
                                     const std::string& master_host,
                                     const std::string& status_page) const {
  auto text = fmt::format("cpprun {}: {}, node {}, round {}, store {}", CPPRUN_VERSION,
                          size_text(config, sealed), sealed.group_rank.value, sealed.round.value,
                          to_string(Endpoint{master_host, sealed.store_port}));
  if (!sockets.said.empty()) text += fmt::format(", gloo on {}", sockets.said);
  text += program.interpreter.empty() ? fmt::format(", {}", program.argv.front())
                                      : fmt::format(", python {}", program.interpreter);
  if (!status_page.empty()) text += fmt::format(", status page {}", status_page);
  return for_terminal(text);
}

std::string ConsoleMessages::finished(Duration duration) const {
  return for_terminal(
      fmt::format("cpprun {}: finished after {}", CPPRUN_VERSION, span_text(in_seconds(duration))));
}

std::string ConsoleMessages::message(LogLevel level, const std::string& sentence) const {
  return line(level, with_level(level, sentence));
}

std::string ConsoleMessages::text(const events::Event& event) const {
  return std::visit(
      Overloaded{
          [&](const events::Note& m) { return message(m.level, m.sentence); },
          [&](const events::CoordinatorNoted& m) { return message(m.level, m.text + m.hint); },
          [&](const events::Waiting& m) {
            return line(LogLevel::info, m.reason.empty() ? "" : "waiting: " + m.reason);
          },
          [&](const events::Draining& m) {
            return line(LogLevel::warning, "stopping the workers: " + m.reason);
          },
          [&](const events::WorkerKilled& m) { return line(LogLevel::warning, killed_text(m)); },
          [&](const events::HangFound& m) { return message(LogLevel::error, hang_text(m)); },
          [&](const events::FirstFailure& m) { return line(LogLevel::error, failed_text(m)); },
          [&](const events::WorkerRestarting& m) {
            return line(LogLevel::warning, restarting_text(m));
          },
          [&](const events::LeaseNearlyMissed& m) {
            return message(LogLevel::warning, lease_nearly_missed_text(m));
          },
          [&](const events::LeaderChanged& m) {
            return line(LogLevel::info, leader_changed_text(m));
          },
          [&](const events::AgentUpgraded& m) {
            return line(LogLevel::info, agent_upgraded_text(m));
          },
          [](const auto&) { return std::string(); },
      },
      event);
}

}  // namespace cpprun

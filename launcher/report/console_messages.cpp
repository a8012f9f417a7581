// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/report/console_messages.h"

#include <fmt/format.h>

#include <chrono>

#include "launcher/failure/diagnosis.h"
#include "proto/text.h"
#include "proto/time_use.h"

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

std::string ConsoleMessages::note(const std::string& sentence) const {
  return line(LogLevel::info, sentence);
}

std::string ConsoleMessages::detail(const std::string& sentence) const {
  return line(LogLevel::debug, sentence);
}

std::string ConsoleMessages::warning(const std::string& sentence) const {
  return line(LogLevel::warning, with_level(LogLevel::warning, sentence));
}

std::string ConsoleMessages::error(const std::string& sentence) const {
  return line(LogLevel::error, with_level(LogLevel::error, sentence));
}

std::string ConsoleMessages::waiting(const std::string& reason) const {
  return line(LogLevel::info, reason.empty() ? "" : "waiting: " + reason);
}

std::string ConsoleMessages::draining(const supervisor::Draining& action) const {
  return line(LogLevel::warning, fmt::format("stopping the workers: {}", action.reason));
}

std::string ConsoleMessages::killing(const supervisor::Killing& action, Duration grace,
                                     const std::string& last_seen) const {
  const std::string seen = last_seen.empty() ? "" : "; " + last_seen;
  if (action.at_once) {
    return line(LogLevel::warning, fmt::format("killing the worker with local rank {} at once{}",
                                               action.local_rank.value, seen));
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(grace).count();
  return line(LogLevel::warning, fmt::format("killing the worker with local rank {}, which did not "
                                             "exit within {} s (--shutdown-timeout){}",
                                             action.local_rank.value, seconds, seen));
}

std::string ConsoleMessages::failed(const supervisor::Failed& action,
                                    const std::string& executable) const {
  const auto& outcome = action.outcome;
  const auto pid = outcome.pid == 0 ? std::string() : fmt::format(", pid {}", outcome.pid);
  return line(LogLevel::error,
              fmt::format("rank {} (local rank {}{}) {}", outcome.rank.value,
                          outcome.local_rank.value, pid, to_text(outcome, executable)));
}

}  // namespace cpprun

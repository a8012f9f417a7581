// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/operator_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "proto/signal_names.h"

namespace cpprun {

namespace {

constexpr std::array names = {
    std::pair{OperatorCommand::Kind::stop, std::string_view("stop")},
    std::pair{OperatorCommand::Kind::restart, std::string_view("restart")},
    std::pair{OperatorCommand::Kind::save, std::string_view("save")},
    std::pair{OperatorCommand::Kind::capture, std::string_view("capture")},
    std::pair{OperatorCommand::Kind::drain, std::string_view("drain")},
    std::pair{OperatorCommand::Kind::exclude, std::string_view("exclude")},
    std::pair{OperatorCommand::Kind::include, std::string_view("include")},
    std::pair{OperatorCommand::Kind::forget, std::string_view("forget")},
    std::pair{OperatorCommand::Kind::upgrade, std::string_view("upgrade")},
    std::pair{OperatorCommand::Kind::handover, std::string_view("handover")},
};

}  // namespace

std::string_view name_of(OperatorCommand::Kind kind) {
  return std::ranges::find(names, kind, [](const auto& each) { return each.first; })->second;
}

std::optional<OperatorCommand::Kind> command_kind(std::string_view name) {
  const auto found = std::ranges::find(names, name, [](const auto& each) { return each.second; });
  if (found == names.end()) return std::nullopt;
  return found->first;
}

std::string_view name_of(CommandResult::Kind kind) {
  switch (kind) {
    case CommandResult::Kind::done:
      return "done";
    case CommandResult::Kind::malformed:
      return "malformed";
    case CommandResult::Kind::unknown:
      return "unknown";
    case CommandResult::Kind::not_now:
      return "not_now";
  }
  return "";
}

std::string told_by(const OperatorCommand& command, std::string_view what) {
  const std::string colon = command.reason.empty() ? "" : ": ";
  return fmt::format("{} {}{}{}", command.by, what, colon, command.reason);
}

std::string text_of(const OperatorCommand& command) {
  const bool is_handover = command.kind == OperatorCommand::Kind::handover;
  std::string text =
      fmt::format("{} asks to {}", command.by, is_handover ? "hand over" : name_of(command.kind));
  if (!command.whom.empty()) text += fmt::format(" \"{}\"", command.whom);
  if (!command.whom.empty() && !command.job.empty()) text += " of";
  if (!command.job.empty()) text += fmt::format(" job \"{}\"", command.job);
  if (!command.reason.empty()) text += fmt::format(" ({})", command.reason);
  return text;
}

std::optional<std::string> objection_to_signal(int signal) {
  if (!asks_to_end(signal)) return std::nullopt;
  return fmt::format(
      "{} would terminate or suspend the workers; use a signal that they handle: SIGUSR1, SIGUSR2, "
      "SIGWINCH, SIGCONT, SIGURG or SIGIO",
      signal_name(signal));
}

}  // namespace cpprun

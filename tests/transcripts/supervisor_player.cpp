// SPDX-License-Identifier: BSD-3-Clause
// Conversations with a supervisor.

#include <fmt/format.h>

#include <stdexcept>

#include "tests/transcripts/machine_text.h"

namespace cpprun::transcripts {

namespace {

using namespace std::chrono_literals;

std::string to_text(const Outcome& outcome) {
  if (outcome.given_up) return "given up";
  if (outcome.status.signalled) return "died of " + signal_text(outcome.status.value);
  return fmt::format("exited with {}", outcome.status.value);
}

std::string to_text(const supervisor::Action& action) {
  return std::visit(
      Overloaded{
          [](const supervisor::Failed& m) {
            return fmt::format("failed: rank {} {}", m.outcome.rank.value, to_text(m.outcome));
          },
          [](const supervisor::Draining& m) {
            return fmt::format("draining by {}: {}", signal_text(m.signal), m.reason);
          },
          [](const supervisor::Leaving& m) {
            return fmt::format("{} workers leave the round: {}", m.ranks.size(), m.reason);
          },
          [](const supervisor::Waiting& m) {
            return fmt::format("waiting for the next round; {} have exited", m.outcomes.size());
          },
          [](const supervisor::StillEnding& m) {
            return fmt::format("still ending: {} workers, {} other processes", m.ranks.size(),
                               m.others);
          },
          [](const supervisor::Leftover& m) {
            return fmt::format("left over: {} processes", m.processes.size());
          },
          [](const supervisor::Killing& m) {
            return fmt::format("killing {}{}", m.local_rank.value, m.at_once ? " at once" : "");
          },
          [](const supervisor::Finished& m) {
            std::string text = "settled";
            for (const Outcome& each : m.outcomes) {
              text += fmt::format("; rank {} {}", each.rank.value, to_text(each));
            }
            return text + (m.unswept ? "; something is left" : "");
          },
          [](const auto& m) { return transcripts::to_text(supervisor::ProcessAction{m}); },
      },
      action);
}

class SupervisorPlayer : public Player {
 public:
  explicit SupervisorPlayer(const Words& first)
      : machine_(workers(first.number("workers", 1)),
                 EndPolicy{.grace = first.duration("grace", 30s)}) {}

  std::vector<std::string> answer(const Words& said) override {
    std::vector<std::string> lines;
    for (const auto& action : actions(said)) lines.push_back(to_text(action));
    if (const auto broken = machine_.check()) lines.push_back("BROKEN: " + *broken);
    return lines;
  }

 private:
  Supervisor::Actions actions(const Words& said) {
    const std::string what = said.at(0);
    if (what == "start") return machine_.start(now_);
    if (what == "at") {
      now_ = TimePoint{duration_of(said.at(1))};
      return live_until(machine_, now_);
    }
    if (what == "stop") {
      return machine_.handle(now_, supervisor::Stop{said.rest(2), signal_of(said.at(1))});
    }
    if (what == "forward") {
      return machine_.handle(now_, supervisor::Forward{signal_of(said.at(1))});
    }
    if (what == "insist") return machine_.handle(now_, supervisor::Insist{said.rest(1)});
    const auto event = process_event_of(said);
    if (!event)
      throw std::invalid_argument("unknown input for a supervisor: \"" + said.rest(0) + "\"");
    return std::visit([this](const auto& each) { return machine_.handle(now_, each); }, *event);
  }

  TimePoint now_{};
  Supervisor machine_;
};

}  // namespace

std::unique_ptr<Player> make_supervisor_player(const Words& first) {
  return std::make_unique<SupervisorPlayer>(first);
}

}  // namespace cpprun::transcripts

// SPDX-License-Identifier: BSD-3-Clause
// Conversations with an agent: its coordinator on one side, its workers on the other.

#include <fmt/format.h>

#include <stdexcept>

#include "launcher/agent/agent.h"
#include "tests/transcripts/machine_text.h"

namespace cpprun::transcripts {

namespace {

using namespace std::chrono_literals;

std::string to_text(const agent::Action& action) {
  return std::visit(
      Overloaded{
          [](const agent::Dial&) { return std::string{"dial"}; },
          [](const agent::SpeakForWorkers&) { return std::string{"speak for the workers"}; },
          [](const agent::Say& m) { return "say " + json_of(m.message); },
          [](const agent::HangUp& m) { return "hang up: " + m.reason; },
          [](const agent::AskWhoHosts& m) {
            return fmt::format("ask who hosts at {} addresses", m.addresses.size());
          },
          [](const agent::StandBy& m) { return fmt::format("stand by, round {}", m.round.value); },
          [](const agent::Stand& m) {
            return fmt::format("vote for itself: {}", m.own.vote.value);
          },
          [](const agent::TakeOver&) { return std::string("take over"); },
          [](const agent::StepDown&) { return std::string{"step down"}; },
          [](const agent::Prepare& m) { return fmt::format("prepare {} workers", m.specs.size()); },
          [](const agent::Work& m) { return transcripts::to_text(m.action); },
          [](const agent::Examine& m) {
            return fmt::format("examine {}", m.outcome.local_rank.value);
          },
          [](const agent::ProbeWorld&) { return std::string{"look at the world"}; },
          [](const agent::SampleWorkers&) { return std::string{"look at the workers"}; },
          [](const agent::ReadProgress&) { return std::string{"read the workers' progress"}; },
          [](const agent::ReadLastLines&) { return std::string{"read a worker's last lines"}; },
          [](const agent::Upgrade& m) { return fmt::format("upgrade {}", m.number); },
          [](const agent::ObserveWorkers&) { return std::string{"read the workers' stacks"}; },
          [](const events::HangFound& m) { return "hang " + m.verdict.sentence; },
          [](const events::RoundSealed& m) {
            return fmt::format("tell: round {} has started", m.sealed.round.value);
          },
          [](const events::Waiting& m) { return "tell: waiting: " + m.reason; },
          [](const supervisor::Draining& m) {
            return fmt::format("tell: ending the workers by {}: {}", signal_text(m.signal),
                               m.reason);
          },
          [](const supervisor::Killing& m) {
            return fmt::format("tell: killing {}", m.local_rank.value);
          },
          [](const supervisor::Failed& m) {
            return fmt::format("tell: rank {} failed", m.outcome.rank.value);
          },
          [](const events::WorkerFailed& m) {
            return fmt::format("tell: what ended rank {} is {}", m.failure.rank.value,
                               m.failure.cause);
          },
          [](const events::WorkerRestarting& m) {
            return fmt::format("tell: rank {} is started again: {}", m.rank.value, m.reason);
          },
          [](const events::Note& m) {
            const char* const level = m.level == LogLevel::warning ? "warn: "
                                      : m.level == LogLevel::debug ? "detail: "
                                                                   : "tell: ";
            return level + m.sentence;
          },
          [](const events::LeaseNearlyMissed& m) {
            return fmt::format("tell: silent for {} ms", m.silence / 1ms);
          },
          [](const events::LeaderChanged& m) {
            return fmt::format("tell: turned to {}, epoch {}", m.to.host, m.epoch);
          },
          [](const events::JobEnded& m) {
            return fmt::format("exit {}: {}", m.exit_code, m.reason);
          },
      },
      action);
}

Config config_of(const Words& first) {
  Config config;
  config.rendezvous = RendezvousMode::fixed_master;
  config.endpoint = {"10.0.0.1", 29500};
  config.job = "j";
  std::tie(config.nodes_min, config.nodes_max) = first.range("nodes", {2, 2});
  config.restarts.max = first.number("restarts", 0);
  config.local_world_size = first.number("workers", 1);
  config.grace = first.duration("grace", 30s);
  config.join_timeout = first.duration("join-timeout", 600s);
  config.program.script = "/bin/true";
  return config;
}

AgentFacts facts_of(const Words& first) {
  return {.host = "beta",
          .pid = 42,
          .hosts_coordinator = first.has("hosts"),
          .program = {.argv = {"/bin/true"}, .interpreter = "", .entrypoint = "true"},
          .node = {},
          .interfaces = {{.name = "eth0", .up = true, .addresses = {"10.0.0.2"}}}};
}

class AgentPlayer : public Player {
 public:
  explicit AgentPlayer(const Words& first) : machine_(config_of(first), facts_of(first)) {}

  std::vector<std::string> answer(const Words& said) override {
    std::vector<std::string> lines;
    for (const auto& action : actions(said)) {
      if (const auto* asked = std::get_if<agent::Examine>(&action)) {
        examined_[asked->outcome.local_rank] = asked->outcome;
      }
      lines.push_back(to_text(action));
    }
    if (const auto broken = machine_.check()) lines.push_back("BROKEN: " + *broken);
    return lines;
  }

 private:
  Agent::Actions actions(const Words& said) {
    const std::string what = said.at(0);
    if (what == "start") return machine_.start(now_);
    if (what == "at") {
      now_ = TimePoint{duration_of(said.at(1))};
      return live_until(machine_, now_);
    }
    if (what == "link" && said.at(1) == "up") {
      return machine_.handle(now_, agent::LinkUp{"10.0.0.2"});
    }
    if (what == "link" && said.at(1) == "down") {
      return machine_.handle(now_, agent::LinkDown{said.rest(2)});
    }
    if (what == "hears") return machine_.handle(now_, agent::Heard{message_of(said.rest(1))});
    if (what == "signal") return machine_.handle(now_, agent::Signalled{signal_of(said.at(1))});
    if (what == "examined") {
      Evidence evidence;
      evidence.outcome = examined_.at(LocalRank{std::stoi(said.at(1))});
      return machine_.handle(now_, agent::Examined{std::move(evidence)});
    }
    const auto event = process_event_of(said);
    if (!event) throw std::invalid_argument("unknown input for an agent: \"" + said.rest(0) + "\"");
    return machine_.handle(now_, agent::FromWorker{*event});
  }

  TimePoint now_{};
  std::map<LocalRank, Outcome> examined_;
  Agent machine_;
};

}  // namespace

std::unique_ptr<Player> make_agent_player(const Words& first) {
  return std::make_unique<AgentPlayer>(first);
}

}  // namespace cpprun::transcripts

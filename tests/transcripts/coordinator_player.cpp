// SPDX-License-Identifier: BSD-3-Clause
// Conversations with a coordinator.

#include <fmt/format.h>

#include <stdexcept>

#include "rendezvous/coordinator/coordinator.h"
#include "tests/transcripts/machine_text.h"

namespace cpprun::transcripts {

namespace {

using namespace std::chrono_literals;

std::string to_text(const coordinator::NodeChange& change) {
  using Kind = coordinator::NodeChange::Kind;
  const char* const kind = change.kind == Kind::joined ? "joined"
                           : change.kind == Kind::lost ? "lost"
                                                       : "left";
  std::string text = fmt::format("node {}: {}", kind, change.host);
  if (change.rank) text += fmt::format(", node rank {}", change.rank->value);
  return text + (change.reason.empty() ? "" : ": " + change.reason);
}

std::string to_text(const coordinator::Action& action) {
  return std::visit(
      Overloaded{
          [](const coordinator::Say& m) {
            return fmt::format("say {} {}", m.link.value, json_of(m.message));
          },
          [](const coordinator::HangUp& m) {
            return fmt::format("hang up {}: {}", m.link.value, m.reason);
          },
          [](const coordinator::ResetStore& m) {
            return fmt::format("reset the store of {}: {}", m.job, m.reason);
          },
          [](const coordinator::OpenStore& m) { return fmt::format("open a store for {}", m.job); },
          [](const coordinator::CloseStore& m) {
            return fmt::format("close the store of {}: {}", m.job, m.reason);
          },
          [](const coordinator::Note& m) { return "note: " + m.line; },
          [](const coordinator::NodeChange& m) { return to_text(m); },
          [](const coordinator::KeepRecord& m) { return "keep the record of " + m.job; },
          [](const coordinator::RestoreStore& m) { return "restore the store of " + m.job; },
          [](const coordinator::HandOver&) { return std::string{"hand over"}; },
          [](const coordinator::ShowRecord& m) { return "show the record of " + m.job; },
          [](const coordinator::Lead& m) { return "lead " + m.job; },
          [](const coordinator::Answered& m) {
            return fmt::format("answer: {}: {}", name_of(m.outcome.kind), m.outcome.sentence);
          },
      },
      action);
}

CoordinatorOptions options_of(const Words& first) {
  CoordinatorOptions options{.options = {.lease = first.duration("lease", 3s),
                                         .status_interval = 30s,
                                         .last_call = first.duration("last-call", 10s),
                                         .store_port = 29500}};
  if (first.has("daemon")) return options;
  const auto [least, most] = first.range("nodes", {2, 2});
  options.only = JobTerms{.id = first.value("job").value_or("j"),
                          .nodes_min = least,
                          .nodes_max = most,
                          .restarts = {.max = first.number("restarts", 0)}};
  return options;
}

class CoordinatorPlayer : public Player {
 public:
  explicit CoordinatorPlayer(const Words& first) : first_(first), machine_(options_of(first)) {}

  std::vector<std::string> answer(const Words& said) override {
    std::vector<std::string> lines;
    for (const auto& action : actions(said)) lines.push_back(to_text(action));
    if (const auto broken = machine_.check()) lines.push_back("BROKEN: " + *broken);
    return lines;
  }

 private:
  Coordinator::Actions actions(const Words& said) {
    const std::string what = said.at(0);
    if (what == "at") {
      now_ = TimePoint{duration_of(said.at(1))};
      return live_until(machine_, now_);
    }
    if (what == "open") {
      const bool is_local = said.at(2) == "local";
      return machine_.handle(now_, Coordinator::Opened{{.link = link_of(said.at(1)),
                                                        .peer = is_local ? "127.0.0.1" : said.at(2),
                                                        .local = is_local}});
    }
    if (what == "close" || what == "break") {
      return machine_.handle(
          now_, Coordinator::Closed{link_of(said.at(1)), said.rest(2), what == "break"});
    }
    if (what == "store") {
      return machine_.handle(now_, Coordinator::StoreReady{said.at(1), std::stoi(said.at(2))});
    }
    if (what == "asks") return machine_.handle(now_, Coordinator::Ordered{1, order_of(said)});
    const LinkId link = link_of(what);
    if (said.at(1) == "joins") return machine_.handle(now_, Coordinator::Said{link, join_of(said)});
    if (said.at(1) == "says") {
      return machine_.handle(now_, Coordinator::Said{link, message_of(said.rest(2))});
    }
    throw std::invalid_argument("unknown input for a coordinator: \"" + said.rest(0) + "\"");
  }

  link::Join join_of(const Words& said) const {
    const auto [least, most] = first_.range("nodes", {2, 2});
    link::Join join{.job = said.value("job").value_or(first_.value("job").value_or("j")),
                    .host = said.value("host").value_or("host"),
                    .pid = said.number("pid", 1),
                    .nodes_min = least,
                    .nodes_max = most,
                    .local_world_size = said.number("workers", 1),
                    .restarts = {.max = first_.number("restarts", 0)},
                    .after = RoundNumber{static_cast<std::uint32_t>(said.number("after", 0))},
                    .idle = said.has("idle"),
                    .done = said.has("done")};
    if (said.value("rank")) join.node_rank = said.number("rank", 0);
    return join;
  }

  // "asks stop because of the heat", "asks drain whom=2", "asks save signal=USR1".
  OperatorCommand order_of(const Words& said) const {
    const auto kind = command_kind(said.at(1));
    if (!kind) throw std::invalid_argument("nothing is called " + said.at(1));
    OperatorCommand command{.kind = *kind,
                            .whom = said.value("whom").value_or(""),
                            .signal = signal_of(said.value("signal").value_or("USR1")),
                            .length = said.duration("for", 0s),
                            .reason = said.value("reason").value_or(""),
                            .by = "uid 0 (root)"};
    if (!command.is_about_a_host()) command.job = first_.value("job").value_or("j");
    return command;
  }

  static LinkId link_of(const std::string& text) { return LinkId{std::stoul(text)}; }

  Words first_;
  TimePoint now_{};
  Coordinator machine_;
};

}  // namespace

std::unique_ptr<Player> make_coordinator_player(const Words& first) {
  return std::make_unique<CoordinatorPlayer>(first);
}

}  // namespace cpprun::transcripts

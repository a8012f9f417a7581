// SPDX-License-Identifier: BSD-3-Clause
#include "tests/transcripts/machine_text.h"

#include <fmt/format.h>

#include <stdexcept>

#include "proto/link/codec.h"
#include "proto/signal_names.h"
#include "proto/text.h"

namespace cpprun::transcripts {

std::string json_of(const link::Message& message) {
  return link::encode(message).substr(4);
}

link::Message message_of(const std::string& json) {
  std::string frame;
  for (int shift = 0; shift < 32; shift += 8) {
    frame.push_back(static_cast<char>((json.size() >> shift) & 0xFF));
  }
  const auto decoded = link::decode(frame + json);
  if (!decoded) throw std::invalid_argument(decoded.error().reason);
  if (!*decoded) throw std::invalid_argument("a frame is incomplete: " + json);
  return (*decoded)->message;
}

std::string signal_text(int signal) {
  return signal_name(signal).substr(3);
}

int signal_of(const std::string& name) {
  const auto number = signal_number(name);
  if (!number) throw std::invalid_argument("there is no signal " + name);
  return *number;
}

// "tree 300:100 301:300": those processes, each with its parent.
static supervisor::TreeSeen tree_of(const Words& said) {
  supervisor::TreeSeen seen;
  const std::string all = said.rest(1);
  for (const std::string_view word : split(all, ' ')) {
    const auto colon = word.find(':');
    if (colon == std::string_view::npos) continue;
    seen.processes.push_back({.pid = std::stoi(std::string(word)),
                              .started = 1,
                              .parent = std::stoi(std::string(word.substr(colon + 1)))});
  }
  return seen;
}

std::optional<supervisor::ProcessEvent> process_event_of(const Words& said) {
  if (said.at(0) == "node" && said.at(1) == "swept") return supervisor::NodeSwept{};
  if (said.at(0) == "tree") return tree_of(said);
  if (said.at(0).find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  const LocalRank rank{std::stoi(said.at(0))};
  const std::string what = said.at(1);
  if (what == "started") return supervisor::Started{rank, std::stoi(said.at(2))};
  if (what == "cannot") return supervisor::SpawnFailed{rank, {SpawnStage::exec, 2}, WallTime{}};
  if (what == "exits") {
    return supervisor::Exited{rank, {.value = std::stoi(said.at(2))}, WallTime{}};
  }
  if (what == "dies") {
    return supervisor::Exited{
        rank, {.signalled = true, .value = signal_of(said.at(3))}, WallTime{}};
  }
  if (what == "group") return supervisor::GroupGone{rank};
  return std::nullopt;
}

std::string to_text(const supervisor::ProcessAction& action) {
  return std::visit(
      Overloaded{
          [](const supervisor::Spawn& m) {
            return fmt::format("spawn {} as rank {}", m.spec.local_rank.value, m.spec.rank.value);
          },
          [](const supervisor::SignalGroup& m) {
            return fmt::format("signal {} {}", m.local_rank.value, signal_text(m.signal));
          },
          [](const supervisor::SignalWorker& m) {
            return fmt::format("signal the worker {} alone {}", m.local_rank.value,
                               signal_text(m.signal));
          },
          [](const supervisor::DumpStack& m) {
            return fmt::format("dump the stack of {}", m.local_rank.value);
          },
          [](const supervisor::SignalMain& m) {
            return fmt::format("signal the main process of {} {}", m.local_rank.value,
                               signal_text(m.signal));
          },
          [](const supervisor::SignalProcess& m) {
            return fmt::format("signal process {} {}", m.pid, signal_text(m.signal));
          },
          [](const supervisor::WatchTree&) { return std::string{"watch the tree"}; },
          [](const supervisor::Release& m) {
            return fmt::format("release {}", m.local_rank.value);
          },
          [](const supervisor::Sweep& m) { return fmt::format("sweep {}", m.local_rank.value); },
          [](const supervisor::SweepNode&) { return std::string{"sweep the node"}; },
          [](const supervisor::LeaveRound& m) {
            return fmt::format("{} is to leave round {}", m.local_rank.value, m.round.value);
          },
          [](const supervisor::TakePlace& m) {
            return fmt::format("{} becomes rank {}", m.spec.local_rank.value, m.spec.rank.value);
          },
          [](const supervisor::ReadHeartbeats&) { return std::string{"look at the beats"}; },
      },
      action);
}

std::vector<WorkerSpec> workers(int count) {
  std::vector<WorkerSpec> specs;
  for (int i = 0; i < count; ++i) specs.push_back({.local_rank = LocalRank{i}, .rank = Rank{i}});
  return specs;
}

}  // namespace cpprun::transcripts

// SPDX-License-Identifier: BSD-3-Clause
#include "tests/sim/unidentified_connections.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <utility>

#include "proto/link/codec.h"

namespace cpprun::sim {

using namespace std::chrono_literals;

namespace {

constexpr Duration pause_max = 700ms;  // between two messages

// As often an ordinary number as an extreme one.
int any_number(Random& random) {
  constexpr std::array extremes = {
      0, 1, -1, 255, 256, 65'536, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()};
  if (random.chance(0.6)) return random.between(0, 8);
  return extremes[random.next() % extremes.size()];
}

RoundNumber any_round(Random& random) {
  constexpr std::array<std::uint32_t, 5> extremes = {0, 1'000'000'000, 1'000'000'001, 4'294'967'294,
                                                     4'294'967'295};
  if (random.chance(0.7)) return RoundNumber{static_cast<std::uint32_t>(random.between(0, 5))};
  return RoundNumber{extremes[random.next() % extremes.size()]};
}

std::string any_text(Random& random, const std::string& ordinary) {
  if (random.chance(0.5)) return ordinary;
  if (random.chance(0.1)) return std::string(5000, 'x');
  return fmt::format("\x1b[2J{}\n", random.next() % 100);
}

link::AgentTime any_time(Random& random) {
  return link::AgentTime{random.chance(0.5) ? any_number(random)
                                            : static_cast<std::int64_t>(random.next())};
}

}  // namespace

void UnidentifiedConnections::come(const Fault& fault) {
  const int number = came_++;
  const auto life =
      std::make_shared<Life>(Life{.random = Random{universe_.scenario.seed, 77, number},
                                  .is_liar = fault.kind == FaultKind::liar,
                                  .address = fmt::format("10.66.0.{}", number + 1),
                                  .job = fmt::format("of-liars{}", number),
                                  .until = universe_.time.now() + fault.lasts});
  step(life);
}

void UnidentifiedConnections::step(const std::shared_ptr<Life>& life) {
  if (universe_.time.now() >= life->until) {
    if (life->link != LinkId{})
      coordinator_.unidentified_leaves(life->link, life->random.chance(0.5));
    return;
  }
  speak(*life);
  universe_.time.later(life->random.up_to(pause_max), [this, life] { step(life); });
}

void UnidentifiedConnections::speak(Life& life) {
  Random& random = life.random;
  const bool begins = life.link == LinkId{} || !coordinator_.knows_unidentified(life.link);
  if (begins) {
    life.link = coordinator_.unidentified_comes(life.address);
    // A liar first takes its seat, to lie from there.
    if (random.chance(life.is_liar ? 1.0 : 0.8)) {
      coordinator_.unidentified_says(life.link, link::encode(join_of(life)));
    } else {
      coordinator_.unidentified_says(life.link, link::encode(introduction_of(life)));
    }
    return;
  }
  if (random.chance(0.1)) {
    coordinator_.unidentified_leaves(life.link, random.chance(0.5));
    life.link = {};
    return;
  }
  std::string bytes = link::encode(random.chance(0.1) ? join_of(life) : lie_of(random));
  if (random.chance(0.1)) bytes[4 + random.next() % (bytes.size() - 4)] ^= 1;
  coordinator_.unidentified_says(life.link, bytes);
}

link::Join UnidentifiedConnections::join_of(Life& life) {
  Random& random = life.random;
  const int victim = random.between(0, universe_.scenario.nodes() - 1);
  // All public facts of a node, but not the secret number of its agent.
  link::Join join{.job = life.job,
                  .host = fmt::format("host{}", victim),
                  .pid = 100 + victim,
                  .agent = static_cast<std::uint32_t>(random.next()) | 1,
                  .addresses = {address_of(victim)},
                  .lease = std::chrono::milliseconds(random.between(1, 5000)),
                  .last_call = std::chrono::milliseconds(random.between(0, 5000)),
                  .sent = any_time(random)};
  if (life.is_liar) {
    if (random.chance(0.3)) join.nodes_max = random.between(1, 4);
    return join;
  }
  join.job = fmt::format("stranger{}", random.between(0, 3));
  join.after = any_round(random);
  join.idle = random.chance(0.5);
  if (random.chance(0.3)) join.node_rank = any_number(random);
  if (random.chance(0.3)) join.nodes_min = any_number(random);
  if (random.chance(0.3)) join.nodes_max = any_number(random);
  if (random.chance(0.3)) join.local_world_size = any_number(random);
  if (random.chance(0.3)) join.restarts.max = any_number(random);
  if (random.chance(0.3)) join.lease = std::chrono::milliseconds(any_number(random));
  if (random.chance(0.1)) join.addresses.assign(1000, address_of(victim));
  if (random.chance(0.1)) join.host = any_text(random, join.host);
  const std::string name = job_id(universe_.scenario.job_of(victim));
  if (random.chance(0.5) && coordinator_.coordinator() != nullptr &&
      coordinator_.coordinator()->knows(name)) {
    // The name of an existing job, with terms that it never has.
    join.job = name;
    join.restarts.max = 77;
  }
  return join;
}

// Claims to be another address of a node.
link::WhoHosts UnidentifiedConnections::introduction_of(Life& life) const {
  Random& random = life.random;
  const int victim = random.between(0, universe_.scenario.nodes() - 1);
  return {.job = job_id(universe_.scenario.job_of(victim)),
          .host = fmt::format("host{}", victim),
          .pid = 100 + victim,
          .agent = random.chance(0.5) ? 0 : static_cast<std::uint32_t>(random.next()) | 1,
          .joins = random.chance(0.9)};
}

link::Message UnidentifiedConnections::lie_of(Random& random) const {
  const int victim = random.between(0, universe_.scenario.nodes() - 1);
  const std::string host = fmt::format("host{}", victim);
  const link::Failure failure{.rank = Rank{any_number(random)},
                              .local_rank = LocalRank{any_number(random)},
                              .group_rank = GroupRank{any_number(random)},
                              .host = any_text(random, host),
                              .pid = any_number(random),
                              .status = {random.chance(0.5), any_number(random)},
                              .message = any_text(random, "failed"),
                              .cause = any_text(random, "node_lost"),
                              .consequence = random.chance(0.5)};
  switch (random.between(0, 9)) {
    case 0:
    case 1:
      return link::Failed{any_round(random), failure, any_time(random)};
    case 2:
      return link::Succeeded{any_round(random)};
    case 3:
      return link::Drained{any_round(random)};
    case 4:
      return link::Leave{any_number(random), any_text(random, "asked to stop")};
    case 5:
      return link::Sealed{.round = any_round(random), .group_world_size = any_number(random)};
    case 6:
      return link::Drain{any_round(random), any_text(random, "ends")};
    case 7:
      return link::Finish{.exit_code = any_number(random), .reason = "over", .root = failure};
    default:
      return link::Heartbeat{any_time(random), std::chrono::microseconds(any_number(random))};
  }
}

}  // namespace cpprun::sim

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/coordinator_link.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>

#include "proto/link/bounds.h"
#include "proto/link/codec.h"

namespace join_message_test {

using namespace cpprun;
using namespace std::chrono_literals;

TEST_CASE("a join states what the coordinator must know of this node") {
  Config config;
  config.job = std::string("j");
  config.nodes_min = 2;
  config.nodes_max = 4;
  config.node_rank = 3;
  config.local_world_size = 8;
  config.restarts.max = 5;
  config.restarts.backoff = 1500ms;
  config.restarts.window = 60s;
  config.restarts.final_codes = {2, -9};
  config.keep_alive_interval = 2s;
  const auto join =
      join_message(config, {.host = "beta", .pid = 42}, {.after = RoundNumber{7}, .sent = 9s});
  CHECK(join == link::Join{.job = "j",
                           .host = "beta",
                           .pid = 42,
                           .node_rank = 3,
                           .nodes_min = 2,
                           .nodes_max = 4,
                           .local_world_size = 8,
                           .restarts = config.restarts,
                           .lease = 6s,
                           .last_call = 30s,
                           .after = RoundNumber{7},
                           .sent = 9s,
                           .can_lead = true,
                           .turns = true,
                           .captures = true,
                           .upgrades = true});
}

TEST_CASE("a join names a few addresses by which other machines reach this one") {
  AgentFacts facts{.host = "beta"};
  facts.interfaces = {{.name = "lo", .up = true, .loopback = true, .addresses = {"127.0.0.1"}},
                      {.name = "down0", .up = false, .addresses = {"10.0.0.1"}},
                      {.name = "eth0", .up = true, .addresses = {"10.0.0.2", "fe80::2"}},
                      {.name = "eth1", .up = true, .addresses = {"fd00::2", "10.1.0.2"}},
                      {.name = "eth2", .up = true, .addresses = {"10.2.0.2", "10.3.0.2"}}};
  CHECK(join_message(Config{}, facts, {}).addresses ==
        std::vector<std::string>{"10.0.0.2", "fd00::2", "10.1.0.2", "10.2.0.2"});
}

TEST_CASE("the largest join stays within 512 bytes by leaving addresses out") {
  Config config;
  config.job = std::string(40, 'j');
  config.nodes_min = 99'998;
  config.nodes_max = 99'999;
  config.node_rank = 99'998;
  config.local_world_size = bounds::local_world_size_max;
  config.role = std::string(24, 'r');
  config.restarts.max = 100'000;
  config.restarts.backoff = 24h;
  config.restarts.window = 24h;
  config.restarts.final_codes.assign(bounds::no_restart_codes_max, 255);
  config.keep_alive_interval = 3600s;
  config.last_call = 24h;
  AgentFacts facts{.host = std::string(64, 'h'), .pid = 4'194'304, .agent = 4'294'967'295};
  const std::string address = "2001:db8:1234:5678:9abc:def0:1234:5678";
  facts.interfaces = {{.name = "eth0", .up = true, .addresses = {address, address}}};
  const auto join = join_message(config, facts,
                                 {.after = RoundNumber{99'999},
                                  .sent = 87'600h,
                                  .epoch = std::numeric_limits<std::uint64_t>::max()});
  CHECK(join.turns);
  CHECK(link::encode(join).size() <= bounds::round_frame_bytes_max);
}

}  // namespace join_message_test

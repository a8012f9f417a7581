#include "launcher/join_message.h"

#include <doctest/doctest.h>

using namespace cpprun;
using namespace std::chrono_literals;

TEST_CASE("a join says what the keeper must know of this node") {
  Config config;
  config.job = "j";
  config.nodes_min = 2;
  config.nodes_max = 4;
  config.node_rank = 3;
  config.local_world_size = 8;
  config.restarts_max = 5;
  config.keep_alive_interval = 2s;
  const auto join = join_message(config, {.host = "beta", .pid = 42}, RoundNumber{7});
  CHECK(join == link::Join{.job = "j",
                           .host = "beta",
                           .pid = 42,
                           .node_rank = 3,
                           .nodes_min = 2,
                           .nodes_max = 4,
                           .local_world_size = 8,
                           .restarts_max = 5,
                           .lease_milliseconds = 6000,
                           .last_call_milliseconds = 30'000,
                           .after = RoundNumber{7}});
}

TEST_CASE("a join names the addresses that mean this machine to others, a few of them") {
  AgentFacts facts{.host = "beta"};
  facts.interfaces = {{.name = "lo", .up = true, .loopback = true, .addresses = {"127.0.0.1"}},
                      {.name = "down0", .up = false, .addresses = {"10.0.0.1"}},
                      {.name = "eth0", .up = true, .addresses = {"10.0.0.2", "fe80::2"}},
                      {.name = "eth1", .up = true, .addresses = {"fd00::2", "10.1.0.2"}},
                      {.name = "eth2", .up = true, .addresses = {"10.2.0.2", "10.3.0.2"}}};
  CHECK(join_message(Config{}, facts, {}).addresses ==
        std::vector<std::string>{"10.0.0.2", "fd00::2", "10.1.0.2", "10.2.0.2"});
}

// Thousands of jobs in simulated time. A failure names its seed: run it alone with
// CPPRUN_SIM_SEED=<seed>.

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "tests/sim/world.h"

using namespace cpprun;
using namespace cpprun::sim;
using namespace std::chrono_literals;

namespace {

// Runs seeds `first` to `first + count - 1`; every one must keep the invariants and `also`.
void sail(const Scenario& scenario, std::uint64_t first, std::uint64_t count,
          const std::function<void(const World&)>& also) {
  if (const char* only = std::getenv("CPPRUN_SIM_SEED")) {
    first = std::stoull(only);
    count = 1;
  }
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    CAPTURE(seed);
    World world{scenario, seed};
    REQUIRE(world.run().value_or("") == "");
    also(world);
  }
}

}  // namespace

TEST_CASE("in fair weather every node ends with 0 and nothing is restarted") {
  Scenario scenario;
  scenario.weather = {.worker_fails = 0, .worker_hangs = 0.5, .spawn_fails = 0, .link_breaks = 0};
  sail(scenario, 1, 200, [](const World& world) {
    CHECK(world.exit_code_of(0) == 0);
    CHECK(world.exit_code_of(1) == 0);
    CHECK(world.restarts_seen() == 0);
  });
}

TEST_CASE("when workers fail, hang and cannot start, every node ends with the same code") {
  Scenario scenario{.nodes = 3};
  sail(scenario, 1000, 1000, [](const World& world) {
    CHECK(world.exit_code_of(0).has_value());
    CHECK(world.exit_code_of(1) == world.exit_code_of(0));
    CHECK(world.exit_code_of(2) == world.exit_code_of(0));
  });
}

TEST_CASE("when an agent dies the others end or wait in vain, and never share a rank") {
  Scenario scenario{.nodes = 4};
  scenario.weather.agent_dies = 0.3;
  sail(scenario, 5000, 500, [](const World& world) {
    CHECK(world.exit_code_of(0).has_value());
    if (world.agent_was_killed()) CHECK(world.exit_code_of(0) != 0);
  });
}

TEST_CASE("when nodes are asked to stop in every phase nobody stays behind") {
  Scenario scenario{.nodes = 3};
  scenario.weather.node_is_stopped = 0.4;
  sail(scenario, 9000, 500, [](const World& world) { CHECK(world.exit_code_of(0).has_value()); });
}

TEST_CASE("nodes that come late, are surplus, die and leave: no rank is shared, everybody ends") {
  Scenario scenario{.nodes = 4, .nodes_min = 2, .surplus = 2};
  scenario.arrival_max = 200s;
  scenario.weather.agent_dies = 0.2;
  scenario.weather.node_is_stopped = 0.2;
  sail(scenario, 20000, 1000, [](const World& world) {
    CHECK(world.exit_code_of(0).has_value());
    CHECK(world.restarts_seen() <= 2);
  });
}

TEST_CASE("a fixed size with spares goes on when a node dies, without spending a restart") {
  Scenario scenario{.nodes = 3, .surplus = 2, .restarts_max = 0};
  scenario.weather = {.worker_fails = 0,
                      .worker_hangs = 0.3,
                      .spawn_fails = 0,
                      .link_breaks = 0.1,
                      .agent_dies = 0.2};
  sail(scenario, 30000, 500, [](const World& world) {
    CHECK(world.restarts_seen() == 0);
    CHECK(world.exit_code_of(0).has_value());
  });
}

TEST_CASE("a thousand nodes drain and restart as two do") {
  Scenario scenario{.nodes = 1000, .workers_per_node = 1, .restarts_max = 1};
  scenario.weather = {
      .worker_fails = 0.001, .worker_hangs = 0.01, .spawn_fails = 0, .link_breaks = 0.01};
  sail(scenario, 70000, 3,
       [](const World& world) { CHECK(world.exit_code_of(999) == world.exit_code_of(0)); });
}

// What must hold whatever goes wrong, over a fixed set of seeds. A seed that fails prints itself,
// how to play it again, and what happened. `./dev sim` plays others.

#include <doctest/doctest.h>

#include "tests/sim/campaign.h"
#include "tests/sim/world.h"

#include <algorithm>

using namespace cpprun;
using namespace cpprun::sim;
using namespace std::chrono_literals;

namespace {

// An instrumented build is ten times slower.
#ifdef __SANITIZE_ADDRESS__
constexpr std::uint64_t share = 10;
#else
constexpr std::uint64_t share = 1;
#endif

void must_hold(const std::string& kinds, std::uint64_t first, std::uint64_t seeds,
               int agents_max = 6) {
  const Campaign campaign{.first = first,
                          .seeds = std::max<std::uint64_t>(1, seeds / share),
                          .agents_max = agents_max,
                          .kinds = parse_kinds(kinds).value(),
                          .kinds_text = kinds,
                          .keep = {}};
  const Tally tally = sail(campaign);
  if (tally.failed) FAIL(report_of(campaign, *tally.failed));
  CHECK(tally.runs == campaign.seeds);
}

}  // namespace

TEST_CASE("in fair weather every job ends with 0 and nothing is restarted") {
  must_hold("none", 1, 500);
}
TEST_CASE("workers may fail, crash, hang, sit in the kernel and leave members behind") {
  must_hold("workers", 10'000, 2000);
}
TEST_CASE("the failure that is called the first is the first, whatever the clocks say") {
  must_hold("exit,spawn,clocks", 20'000, 2000);
}
TEST_CASE("agents may be killed, stopped, signalled and replaced, machines may lose power") {
  must_hold("agents", 30'000, 2000);
}
TEST_CASE("links may break, lead nowhere, stall, and be cut in either direction or both") {
  must_hold("network", 40'000, 3000);
}
TEST_CASE("the keeper may be killed, stopped, or lose its machine") {
  must_hold("keeper", 50'000, 1000);
}
TEST_CASE("everything may go wrong at once") {
  must_hold("all", 60'000, 5000);
}

TEST_CASE("ten thousand agents, of which one in a hundred fails, keep what six keep") {
  must_hold("exit", 1, 1, 10'000);
}

TEST_CASE("the same seed gives the same run, byte for byte") {
  const FaultKinds all = parse_kinds("all").value();
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    World once{draw(seed, 6, all), true};
    World again{draw(seed, 6, all), true};
    CHECK(once.run() == again.run());
    CHECK(once.transcript() == again.transcript());
    CHECK_FALSE(once.transcript().empty());
  }
}

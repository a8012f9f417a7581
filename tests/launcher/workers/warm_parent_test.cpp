// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/warm_parent.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

namespace warm_parent_test {

using namespace cpprun;
using namespace std::chrono_literals;

constexpr TimePoint begin{1h};

WorkerSpec worker() {
  WorkerSpec spec;
  spec.argv = {"/usr/bin/python3", "-u", "train.py", "--epochs=3"};
  spec.variables = {{"RANK", "1"}, {"OMP_NUM_THREADS", "1"}, {"CPPRUN_NODE_TOKEN", "t"}};
  spec.cpus = {2, 3};
  return spec;
}

TEST_CASE("the parent is run by the workers' Python and told the modules and their command") {
  const WorkerSpec spec = warm_parent_spec(worker(), {"torch", "numpy"}, /*has_one_worker=*/false);
  REQUIRE(spec.argv.size() == 8);
  CHECK(spec.argv[0] == "/usr/bin/python3");
  CHECK(spec.argv[3] == warm_parent_source);
  CHECK(std::vector(spec.argv.begin() + 4, spec.argv.end()) ==
        std::vector<std::string>{"torch,numpy", "-u", "train.py", "--epochs=3"});
  CHECK(spec.err.target == StreamTarget::nowhere);
}

TEST_CASE("the parent of a single worker has its CPUs, by which libraries choose their threads") {
  CHECK(warm_parent_spec(worker(), {"torch"}, /*has_one_worker=*/true).cpus == CpuSet{2, 3});
  CHECK(warm_parent_spec(worker(), {"torch"}, /*has_one_worker=*/false).cpus.empty());
}

TEST_CASE("the parent knows no rank, not even an inherited one") {
  CHECK(warm_parent_environment(worker(), {{"RANK", "7"}, {"HOME", "/h"}}) ==
        Environment{{"HOME", "/h"}, {"OMP_NUM_THREADS", "1"}, {"CPPRUN_NODE_TOKEN", "t"}});
}

TEST_CASE("a request has the command, the streams, the CPUs, cpprun and the variables") {
  WorkerSpec spec = worker();
  spec.argv.resize(3);
  spec.out = {StreamTarget::file, "/logs/stdout.log"};
  spec.err.target = StreamTarget::nowhere;
  spec.variables = {{"RANK", "1"}};
  const auto fields = [&](const WarmRequestTerms& terms) {
    std::string text = warm_request(spec, {{"RANK", "7"}, {"HOME", "/h"}}, terms);
    for (char& byte : text) byte = byte == '\0' ? '|' : byte;
    return text;
  };
  CHECK(fields({.opens_out = true, .opens_err = true, .agent = 42, .is_traceable = true}) ==
        "3|/usr/bin/python3|-u|train.py|/logs/stdout.log|/dev/null|2,3|42|1|HOME=/h|RANK=1|");
  spec.cpus.clear();
  CHECK(fields({.agent = 42}) == "3|/usr/bin/python3|-u|train.py||||42|0|HOME=/h|RANK=1|");
}

TEST_CASE("the parent is started some time after the first workers, who do not wait for it") {
  WarmParentState state;
  CHECK_FALSE(state.due());
  state.begin_round(begin, 2, 8);
  CHECK(state.due() == begin + warm_delay);
  CHECK_FALSE(state.awaited_until());
  CHECK(state.note(state.obstacle()).empty());
  state.started();
  CHECK_FALSE(state.due());
  CHECK_FALSE(state.obstacle().empty());
  state.ready();
  CHECK(state.obstacle().empty());
  state.begin_round(begin + 1min, 2, 8);
  CHECK_FALSE(state.due());
}

TEST_CASE("more workers than CPUs wait for the parent, for a limited time") {
  WarmParentState state;
  state.begin_round(begin, 3, 2);
  CHECK(state.due() == begin);
  CHECK(state.awaited_until() == begin + warm_wait_max);
  state.started();
  CHECK(state.awaited_until() == begin + warm_wait_max);
  SUBCASE("until it is ready") {
    state.ready();
  }
  SUBCASE("until it has exited") {
    state.ended(begin + 1s);
  }
  SUBCASE("until it cannot be used") {
    state.give_up();
  }
  CHECK_FALSE(state.awaited_until());
}

TEST_CASE("a parent that exits is started again after longer and longer pauses") {
  WarmParentState state;
  state.begin_round(begin, 1, 8);
  Duration pause = warm_pause_least;
  for (int exits = 0; exits < 20; ++exits) {
    state.started();
    state.ended(begin);
    CHECK(state.due() == begin + pause);
    CHECK(state.obstacle() == "the parent has exited");
    pause = std::min(pause * 2, warm_pause_max);
  }
  CHECK(pause == warm_pause_max);
}

TEST_CASE("a parent that cannot be used is never started again") {
  WarmParentState state;
  state.begin_round(begin, 1, 8);
  state.started();
  state.give_up();
  state.ended(begin);
  CHECK_FALSE(state.due());
  state.begin_round(begin + 1min, 1, 8);
  CHECK_FALSE(state.due());
  CHECK_FALSE(state.obstacle().empty());
  CHECK(state.note(state.obstacle()).empty());
}

TEST_CASE("each round has one note at most") {
  WarmParentState state;
  state.begin_round(begin, 1, 8);
  state.started();
  state.begin_round(begin + 1min, 1, 8);
  CHECK(state.note("the reason") == "note: --warm: workers are started without it: the reason");
  CHECK(state.note("another").empty());
  state.begin_round(begin + 2min, 1, 8);
  CHECK_FALSE(state.note("the reason").empty());
}

}  // namespace warm_parent_test

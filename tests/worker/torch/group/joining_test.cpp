// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/placement.h"

#include <doctest/doctest.h>

namespace joining_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

Placement rank_of_two(int rank, bool launcher) {
  Placement placement{.context = {}, .meeting = Meeting::tcp, .file = {}};
  Context& context = placement.context;
  context.rank = Rank{rank};
  context.world_size = 2;
  context.store = {.address = "10.0.0.1", .port = 29500, .hosted_by_launcher = launcher};
  return placement;
}

}  // namespace

TEST_CASE("a store that does not answer is named with its host and the rank that should host it") {
  CHECK(join_failure(rank_of_two(1, false), JoinStage::store, 30s, "timed out") ==
        "cannot join the process group as rank 1 of 2: the store at 10.0.0.1:29500 was not reached "
        "within 30 s: timed out (rank 0 serves this store: check that rank 0 has started, that "
        "this is the address of its machine, and that no firewall blocks the port)");
  CHECK(join_failure(rank_of_two(1, true), JoinStage::store, 30s, "timed out")
            .find("the launcher serves this store") != std::string::npos);
  CHECK(join_failure(rank_of_two(0, false), JoinStage::store, 30s, "EADDRINUSE") ==
        "cannot join the process group as rank 0 of 2: the store at 10.0.0.1:29500 could not "
        "be started: EADDRINUSE (another program uses the port: use another port, the same for all "
        "ranks)");
  CHECK(join_failure(rank_of_two(0, false), JoinStage::store, 30s, "timed out")
            .find("check that the address belongs to this machine") != std::string::npos);
}

TEST_CASE("missing ranks are named") {
  const std::string reason =
      join_failure(rank_of_two(0, true), JoinStage::ranks, 5s,
                   "wait timeout after 5000ms, keys: /default_pg/0//cpu//0/1");
  CHECK(reason.find("rank 1 did not join") != std::string::npos);
}

TEST_CASE("a missing interface is named with its variable") {
  Placement placement = rank_of_two(0, true);
  placement.context.gloo_interfaces = "nope0";
  const std::string reason = join_failure(placement, JoinStage::ranks, 5s,
                                          "ifa != nullptr. Unable to find address for: nope0");
  CHECK(reason.find("GLOO_SOCKET_IFNAME=nope0 must name interfaces") != std::string::npos);
}

TEST_CASE("the ranks behind the keys of a timeout are read") {
  CHECK(ranks_waited_for("wait timeout after 1ms, keys: /default_pg/0//cpu//0/1, "
                         "/default_pg/0//cpu//0/12") == std::vector<int>{1, 12});
  CHECK(ranks_waited_for("wait timeout after 1ms, keys: /other/1").empty());
  CHECK(ranks_waited_for("Connection reset by peer").empty());
  CHECK(ranks_waited_for("keys: ").empty());
}

TEST_CASE("a file that an earlier run left is named, with a hint") {
  Placement placement{.context = rank_of_two(0, false).context,
                      .meeting = Meeting::file,
                      .file = "/shared/job.init"};
  CHECK(taken_rank(placement) ==
        "cannot join the process group as rank 0 of 2: the store in the file /shared/job.init "
        "already has a rank 0: the file is left from an earlier run (remove it and start again), "
        "or two processes have this rank");
  CHECK(join_failure(placement, JoinStage::ranks, 5s, "refused")
            .find("if /shared/job.init is left from an earlier run, remove it") !=
        std::string::npos);
  CHECK(join_failure(placement, JoinStage::store, 5s, "No such file or directory")
            .find("check that its directory exists") != std::string::npos);
}

TEST_CASE("a rank that joins twice gets an error that says so") {
  CHECK(taken_rank(rank_of_two(1, true)).find("two processes have this rank") != std::string::npos);
}

}  // namespace joining_test

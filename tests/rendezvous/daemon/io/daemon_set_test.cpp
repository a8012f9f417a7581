// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/daemon_set.h"

#include <doctest/doctest.h>

#include <chrono>

#include "tests/rendezvous/daemon/io/daemon_set_stage.h"

using namespace cpprun;
using namespace cpprun::test;
using namespace std::chrono_literals;

namespace {

// It leads by etcd, and "bravo" has everything.
struct StagedLeader : StagedDaemon {
  StagedLeader() {
    win();
    bravo = adopt("bravo#2");
    has_all(*bravo);
    etcd_writes_all();
    REQUIRE(set.seen().standbys.front().is_in_sync);
  }
  void hand_over() {
    set.hand_over([this](const Result<std::string>& its) {
      answer = its ? *its : "refused: " + its.error().reason;
    });
    loop.settle();
  }
  std::shared_ptr<StagedLink> bravo;
  std::string answer;
};

}  // namespace

// --- handing over --------------------------------------------------------------------------------

TEST_CASE("a hand-over that etcd does not know enough for leaves everything as it was") {
  StagedLeader alpha;
  const auto renewed = alpha.loop.now() + 3s;
  alpha.hand_over();
  REQUIRE(alpha.contest->all<contest::HandOver>().size() == 1);
  CHECK_FALSE(alpha.may_speak());
  alpha.etcd_says(contest::Renewed{renewed});
  CHECK_FALSE(alpha.may_speak());
  alpha.etcd_says(contest::NotHandedOver{"so it is"});
  CHECK(alpha.server.speaks_until() == renewed);
  CHECK(alpha.answer == "refused: so it is: this one leads on; ask again");
  CHECK(alpha.says("so it is: this one leads on"));
  // As often as somebody asks.
  alpha.hand_over();
  CHECK(alpha.contest->all<contest::HandOver>().size() == 2);
}

TEST_CASE("who has everything is made known after a hand-over that was none") {
  StagedLeader alpha;
  alpha.hand_over();
  const auto before = alpha.contest->all<contest::Publish>().size();
  alpha.bravo->callbacks.closed("its link is cut");
  alpha.loop.settle();
  CHECK(alpha.contest->all<contest::Publish>().size() == before);
  alpha.etcd_says(contest::NotHandedOver{"so it is"});
  REQUIRE(alpha.contest->all<contest::Publish>().size() == before + 1);
  CHECK(alpha.contest->all<contest::Publish>().back().synced.empty());
}

TEST_CASE("who ends and cannot hand over withdraws") {
  StagedLeader alpha;
  bool is_over = false;
  alpha.set.leave([&] { is_over = true; });
  alpha.loop.pass(bounds::last_words);
  REQUIRE(alpha.contest->all<contest::HandOver>().size() == 1);
  alpha.etcd_says(contest::NotHandedOver{"so it is"});
  CHECK(alpha.contest->all<contest::Withdraw>().size() == 1);
  alpha.etcd_says(contest::Deposed{"it withdraws", /*is_orderly=*/true});
  alpha.etcd_says(contest::Withdrawn{});
  CHECK(is_over);
}

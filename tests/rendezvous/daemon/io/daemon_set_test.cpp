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

// --- trouble with etcd ---------------------------------------------------------------------------

TEST_CASE("an etcd that answers again and is full still is not waited for") {
  StagedLeader alpha;
  CHECK(alpha.set.keep("job", "1") > 0);
  alpha.etcd_says(contest::Unwritable{"it is full"});
  CHECK(alpha.set.keep("job", "2") == 0);
  alpha.etcd_says(contest::Unreachable{"nobody answers"});
  CHECK(alpha.set.seen().trouble == "nobody answers");
  alpha.etcd_says(contest::Reachable{});
  CHECK(alpha.set.seen().trouble == "it is full");
  CHECK(alpha.set.keep("job", "3") == 0);
  alpha.etcd_says(contest::Writable{});
  CHECK(alpha.set.seen().trouble.empty());
  CHECK(alpha.set.keep("job", "4") > 0);
}

TEST_CASE("one record that etcd cannot have is said once, and is no trouble of the others") {
  StagedLeader alpha;
  const auto number = alpha.set.keep("job", "much");
  const auto before = alpha.said.size();
  alpha.etcd_says(contest::NotWritten{number, "it has 2000000 bytes"});
  alpha.etcd_says(contest::NotWritten{alpha.set.keep("job", "much"), "it has 2000000 bytes"});
  CHECK(alpha.said.size() == before + 1);
  CHECK(alpha.says("etcd does not have it for the next leader: it has 2000000 bytes"));
  CHECK(alpha.set.seen().trouble.empty());
  CHECK(alpha.set.keep("other", "1") > 0);
}

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

TEST_CASE("nothing is handed over while nobody could win") {
  StagedLeader alpha;
  alpha.etcd_says(contest::Unwritable{"etcd at a:2379 has no room left"});
  alpha.hand_over();
  CHECK(alpha.answer ==
        "refused: nobody else can lead now, since etcd takes no changes: etcd at a:2379 has no "
        "room left; this one leads on until it does");
  CHECK(alpha.contest->all<contest::HandOver>().empty());
  CHECK(alpha.may_speak());
  // It cannot be told to stay.
  alpha.set.leave([] {});
  alpha.loop.pass(bounds::last_words);
  CHECK(alpha.contest->all<contest::HandOver>().empty());
  CHECK(alpha.contest->all<contest::Withdraw>().size() == 1);
  CHECK(alpha.says("nobody else can lead now, and this one ends"));
}

TEST_CASE("who is to end while it hands over, and is deposed meanwhile, ends") {
  StagedLeader alpha;
  // It does not say that it has that.
  alpha.set.keep("job", "1");
  alpha.hand_over();
  bool is_over = false;
  alpha.set.leave([&] { is_over = true; });
  alpha.etcd_says(contest::Deposed{"etcd has not confirmed its lease", /*is_orderly=*/false});
  alpha.loop.pass(bounds::hand_over_patience);
  CHECK(alpha.contest->all<contest::Withdraw>().size() == 1);
  alpha.etcd_says(contest::Withdrawn{});
  CHECK(is_over);
}

// --- what it remembers ---------------------------------------------------------------------------

TEST_CASE("a leader remembers its own epoch for its next life") {
  StagedDaemon alpha;
  alpha.win(7);
  CHECK(alpha.kept.epoch == 7);
}

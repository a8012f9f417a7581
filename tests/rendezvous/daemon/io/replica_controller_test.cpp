// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/replica_controller.h"

#include <doctest/doctest.h>

#include <chrono>

#include "rendezvous/daemon/bounds.h"
#include "rendezvous/job/bounds.h"
#include "tests/rendezvous/daemon/io/daemon_set_stage.h"

namespace replica_controller_test {

using namespace cpprun;
using namespace cpprun::test;
using namespace std::chrono_literals;

namespace {

// The leader, elected through etcd, with "bravo" in sync.
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
    loop.run_until_idle();
    etcd_writes_all();
  }
  std::shared_ptr<StagedLink> bravo;
  std::string answer;
};

}  // namespace

// --- trouble with etcd ---------------------------------------------------------------------------

TEST_CASE("an etcd that answers again but is still full is not waited for") {
  StagedLeader alpha;
  CHECK(alpha.set.keep("job", "1") > 0);
  alpha.etcd_says(election::Unwritable{"it is full", true});
  CHECK(alpha.set.keep("job", "2") == 0);
  alpha.etcd_says(election::Unreachable{"no response"});
  CHECK(alpha.set.seen().trouble == "no response");
  alpha.etcd_says(election::Reachable{});
  CHECK(alpha.set.seen().trouble == "it is full");
  CHECK(alpha.set.keep("job", "3") == 0);
  alpha.etcd_says(election::Writable{});
  CHECK(alpha.set.seen().trouble.empty());
  CHECK(alpha.set.keep("job", "4") > 0);
}

TEST_CASE("a leader waits for an unreachable etcd only if no standby is in sync") {
  StagedDaemon alone;
  alone.win();
  const auto number = alone.set.keep("job", "1");
  REQUIRE(number > 0);
  alone.etcd_says(election::Unreachable{"no response"});
  CHECK(alone.server.kept_in_etcd < number);
  CHECK(alone.set.keep("job", "2") > 0);
  alone.etcd_says(election::Unwritable{"no writes"});
  CHECK(alone.server.kept_in_etcd < number);
  // A renewed lease releases the replies, although etcd lacks the records.
  alone.etcd_says(election::Renewed{alone.loop.now() + 2s});
  CHECK(alone.server.kept_in_etcd > number);
  CHECK(alone.set.keep("job", "3") == 0);

  StagedLeader alpha;
  const auto known = alpha.set.keep("job", "1");
  alpha.etcd_says(election::Unreachable{"no response"});
  CHECK(alpha.server.kept_in_etcd == known);
  CHECK(alpha.set.keep("job", "2") == 0);
}

TEST_CASE("a record that is too large for etcd is reported once and does not affect others") {
  StagedLeader alpha;
  const auto number = alpha.set.keep("job", "much");
  const auto before = alpha.said.size();
  alpha.etcd_says(election::NotWritten{number, "it has 2000000 bytes"});
  alpha.etcd_says(election::NotWritten{alpha.set.keep("job", "much"), "it has 2000000 bytes"});
  CHECK(alpha.said.size() == before + 1);
  CHECK(alpha.says("not saved in etcd for the next leader: it has 2000000 bytes"));
  CHECK(alpha.set.seen().trouble.empty());
  CHECK(alpha.set.keep("other", "1") > 0);
}

// --- transfer of leadership ----------------------------------------------------------------------

TEST_CASE("a transfer that etcd rejects leaves the leader in place") {
  StagedLeader alpha;
  const auto renewed = alpha.loop.now() + 3s;
  alpha.hand_over();
  REQUIRE(alpha.election->all<election::HandOver>().size() == 1);
  CHECK_FALSE(alpha.may_speak());
  alpha.etcd_says(election::Renewed{renewed});
  CHECK_FALSE(alpha.may_speak());
  alpha.etcd_says(election::NotHandedOver{"so it is"});
  CHECK(alpha.server.speaks_until() == renewed);
  CHECK(alpha.answer == "refused: so it is; this cpprund stays the leader; retry");
  CHECK(alpha.says("so it is; this cpprund stays the leader"));
  // Another attempt is possible.
  alpha.hand_over();
  CHECK(alpha.election->all<election::HandOver>().size() == 2);
}

TEST_CASE("a transfer that is rejected at once is answered at once") {
  StagedLeader alpha;
  alpha.election->answers_at_once = [&](const election::Event& command) {
    if (std::holds_alternative<election::HandOver>(command)) {
      alpha.election->told(election::NotHandedOver{"etcd does not know it yet"});
    }
  };
  for (int time = 0; time < 2; ++time) {
    alpha.answer.clear();
    alpha.hand_over();
    CHECK(alpha.answer ==
          "refused: etcd does not know it yet; this cpprund stays the leader; retry");
    CHECK(alpha.may_speak());
  }
}

TEST_CASE("the set of synced standbys is published after a rejected transfer") {
  StagedLeader alpha;
  alpha.hand_over();
  const auto before = alpha.election->all<election::Publish>().size();
  alpha.bravo->callbacks.closed("its link is cut");
  alpha.loop.run_until_idle();
  CHECK(alpha.election->all<election::Publish>().size() == before);
  alpha.etcd_says(election::NotHandedOver{"so it is"});
  REQUIRE(alpha.election->all<election::Publish>().size() == before + 1);
  CHECK(alpha.election->all<election::Publish>().back().synced.empty());
}

TEST_CASE("a leader that exits and cannot transfer leadership withdraws") {
  StagedLeader alpha;
  bool is_over = false;
  alpha.set.leave([&] { is_over = true; });
  alpha.loop.pass(bounds::last_words);
  alpha.etcd_writes_all();
  REQUIRE(alpha.election->all<election::HandOver>().size() == 1);
  alpha.etcd_says(election::NotHandedOver{"so it is"});
  CHECK(alpha.election->all<election::Withdraw>().size() == 1);
  alpha.etcd_says(election::Deposed{"the leader resigned", /*is_orderly=*/true});
  alpha.etcd_says(election::Withdrawn{});
  CHECK(is_over);
}

TEST_CASE("leadership is not transferred while etcd accepts no writes") {
  StagedLeader alpha;
  alpha.etcd_says(election::Unwritable{"etcd at a:2379 is out of space"});
  alpha.hand_over();
  CHECK(alpha.answer ==
        "refused: no other cpprund can become the leader while etcd accepts no writes: etcd at "
        "a:2379 is out of space; this cpprund stays the leader");
  CHECK(alpha.election->all<election::HandOver>().empty());
  CHECK(alpha.may_speak());
  // An exit cannot be refused.
  alpha.set.leave([] {});
  alpha.loop.pass(bounds::last_words);
  CHECK(alpha.election->all<election::HandOver>().empty());
  CHECK(alpha.election->all<election::Withdraw>().size() == 1);
  CHECK(alpha.says("exiting without a new leader, because etcd accepts no writes"));
}

TEST_CASE("a transfer is rejected if etcd turns out to be full") {
  StagedLeader alpha;
  alpha.set.hand_over([&](const Result<std::string>& its) { alpha.answer = its.error().reason; });
  alpha.loop.run_until_idle();
  // The leader keeps replying meanwhile.
  CHECK(alpha.may_speak());
  alpha.etcd_says(election::Unwritable{"etcd at a:2379 is out of space", true});
  CHECK(alpha.answer ==
        "no other cpprund can become the leader: etcd at a:2379 is out of space; this cpprund "
        "stays the leader; retry");
  CHECK(alpha.election->all<election::HandOver>().empty());
  CHECK(alpha.may_speak());
}

TEST_CASE("a standby that advertises the leader's address is rejected") {
  StagedLeader alpha;
  const auto twin = std::make_shared<StagedLink>();
  alpha.set.adopt(twin,
                  {.name = "charlie#3",
                   .cluster = "c",
                   .version = "1",
                   .features = link::standby_features,
                   .address = "alpha:1",
                   .has_etcd = true},
                  {}, "");
  CHECK(std::get<link::Refused>(twin->messages.front()).reason ==
        "\"charlie\" advertises alpha:1, the address of another cpprund; give each cpprund its own "
        "--advertise");
}

TEST_CASE("a leader that exits during a transfer exits even if it is deposed meanwhile") {
  StagedLeader alpha;
  // "bravo" does not acknowledge this record.
  alpha.set.keep("job", "1");
  alpha.hand_over();
  bool is_over = false;
  alpha.set.leave([&] { is_over = true; });
  alpha.etcd_says(
      election::Deposed{"etcd has not confirmed the leader's lease", /*is_orderly=*/false});
  alpha.loop.pass(bounds::hand_over_timeout);
  CHECK(alpha.election->all<election::Withdraw>().size() == 1);
  alpha.etcd_says(election::Withdrawn{});
  CHECK(is_over);
}

// --- the name ------------------------------------------------------------------------------------

TEST_CASE("a name that is too long is rejected before etcd sees it") {
  StagedLoop loop;
  StagedServer server(loop);
  StagedDaemon other;
  auto options = options_with_etcd();
  options.name = std::string(300, 'n');
  ReplicaController set(other.ports(), server, options, other.callbacks());
  const auto started = set.start();
  REQUIRE_FALSE(started.has_value());
  CHECK(started.error().reason.starts_with("--name: a name must have 1 to 255 bytes"));
}

// --- two cpprunds with one name ------------------------------------------------------------------

TEST_CASE("a leader with the same name at another address is followed") {
  StagedDaemon alpha;
  alpha.etcd_says(election::LeaderIs{6, "alpha#9", "elsewhere:1", {}});
  CHECK(alpha.dialled == "elsewhere:1");
  CHECK(alpha.server.followed().address == "elsewhere");
  StagedDaemon again;
  again.etcd_says(election::LeaderIs{6, "alpha#0", "alpha:1", {}});
  CHECK(again.dialled.empty());
  CHECK(again.server.followed().reason == "the lease of its previous run has not ended yet");
}

// --- which member follows which
// ----------------------------------------------------------------------

TEST_CASE("a member that lost leadership follows the next leader") {
  StagedLeader alpha;
  alpha.etcd_says(election::Deposed{"its lease has ended", /*is_orderly=*/false});
  alpha.etcd_says(election::LeaderIs{7, "charlie#3", "charlie:1", {}});
  CHECK_FALSE(alpha.set.seen().leads);
  REQUIRE(alpha.dialled == "charlie:1");
  alpha.line->callbacks.up("local");
  alpha.line->callbacks.message(
      link::Leads{"charlie#3", "c", "1", link::standby_features, 7, true});
  CHECK(alpha.set.seen().leader == "charlie");
  CHECK(alpha.set.seen().leader_address == "charlie:1");
  CHECK(alpha.server.followed().address == "charlie");
}

TEST_CASE("a standby accepts no standby, and a member that dials itself is disconnected") {
  StagedDaemon alpha;
  CHECK(alpha.adopt("bravo#2")->ended == "not the leader");
  CHECK(alpha.adopt("alpha#1")->ended == "connected to itself");
  CHECK_FALSE(alpha.set.seen().leads);
}

TEST_CASE("a leader rejects a standby that knows a later epoch") {
  StagedDaemon alpha;
  alpha.win(5);
  auto link = std::make_shared<StagedLink>();
  alpha.set.adopt(link,
                  {.name = "bravo#2",
                   .cluster = "c",
                   .version = "1",
                   .features = link::standby_features,
                   .epoch = 6,
                   .address = "bravo:1",
                   .has_etcd = true},
                  {}, "");
  CHECK(std::get<link::Refused>(link->messages.front()).reason ==
        "the standby knows epoch 6, newer than the leader's epoch 5: another cpprund has become "
        "the leader");
  // Only etcd can revoke its lease.
  CHECK(alpha.may_speak());
}

}  // namespace replica_controller_test

// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/hang/evidence.h"

#include <doctest/doctest.h>

#include <limits>
#include <random>
#include <set>
#include <string>

#include "rendezvous/hang/evidence_json.h"

namespace hang_evidence_test {

using namespace cpprun;
using namespace cpprun::hang;

namespace {

const Frame all_reduce{"all_reduce", "/v/site-packages/torch/distributed/distributed_c10d.py",
                       3252};
const Frame step{"step", "/a/train.py", 88};
const Frame fetch{"fetch", "/a/data.py", 12};

WorkerEvidence waiting(int rank) {
  return {.rank = Rank{rank},
          .activity = Activity::collective,
          .stack = {all_reduce, step},
          .positions = {{.group = "default_pg",
                         .sequence = 4,
                         .operation = "all_reduce",
                         .shape = "[4] Float",
                         .is_pending = true}}};
}

WorkerEvidence fetching(int rank) {
  return {.rank = Rank{rank},
          .activity = Activity::busy,
          .detail = "with \"quotes\"",
          .stack = {fetch},
          .positions = {},
          .unread = "flight record: no response"};
}

RankSet ranks_of(std::initializer_list<int> ranks) {
  RankSet set;
  for (const int rank : ranks) set.add(Rank{rank});
  return set;
}

}  // namespace

TEST_CASE("a set of ranks joins ranges that touch") {
  RankSet set = ranks_of({5, 3, 4, 9, 0});
  CHECK(set.to_text() == "0,3-5,9");
  CHECK(set.count() == 5);
  CHECK(set.first() == Rank{0});
  CHECK(set.has(Rank{4}));
  CHECK_FALSE(set.has(Rank{6}));
  set.add(ranks_of({1, 2, 6, 7, 8}));
  CHECK(set == RankSet::all(10));
  CHECK(RankSet::all(0).empty());
}

TEST_CASE("ranks can be removed from a set") {
  RankSet set = RankSet::all(10);
  set.remove(ranks_of({0, 4, 5, 9, 20}));
  CHECK(set.to_text() == "1-3,6-8");
  set.remove(RankSet::all(20));
  CHECK(set.empty());
}

TEST_CASE("the text of a large set ends with the number of the other ranks") {
  RankSet set;
  for (int rank = 0; rank < 20'000; rank = rank * 3 / 2 + 2) set.add(Rank{rank});
  CHECK(set.to_text().size() < 80);
  CHECK(set.to_text().ends_with(" more"));
  CHECK(RankSet::parse(set.ranges_text()).value() == set);
}

TEST_CASE("equal ranges at equal distances are one pattern") {
  RankSet every_eighth;
  RankSet others;
  for (int rank = 0; rank < 10'000; ++rank) (rank % 8 == 3 ? every_eighth : others).add(Rank{rank});
  CHECK(every_eighth.to_text() == "3-9995:1/8");
  CHECK(others.ranges_text() == "0-2,4-9994:7/8,9996-9999");
  CHECK(others.count() == 8750);
  CHECK(RankSet::parse("3-9995:1/8").value() == every_eighth);
  CHECK(RankSet::parse(others.ranges_text()).value() == others);
  CHECK_FALSE(others.has(Rank{11}));
  CHECK(others.has(Rank{12}));
  CHECK(others.last() == Rank{9999});
  CHECK(others.common_with(every_eighth).empty());
  others.add(every_eighth);
  CHECK(others == RankSet::all(10'000));
  others.remove(every_eighth);
  CHECK(others.first() == Rank{0});
  CHECK(RankSet::parse("1,3,5,7").value().ranges_text() == "1,3,5,7");
  CHECK(RankSet::parse("1,3,5,7,9").value().ranges_text() == "1-9:1/2");
}

TEST_CASE("sets of ranks agree with a set of numbers") {
  std::mt19937 random(7);
  const auto below = [&](int end) {
    return static_cast<int>(random() % static_cast<unsigned>(end));
  };
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    RankSet sets[2];
    std::set<int> models[2];
    for (int which = 0; which < 2; ++which) {
      for (int run = below(4); run >= 0; --run) {
        const int first = below(60);
        const int size = 1 + below(4);
        const int step = 1 + below(9);
        const int count = below(8);
        for (int at = 0; at < size * count; ++at) {
          const int rank = first + at / size * step + at % size;
          sets[which].add(Rank{rank});
          models[which].insert(rank);
        }
      }
    }
    const auto same = [](const RankSet& set, const std::set<int>& model) {
      RankSet again;
      for (const int rank : model) again.add(Rank{rank});
      CHECK(set == again);
      CHECK(set.count() == model.size());
      CHECK(RankSet::parse(set.ranges_text()).value() == set);
      for (int rank = 0; rank < 150; ++rank) CHECK(set.has(Rank{rank}) == model.contains(rank));
    };
    std::set<int> common;
    std::set<int> left;
    for (const int rank : models[0]) (models[1].contains(rank) ? common : left).insert(rank);
    same(sets[0], models[0]);
    same(sets[0].common_with(sets[1]), common);
    RankSet rest = sets[0];
    rest.remove(sets[1]);
    same(rest, left);
    sets[0].add(sets[1]);
    models[0].merge(models[1]);
    same(sets[0], models[0]);
  }
}

TEST_CASE("invalid ranges of ranks are rejected") {
  for (const char* text :
       {"x", "-1", "3-1", "1,1", "1,2", "5,1", "1-", "2147483648", "1,,3", ",", "0-8:1", "0-8:1/",
        "0-8:0/2", "0-8:2/2", "0-8:1/3", "0-8:1/9", "8:1/2", "0-8:1/4,9", "0-2147483646:1/2"}) {
    CAPTURE(text);
    CHECK_FALSE(RankSet::parse(text));
  }
  const int last = std::numeric_limits<int>::max();
  RankSet set = RankSet::parse("0,2147483647").value();
  CHECK(set.has(Rank{last}));
  set.add(Rank{last});
  CHECK(set.count() == 2);
}

TEST_CASE("ranks with the same stack form a cluster, the smallest first") {
  const Evidence evidence = cluster({waiting(0), waiting(1), fetching(2), waiting(3)});
  REQUIRE(evidence.clusters.size() == 2);
  CHECK(text_of(evidence.clusters[0]) == "rank 2: is busy in fetch (data.py:12)");
  CHECK(text_of(evidence.clusters[1]) == "3 ranks (0-1,3): wait in all_reduce (step, train.py:88)");
  REQUIRE(evidence.positions.size() == 1);
  CHECK(evidence.positions[0].ranks.to_text() == "0-1,3");
  CHECK(evidence.unread == std::vector<Unread>{{"flight record: no response", ranks_of({2})}});
}

TEST_CASE("evidence is the same in whatever order nodes arrive") {
  const Evidence one = cluster({waiting(0), waiting(1)});
  const Evidence two = cluster({fetching(2), waiting(3)});
  const Evidence three = cluster({fetching(4), waiting(5)});
  const Evidence forward = merged({merged({one, two}), three});
  const Evidence backward = merged({merged({three, two}), one});
  CHECK(forward == backward);
  CHECK(forward == merged({two, three, one}));
}

TEST_CASE("details that differ in a cluster are dropped") {
  WorkerEvidence first = fetching(1);
  WorkerEvidence second = fetching(2);
  first.detail = "812 (python3, busy)";
  second.detail = "813 (python3, busy)";
  CHECK(cluster({first, second}).clusters.at(0).detail.empty());
}

TEST_CASE("a cluster has the native frames of its first rank, in whatever order nodes arrive") {
  WorkerEvidence third = waiting(3);
  WorkerEvidence first = waiting(1);
  third.native_stack = {{"poll libc.so.6"}};
  first.native_stack = {{"futex_wait libc.so.6"}};
  for (const auto& workers : {std::vector{third, first}, std::vector{first, third}}) {
    const Evidence evidence = cluster(workers);
    REQUIRE(evidence.clusters.size() == 1);
    CHECK(evidence.clusters[0].native_stack == first.native_stack);
    CHECK(parse_evidence(evidence_json(evidence)).value() == evidence);
  }
}

TEST_CASE("the place is in the user's code, else in a package, else the innermost frame") {
  const Frame library{"call", "/v/lib/python3.11/site-packages/lightning/loop.py", 7};
  const Frame thread{"wait", "/usr/lib/python3.11/threading.py", 320};
  const Frame frozen{"load", "<frozen importlib>", 1};
  CHECK(place_of({frozen, thread, all_reduce, library, step}) == "step train.py:88");
  CHECK(place_of({frozen, thread, all_reduce, library}) == "call loop.py:7");
  CHECK(place_of({thread, frozen}) == "wait threading.py:320");
  CHECK(place_of({{"c10d::Work::wait", "w.cpp", 3}, {"train", "", 0}}) == "train");
  const Frame lock{"pthread_mutex_lock", "libc.so.6", 0};
  CHECK(place_of({{"?", "libc.so.6+0x86129", 0}, lock, {"train", "my_program", 0}}) ==
        "train my_program");
  CHECK(place_of({{"read", "libc.so.6", 0}, {"load", "/opt/libmodel.so", 0}}) ==
        "load libmodel.so");
  CHECK(place_of({}).empty());
  CHECK(call_site({thread, step}) == " (step, train.py:88)");
  CHECK(call_site({{"train", "", 0}}) == " (in train)");
  CHECK(call_site({}).empty());
}

TEST_CASE("what a rank does is said in order: what, where, why") {
  const auto clause = [](Activity activity, const std::string& detail, bool has_stack = true) {
    return clause_of({.ranks = RankSet(Rank{1}),
                      .activity = activity,
                      .detail = detail,
                      .stack = has_stack ? std::vector{fetch} : std::vector<Frame>{}},
                     /*is_plural=*/false);
  };
  CHECK(clause(Activity::stopped, "by a signal") ==
        "is stopped by a signal while in fetch (data.py:12)");
  CHECK(clause(Activity::disk, "") ==
        "is in uninterruptible sleep (D state) in fetch (data.py:12)");
  CHECK(clause(Activity::child, "812 (python3, sleeping)") ==
        "waits in fetch (data.py:12) for child 812 (python3, sleeping)");
  CHECK(clause(Activity::child, "", false) == "waits for a child process");
  CHECK(clause(Activity::gil, "") == "holds the GIL in C code called from fetch (data.py:12)");
  CHECK(clause(Activity::unknown, "") == "is in fetch (data.py:12) (state unknown)");
  CHECK(clause(Activity::unknown, "", false) == "is in an unknown state");
}

TEST_CASE("evidence beyond the limits is cut, and says so") {
  std::vector<WorkerEvidence> workers;
  for (int rank = 0; rank < 300; ++rank) {
    WorkerEvidence worker = fetching(rank);
    worker.stack.assign(40, Frame{std::string(300, 'f'), std::string(900, 'x'), rank + 1});
    worker.positions = {{.group = std::to_string(rank), .is_pending = true}};
    workers.push_back(worker);
  }
  Evidence evidence = cluster(workers);
  limit(evidence);
  CHECK(evidence.clusters.size() <= clusters_max);
  CHECK(evidence.positions.size() <= positions_max);
  CHECK(evidence.unread.size() <= unread_max);
  const std::string json = evidence_json(evidence);
  CHECK(json.size() < 32 * 1024);
  CHECK(json.find("stack omitted") != std::string::npos);
  CHECK(parse_evidence(json).value() == evidence);
}

TEST_CASE("evidence survives JSON") {
  Evidence evidence = cluster({waiting(0), fetching(2)});
  evidence.clusters[0].detail = "in nfs";
  evidence.positions[0].at.queued = 3;
  evidence.positions[0].at.members = RankSet::all(8);
  evidence.clusters[1].is_native = true;
  for (auto& each : evidence.clusters) each.detail = "in nfs";
  CHECK(parse_evidence(evidence_json(evidence)).value() == evidence);
  CHECK(evidence_json(cluster({waiting(0), waiting(1)})) ==
        R"({"clusters":[{"ranks":"0-1","activity":"collective","stack":[["all_reduce",)"
        R"("/v/site-packages/torch/distributed/distributed_c10d.py",3252],)"
        R"(["step","/a/train.py",88]]}],"positions":[{"group":"default_pg","number":4,)"
        R"("operation":"all_reduce","shape":"[4] Float","pending":true,"ranks":"0-1"}]})");
}

TEST_CASE("invalid JSON of evidence is an error with a reason") {
  for (
      const char* json : {
          "",
          "[]",
          "{}",
          R"({"clusters":[]})",
          R"({"clusters":[1],"positions":[]})",
          R"({"clusters":[{"ranks":"","activity":"busy"}],"positions":[]})",
          R"({"clusters":[{"ranks":"1","activity":"dancing"}],"positions":[]})",
          R"({"clusters":[{"ranks":"1","activity":"busy","stack":[["f",3]]}],"positions":[]})",
          R"({"clusters":[{"ranks":"1","activity":"busy","stack":[["f","x",-1]]}],"positions":[]})",
          R"({"clusters":[],"positions":[{"group":"g","ranks":"1","number":-4}]})",
          R"({"clusters":[],"positions":[{"group":"g","ranks":"1","number":1e300}]})",
          R"({"clusters":[],"positions":[{"group":"g","ranks":"1","pending":1}]})",
      }) {
    CAPTURE(json);
    const auto evidence = parse_evidence(json);
    REQUIRE_FALSE(evidence);
    CHECK_FALSE(evidence.error().reason.empty());
  }
}

TEST_CASE("a verdict survives JSON") {
  const Verdict verdict{.kind = Verdict::Kind::missing, .sentence = "rank 7 …", .rank = Rank{7}};
  CHECK(verdict_json(verdict) == R"({"kind":"missing","sentence":"rank 7 …","rank":7})");
  CHECK(parse_verdict(verdict_json(verdict)).value() == verdict);
  CHECK(parse_verdict(verdict_json({})).value() == Verdict{});
  CHECK_FALSE(parse_verdict(R"({"kind":"missing","sentence":"x","rank":-1})"));
}

}  // namespace hang_evidence_test

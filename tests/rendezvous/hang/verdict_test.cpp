// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/hang/verdict.h"

#include <doctest/doctest.h>

namespace hang_verdict_test {

using namespace cpprun;
using namespace cpprun::hang;
using Kind = Verdict::Kind;

namespace {

// A job whose ranks all wait in all_reduce number 4, until a test changes them.
struct Job {
  explicit Job(int world_size) {
    for (int rank = 0; rank < world_size; ++rank) {
      workers.push_back(
          {.rank = Rank{rank},
           .activity = Activity::collective,
           .stack = {{"all_reduce", "/p/site-packages/torch/distributed/distributed_c10d.py", 1},
                     {"step", "/a/train.py", 88}},
           .positions = {pending("default_pg", 4)}});
    }
  }

  static Position pending(const std::string& group, int number,
                          const std::string& operation = "all_reduce") {
    return {.group = group,
            .sequence = number,
            .operation = operation,
            .shape = "[4] Float",
            .is_pending = true};
  }
  static Position done(const std::string& group, int number) {
    Position position = pending(group, number);
    position.is_pending = false;
    return position;
  }
  WorkerEvidence& at(int rank) { return workers.at(static_cast<std::size_t>(rank)); }
  void acts(int rank, Activity activity, std::vector<Position> positions = {}) {
    at(rank).activity = activity;
    at(rank).stack = {{"fetch", "/a/data.py", 12}};
    at(rank).positions = std::move(positions);
  }
  Verdict verdict() const { return verdict_of(cluster(workers), static_cast<int>(workers.size())); }

  std::vector<WorkerEvidence> workers;
};

}  // namespace

TEST_CASE("a rank that never reached an operation is named, with what it does") {
  Job job(32);
  job.acts(7, Activity::busy, {Job::done("default_pg", 3)});
  CHECK(job.verdict() ==
        Verdict{Kind::missing,
                "rank 7 never reached all_reduce number 4 of default_pg, where 31 ranks wait; "
                "rank 7 is busy in fetch (data.py:12)",
                Rank{7}});
}

TEST_CASE("several ranks that never reached an operation are named together") {
  Job job(8);
  job.acts(3, Activity::sleeping, {Job::done("default_pg", 3)});
  job.acts(5, Activity::lock, {Job::done("default_pg", 3)});
  CHECK(job.verdict().sentence ==
        "ranks 3 and 5 never reached all_reduce number 4 of default_pg, where 6 ranks wait; "
        "rank 3 sleeps in fetch (data.py:12); rank 5 waits for a lock in fetch (data.py:12)");
}

TEST_CASE("a rank is missing where the others wait, not where they enqueue") {
  Job job(4);
  for (auto& worker : job.workers) worker.positions[0].queued = 5;
  job.acts(2, Activity::gil, {Job::done("default_pg", 3)});
  CHECK(job.verdict().sentence ==
        "rank 2 never reached all_reduce number 4 of default_pg, where 3 ranks wait; rank 2 "
        "holds the GIL in C code called from fetch (data.py:12)");
}

TEST_CASE("a rank that waits for another one is not the culprit") {
  // A mesh: rank 3 is stuck, rank 2 waits for it in tp, and the others in dp for 2 and 3.
  Job job(4);
  job.at(0).positions = {Job::done("tp 0", 5), Job::pending("dp 0", 6)};
  job.at(1).positions = {Job::done("tp 0", 5), Job::pending("dp 1", 6)};
  job.at(2).positions = {Job::pending("tp 1", 5), Job::done("dp 0", 5)};
  job.acts(3, Activity::child, {Job::done("tp 1", 4), Job::done("dp 1", 5)});
  job.at(3).detail = "812 (python3, sleeping)";
  const Verdict verdict = job.verdict();
  CHECK(verdict.rank == Rank{3});
  CHECK(verdict.sentence ==
        "rank 3 never reached all_reduce number 6 of dp 1, where rank 1 waits; rank 3 waits in "
        "fetch (data.py:12) for child 812 (python3, sleeping)");
}

TEST_CASE("groups without the culprit do not hide it") {
  Job job(4);
  job.at(0).positions = {Job::done("default_pg", 3), Job::pending("group 1", 9)};
  job.at(1).positions = {Job::done("default_pg", 3), Job::pending("group 1", 9)};
  job.at(2).positions = {Job::done("default_pg", 3), Job::pending("group 2", 6)};
  job.acts(3, Activity::sleeping, {Job::done("default_pg", 3), Job::done("group 2", 5)});
  CHECK(job.verdict().rank == Rank{3});
}

TEST_CASE("a member that has enqueued nothing in a group is missing there") {
  Job job(4);
  for (const int rank : {0, 1}) job.at(rank).positions = {Job::done("default_pg", 3)};
  job.at(2).positions = {Job::done("default_pg", 3), Job::pending("mesh_tp (group 2)", 1)};
  job.at(2).positions[1].members = RankSet::parse("2-3").value();
  job.acts(3, Activity::reading, {Job::done("default_pg", 3)});
  CHECK(job.verdict().sentence ==
        "rank 3 never reached all_reduce number 1 of mesh_tp (group 2), where rank 2 waits; rank 3 "
        "waits for input in fetch (data.py:12)");
}

TEST_CASE("a stopped rank is named first") {
  Job job(4);
  job.acts(2, Activity::busy, {Job::done("default_pg", 3)});
  job.acts(3, Activity::stopped);
  job.at(3).detail = "by a signal";
  job.at(3).stack = {};
  CHECK(job.verdict() ==
        Verdict{Kind::stopped,
                "rank 3 is stopped by a signal; 2 ranks wait in all_reduce number 4 of default_pg",
                Rank{3}});
}

TEST_CASE("a rank in uninterruptible sleep is named with the kernel function") {
  Job job(4);
  job.acts(0, Activity::disk, {Job::done("default_pg", 3)});
  job.at(0).detail = "in the kernel function nfs_wait_on_request";
  CHECK(job.verdict() ==
        Verdict{Kind::disk,
                "rank 0 is in uninterruptible sleep (D state) in the kernel function "
                "nfs_wait_on_request, called from fetch (data.py:12); 3 ranks wait in all_reduce "
                "number 4 of default_pg",
                Rank{0}});
}

TEST_CASE("a rank that has exited is named if others wait") {
  Job job(4);
  job.acts(1, Activity::exited);
  CHECK(job.verdict() ==
        Verdict{Kind::exited,
                "rank 1 has exited; 3 ranks wait in all_reduce number 4 of default_pg", Rank{1}});
}

TEST_CASE("ranks that wait for each other in two groups are a cycle") {
  Job job(2);
  job.at(0).positions = {Job::pending("group 1", 5), Job::done("group 2", 4)};
  job.at(1).positions = {Job::done("group 1", 4), Job::pending("group 2", 5)};
  job.at(1).stack[1].line = 90;
  CHECK(job.verdict() ==
        Verdict{Kind::opposite_order,
                "deadlock: rank 0 waits for rank 1 in all_reduce number 5 of group 1 (step, "
                "train.py:88); rank 1 waits for rank 0 in all_reduce number 5 of group 2 (step, "
                "train.py:90); they call these in opposite order",
                Rank{0}});
}

TEST_CASE("opposite order in groups whose members are not known is still suspected") {
  Job job(2);
  job.at(0).positions = {Job::done("default_pg", 3), Job::pending("group 1", 1)};
  job.at(1).positions = {Job::done("default_pg", 3), Job::pending("group 2", 1)};
  const Verdict verdict = job.verdict();
  CHECK(verdict.kind == Kind::opposite_order);
  CHECK(verdict.sentence ==
        "likely deadlock, if both groups have these ranks: rank 0 waits in all_reduce number 1 of "
        "group 1 (step, train.py:88); rank 1 waits in all_reduce number 1 of group 2 (step, "
        "train.py:88); they call these in opposite order");
}

TEST_CASE("different operations with the same number name the minority") {
  Job job(4);
  job.at(1).positions = {Job::pending("default_pg", 4, "broadcast")};
  job.at(1).stack[1].line = 70;
  CHECK(job.verdict() ==
        Verdict{Kind::mismatch,
                "ranks called different operations at position 4 of default_pg: rank 1 called "
                "broadcast (step, train.py:70), 3 ranks called all_reduce (step, train.py:88)",
                Rank{1}});
}

TEST_CASE("different shapes name the minority") {
  Job job(4);
  job.at(2).positions[0].shape = "[8] Float";
  CHECK(job.verdict() ==
        Verdict{Kind::mismatch,
                "shapes differ in all_reduce number 4 of default_pg: rank 2 has [8] Float (step, "
                "train.py:88), 3 ranks have [4] Float",
                Rank{2}});
}

TEST_CASE("different shapes are expected in all_to_all") {
  Job job(4);
  for (auto& worker : job.workers) worker.positions[0].operation = "all_to_all";
  job.at(2).positions[0].shape = "[8] Float";
  CHECK(job.verdict().kind == Kind::all_alike);
}

TEST_CASE("a rank that went on from an operation in which others wait is named") {
  Job job(4);
  job.at(1).positions = {Job::pending("default_pg", 5, "barrier")};
  CHECK(job.verdict().sentence ==
        "rank 1 is already in barrier number 5 of default_pg (step, train.py:88); 3 ranks are "
        "still in all_reduce number 4 (step, train.py:88)");
}

TEST_CASE("the peer of a receive that does not send is named") {
  Job job(3);
  job.at(0).positions = {Job::done("default_pg", 3), Job::pending("default_pg", 1, "recv 0<-1")};
  job.acts(1, Activity::sleeping, {Job::done("default_pg", 3)});
  job.acts(2, Activity::busy, {Job::done("default_pg", 3)});
  CHECK(job.verdict() ==
        Verdict{Kind::missing,
                "rank 0 waits in recv from rank 1 (default_pg), but rank 1 has not sent; rank 1 "
                "sleeps in fetch (data.py:12)",
                Rank{1}});
}

TEST_CASE("two ranks that receive from each other wait forever") {
  Job job(2);
  job.at(0).positions = {Job::pending("default_pg", 1, "recv 0<-1")};
  job.at(1).positions = {Job::pending("default_pg", 1, "recv 1<-0")};
  CHECK(job.verdict().sentence ==
        "deadlock: rank 0 waits for rank 1 in recv of default_pg (step, train.py:88); rank 1 waits "
        "for rank 0 in recv of default_pg (step, train.py:88); each waits for the other to act "
        "first");
}

TEST_CASE("a send and its receive that are both pending are the network or a device") {
  Job job(2);
  job.at(0).positions = {Job::pending("default_pg", 1, "recv 0<-1")};
  job.at(1).positions = {Job::pending("default_pg", 1, "send 1->0")};
  CHECK(job.verdict() ==
        Verdict{Kind::all_alike,
                "rank 0 waits in recv from rank 1 (default_pg), and rank 1 in the "
                "matching send; neither completes; suspect the network or a device",
                std::nullopt});
}

TEST_CASE("all ranks in one collective are the network or a device") {
  CHECK(Job(4).verdict() ==
        Verdict{Kind::all_alike,
                "all 4 ranks wait in all_reduce number 4 of default_pg (step, train.py:88), and it "
                "does not complete; suspect the network or a device",
                std::nullopt});
}

TEST_CASE("without flight records the rank outside of communication is named") {
  Job job(4);
  for (auto& worker : job.workers) {
    worker.positions = {};
    worker.stack[0].function = "recv";
  }
  job.acts(1, Activity::sleeping);
  CHECK(job.verdict() ==
        Verdict{Kind::odd_one_out,
                "3 ranks wait in recv (step, train.py:88) for rank 1, which sleeps in fetch "
                "(data.py:12)",
                Rank{1}});
}

TEST_CASE("without communication the smallest cluster is the odd one out") {
  Job job(4);
  for (int rank = 0; rank < 4; ++rank) job.acts(rank, Activity::lock);
  job.acts(2, Activity::busy);
  CHECK(job.verdict() == Verdict{Kind::odd_one_out,
                                 "rank 2 is busy in fetch (data.py:12), while 3 ranks wait for a "
                                 "lock in fetch (data.py:12)",
                                 Rank{2}});
}

TEST_CASE("a node that does not answer is named if the others wait") {
  Job job(4);
  job.acts(3, Activity::unknown);
  job.at(3).unread = "stack: no response";
  CHECK(job.verdict() == Verdict{Kind::unknown,
                                 "3 ranks wait in all_reduce number 4 of default_pg; the state of "
                                 "rank 3 is unknown (stack: no response)",
                                 Rank{3}});
  CHECK(verdict_of({}, 4).sentence == "nothing could be read from any rank");
}

TEST_CASE("ranks that all differ give no verdict") {
  Job job(4);
  const Activity activities[] = {Activity::busy, Activity::lock, Activity::sleeping,
                                 Activity::reading};
  for (int rank = 0; rank < 4; ++rank) job.acts(rank, activities[rank]);
  job.at(1).stack.clear();
  CHECK(job.verdict().kind == Kind::odd_one_out);
  Job pairs(4);
  for (int rank = 0; rank < 4; ++rank) {
    pairs.acts(rank, Activity::busy);
    pairs.at(rank).stack[0].line = rank / 2;
  }
  CHECK(pairs.verdict() == Verdict{Kind::unknown,
                                   "inconclusive: the 4 ranks are in 2 different states",
                                   std::nullopt});
}

TEST_CASE("many ranks that never reached an operation are counted in groups") {
  Job job(8);
  const Activity activities[] = {Activity::busy, Activity::lock, Activity::sleeping,
                                 Activity::reading, Activity::gil};
  for (int rank = 0; rank < 5; ++rank) {
    job.acts(rank, activities[rank], {Job::done("default_pg", 3)});
  }
  CHECK(job.verdict().sentence.ends_with("rank 2 sleeps in fetch (data.py:12); and 2 more groups"));
}

TEST_CASE("each kind has a hint, and an unknown one has none") {
  for (const char* name : {"stopped", "disk", "missing", "mismatch", "opposite_order", "exited",
                           "odd_one_out", "all_alike", "unknown"}) {
    CAPTURE(name);
    CHECK_FALSE(hint_of(std::string_view(name)).empty());
  }
  CHECK(hint_of(Kind::exited) == hint_of(std::string_view("exited")));
  CHECK(hint_of(std::string_view("of a newer cpprun")).empty());
}

TEST_CASE("a sentence has parts, and one in parentheses stays whole") {
  using Parts = std::vector<std::string_view>;
  CHECK(parts_of("rank 1 has exited; 3 ranks wait") == Parts{"rank 1 has exited", "3 ranks wait"});
  CHECK(parts_of("the state is unknown (stack: none; py-spy: none)").size() == 1);
  CHECK(parts_of("a ) b; c").size() == 1);
  CHECK(parts_of("") == Parts{""});
}

TEST_CASE("ranks beyond the job are ignored") {
  Job job(4);
  job.acts(3, Activity::stopped);
  const Evidence evidence = cluster(job.workers);
  CHECK(verdict_of(evidence, 2).kind != Kind::stopped);
  CHECK(verdict_of(evidence, 0).kind != Kind::stopped);
}

}  // namespace hang_verdict_test

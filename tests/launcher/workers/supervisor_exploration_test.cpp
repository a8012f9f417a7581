// SPDX-License-Identifier: BSD-3-Clause
// Runs thousands of seeded lives of a node against the supervisor, in simulated time: workers that
// exit with 0 or a failure, late, not on TERM, not even on KILL, or never start; signals at any
// moment. The world below knows which processes live, and checks what the supervisor claims.

#include <doctest/doctest.h>

#include <array>
#include <csignal>
#include <map>
#include <optional>
#include <queue>
#include <random>
#include <utility>

#include "launcher/workers/bounds.h"
#include "launcher/workers/supervisor.h"
#include "proto/state_machine.h"

namespace supervisor_exploration_test {

using namespace cpprun;
using namespace cpprun::supervisor;
using namespace std::chrono_literals;

namespace {

struct Happening {
  TimePoint at;
  std::uint64_t order;  // of arrival, so that equal times stay in order
  Supervisor::Event event;
  bool operator<(const Happening& other) const {
    return at != other.at ? at > other.at : order > other.order;
  }
};

struct Body {
  bool alive = false;
  bool group_alive = false;
  // A process that the worker has started, in its group: until TERM, KILL, or for ever.
  bool has_child = false;
  bool child_minds_term = true;
  bool minds_term = true;
  bool minds_kill = true;
  TimePoint alive_since_drain{};
};

class Life {
 public:
  explicit Life(unsigned seed) : random_(seed), grace_(roll(0, 5) * 1s) {
    const int count = roll(1, 6);
    std::vector<WorkerSpec> specs(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      specs[static_cast<std::size_t>(i)].local_rank = LocalRank{i};
      specs[static_cast<std::size_t>(i)].rank = Rank{i};
      bodies_[i].minds_term = roll(0, 2) != 0;
      bodies_[i].minds_kill = roll(0, 19) != 0;
      bodies_[i].child_minds_term = roll(0, 2) != 0;
    }
    const auto scope = roll(0, 1) == 0 ? SignalScope::process : SignalScope::group;
    const std::array all = {Stragglers::wait, Stragglers::kill, Stragglers::leave};
    policy_ = {
        .grace = grace_, .scope = scope, .stragglers = all[static_cast<std::size_t>(roll(0, 2))]};
    policy_.dumps_stacks = roll(0, 1) == 0;
    driver_.begin(Supervisor(specs, policy_));
    if (roll(0, 2) == 0) later(roll(0, 9000), Stop{"asked", SIGTERM});
    if (roll(0, 4) == 0) later(roll(0, 12000), Insist{"asked again"});
  }

  void live() {
    driver_.start([](Supervisor& machine, TimePoint now) { return machine.start(now); });
    for (int steps = 0; finished_ == 0 && steps < 10000; ++steps) {
      REQUIRE((deadline_ || !queue_.empty()));
      if (deadline_ && (queue_.empty() || *deadline_ <= queue_.top().at)) {
        now_ = std::max(now_, *deadline_);
        driver_.advance();
        continue;
      }
      const auto happening = queue_.top();
      queue_.pop();
      now_ = std::max(now_, happening.at);
      if (std::holds_alternative<TreeSeen>(happening.event)) {
        driver_.post(TreeSeen{tree()});  // the current tree: scans arrive in order
      } else if (take_effect(happening.event)) {
        driver_.post(happening.event);
      }
    }
    CHECK(finished_ == 1);
    CHECK(failures_ <= 1);
  }

 private:
  int roll(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  void later(int milliseconds, Supervisor::Event event) {
    queue_.push({now_ + milliseconds * 1ms, ++order_, std::move(event)});
  }

  // The world changes before the supervisor is notified; a second death is no event.
  bool take_effect(const Supervisor::Event& event) {
    if (const auto* exited = std::get_if<Exited>(&event)) {
      auto& body = bodies_[exited->local_rank.value];
      if (!body.alive) return false;
      body.alive = false;
    }
    if (const auto* gone = std::get_if<GroupGone>(&event)) {
      bodies_[gone->local_rank.value].group_alive = false;
    }
    return true;
  }

  static int child_of(int rank) { return 1000 + rank; }

  std::vector<TreeProcess> tree() const {
    std::vector<TreeProcess> tree;
    for (const auto& [rank, body] : bodies_) {
      if (!body.has_child) continue;
      const int leader = 100 + rank;
      tree.push_back({.pid = child_of(rank),
                      .started = 1,
                      .parent = body.alive ? leader : 1,
                      .group = leader,
                      .session = leader});
    }
    return tree;
  }

  void child_ends(int rank) {
    if (!std::exchange(bodies_[rank].has_child, false) || !watched_) return;
    later(roll(0, 20), TreeSeen{});
  }

  void act(const WatchTree&) {
    watched_ = true;
    later(0, TreeSeen{});
  }

  void act(const SignalMain& signal) {
    CHECK(policy_.scope == SignalScope::process);
    CHECK(bodies_[signal.local_rank.value].alive);
    end_by(signal.local_rank, signal.signal);
  }

  // Not before the process that started it has exited.
  void act(const SignalProcess& signal) {
    const int rank = signal.pid - 1000;
    CHECK_FALSE(bodies_[rank].alive);
    if (bodies_[rank].child_minds_term) child_ends(rank);
  }

  void act(const Release& release) {
    CHECK(policy_.stragglers == Stragglers::leave);
    CHECK_FALSE(bodies_[release.local_rank.value].alive);
    later(0, GroupGone{release.local_rank});
  }

  void act(const StillEnding& still) {
    CHECK(drained_at_ != TimePoint::min());
    CHECK((still.ranks.empty() != (still.others == 0)));
  }

  void act(const Leftover& left) { CHECK_FALSE(left.processes.empty()); }

  void end_by(LocalRank rank, int signal) {
    const auto& body = bodies_[rank.value];
    const bool dies = signal == SIGKILL ? body.minds_kill : body.minds_term;
    if (dies) later(roll(0, 300), Exited{rank, {true, signal}, {}});
  }

  void act(const Spawn& spawn) {
    const int rank = spawn.spec.local_rank.value;
    if (roll(0, 14) == 0) {
      later(0, SpawnFailed{LocalRank{rank}, {SpawnStage::exec, 2}, {}});
      return;
    }
    bodies_[rank].alive = bodies_[rank].group_alive = true;
    bodies_[rank].has_child = roll(0, 1) == 0;
    later(0, Started{LocalRank{rank}, 100 + rank});
    const int fate = roll(0, 3);
    if (fate == 0) later(roll(1, 10000), Exited{LocalRank{rank}, {false, roll(1, 255)}, {}});
    if (fate == 1) later(roll(1, 10000), Exited{LocalRank{rank}, {true, SIGSEGV}, {}});
    if (fate >= 2) later(roll(1, 10000), Exited{LocalRank{rank}, {}, {}});
  }

  void act(const SignalGroup& signal) {
    const bool kills = signal.signal == SIGKILL;
    CHECK((kills || policy_.scope == SignalScope::group));
    end_by(signal.local_rank, signal.signal);
    const int rank = signal.local_rank.value;
    if (kills || bodies_[rank].child_minds_term) child_ends(rank);
  }

  void act(const Sweep& sweep) {
    CHECK_FALSE(bodies_[sweep.local_rank.value].alive);
    child_ends(sweep.local_rank.value);
    if (bodies_[sweep.local_rank.value].minds_kill) later(roll(0, 20), GroupGone{sweep.local_rank});
  }

  void act(const SweepNode&) {
    watched_ = false;
    if (roll(0, 9) != 0) later(roll(0, 20), NodeSwept{});
  }

  // Neither is requested in these lives.
  void act(const SignalWorker&) { FAIL("a worker is sent a signal that was not requested"); }
  void act(const ReadHeartbeats&) { FAIL("heartbeats are read although none are watched"); }

  // None of these workers can change rounds.
  void act(const LeaveRound&) { FAIL("a worker is to leave a round that it cannot leave"); }
  void act(const TakePlace&) { FAIL("a worker gets a place in a round that it cannot enter"); }
  void act(const Leaving&) { FAIL("workers leave a round that they cannot leave"); }
  void act(const Waiting&) { FAIL("workers wait for a round that they cannot enter"); }

  void act(const Failed& failed) {
    ++failures_;
    CHECK(failed.outcome.our_signal == 0);
    CHECK_FALSE(failed.outcome.good());
  }

  void act(const Draining&) {
    CHECK(drained_at_ == TimePoint::min());
    drained_at_ = now_;
  }

  void act(const DumpStack& dump) {
    CHECK(policy_.dumps_stacks);
    CHECK(now_ <= drained_at_ + grace_);
    CHECK(bodies_[dump.local_rank.value].alive);
  }

  void act(const Killing& killing) {
    CHECK(now_ <= drained_at_ + grace_ + (policy_.dumps_stacks ? stack_dump_pause : Duration{}));
    CHECK(bodies_[killing.local_rank.value].alive);
  }

  void act(const Finished& finished) {
    ++finished_;
    CHECK(finished.first_failure.has_value() == (failures_ == 1));
    for (const auto& outcome : finished.outcomes) {
      const auto& body = bodies_[outcome.local_rank.value];
      const bool is_gone = !body.alive && !body.group_alive;
      CHECK((is_gone || outcome.given_up));
      const bool may_be_left = policy_.stragglers == Stragglers::leave && failures_ == 0;
      CHECK((!body.has_child || may_be_left || outcome.given_up));
    }
    // Grace, then the timeout of KILL, then the timeout of descendants: never longer.
    if (drained_at_ != TimePoint::min()) {
      CHECK(now_ <= drained_at_ + grace_ + stack_dump_pause + 2 * bounds::kill_timeout);
    }
  }

  std::mt19937 random_;
  Duration grace_;
  TimePoint now_{};
  std::optional<TimePoint> deadline_;  // the only timer
  // The loop that drives the agent and, in it, the supervisor.
  Driver<Supervisor> driver_{
      {.now = [this] { return now_; },
       .perform =
           [this](const auto& action) {
             std::visit([this](const auto& what) { this->act(what); }, action);
           },
       .arm = [this](std::optional<TimePoint> deadline) { deadline_ = deadline; },
       .performed = [this] { CHECK_FALSE(driver_.machine().check()); }}};
  TimePoint drained_at_ = TimePoint::min();
  EndPolicy policy_;
  bool watched_ = false;
  std::map<int, Body> bodies_;
  std::priority_queue<Happening> queue_;
  std::uint64_t order_ = 0;
  int finished_ = 0;
  int failures_ = 0;
};

}  // namespace

TEST_CASE(
    "in every life no worker outlives the grace, and the end is reported once and correctly") {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    CAPTURE(seed);
    Life(seed).live();
  }
}

}  // namespace supervisor_exploration_test

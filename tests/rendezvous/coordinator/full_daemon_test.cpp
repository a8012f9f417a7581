// SPDX-License-Identifier: BSD-3-Clause
// A daemon whose places for jobs are all taken.

#include <doctest/doctest.h>

#include "rendezvous/coordinator/bounds.h"
#include "rendezvous/coordinator/coordinator.h"

namespace full_daemon_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};
const JobOptions job_options{.lease = 3s, .status_interval = 5s, .last_call = 30s, .store_port = 7};

template <class A>
std::vector<A> all(const Coordinator::Actions& actions) {
  std::vector<A> found;
  for (const auto& action : actions) {
    if (const auto* one = std::get_if<A>(&action)) found.push_back(*one);
  }
  return found;
}

std::string refusal(const Coordinator::Actions& actions) {
  for (const auto& say : all<coordinator::Say>(actions)) {
    if (const auto* refused = std::get_if<link::Refused>(&say.message)) return refused->reason;
  }
  return "";
}

// A daemon and its clients, one link after the other.
struct Daemon {
  explicit Daemon(std::size_t jobs)
      : coordinator{{.only = {},
                     .options = job_options,
                     .limits = {.jobs = jobs, .jobs_per_source = 100}}} {}
  // A job of one node starts. Returns the messages to all clients.
  Coordinator::Actions begin(TimePoint now, const std::string& job) {
    const LinkId link{++last};
    coordinator.handle(now, Coordinator::Opened{{.link = link, .peer = "10.0.0.1"}});
    const link::Join join{.job = job, .host = "alpha", .pid = 1, .lease = 100s};
    auto actions = coordinator.handle(now, Coordinator::Said{link, join});
    if (!all<coordinator::OpenStore>(actions).empty()) {
      coordinator.handle(now, Coordinator::StoreReady{job, 4000});
    }
    return actions;
  }
  void leave(TimePoint now, std::uint64_t link) {
    coordinator.handle(now, Coordinator::Closed{LinkId{link}, "gone"});
  }
  Coordinator coordinator;
  std::uint64_t last = 0;
};

}  // namespace

TEST_CASE("a new job gets only the place of the job whose nodes left first") {
  Daemon daemon(3);
  daemon.begin(t0, "alive");
  daemon.begin(t0, "later");
  daemon.begin(t0, "first");
  daemon.leave(t0 + 1s, 3);
  daemon.leave(t0 + 2s, 2);
  const auto begun = daemon.begin(t0 + 10s, "new");
  CHECK(refusal(begun) == "");
  REQUIRE(all<coordinator::CloseStore>(begun).size() == 1);
  CHECK(all<coordinator::CloseStore>(begun)[0].job == "first");
  REQUIRE(all<coordinator::Note>(begun).size() == 1);
  CHECK(all<coordinator::Note>(begun)[0].line ==
        "job \"first\" was dropped for a new job: all 3 slots are taken (--max-jobs), and none of "
        "its "
        "nodes is connected");
  CHECK(daemon.coordinator.knows("alive"));
  CHECK(daemon.coordinator.knows("later"));
  CHECK(daemon.coordinator.knows("new"));
  CHECK_FALSE(daemon.coordinator.check().has_value());
}

TEST_CASE("a job with a connected node keeps its place, and a new job is rejected") {
  Daemon daemon(2);
  daemon.begin(t0, "one");
  daemon.begin(t0, "two");
  const auto begun = daemon.begin(t0 + 1s, "new");
  CHECK(refusal(begun) == "this daemon runs 2 jobs, the maximum (--max-jobs)");
  CHECK(daemon.coordinator.job_count() == 2);
}

TEST_CASE("a displaced job's name is reserved while its nodes may still compute") {
  Daemon daemon(1);
  daemon.begin(t0, "j");
  daemon.leave(t0 + 10s, 1);
  daemon.begin(t0 + 20s, "new");
  daemon.leave(t0 + 20s, 2);
  CHECK(refusal(daemon.begin(t0 + 30s, "j")) ==
        "job \"j\" was dropped after all of its nodes had disconnected; its workers may still run "
        "for 80 s: retry after that, or use another --rdzv-id");
  // From the moment their own lease expires.
  REQUIRE(daemon.coordinator.next_deadline() <= t0 + 110s);
  daemon.coordinator.advance(t0 + 110s);
  CHECK(refusal(daemon.begin(t0 + 110s, "j")) == "");
  CHECK(daemon.coordinator.knows("j"));
}

TEST_CASE("four addresses that take all their places and leave do not block other jobs") {
  Coordinator coordinator{{.only = {}, .options = job_options}};
  std::uint64_t last = 0;
  const auto come = [&](const std::string& peer, const std::string& job) {
    const LinkId link{++last};
    coordinator.handle(t0, Coordinator::Opened{{.link = link, .peer = peer}});
    const link::Join join{.job = job, .host = "alpha", .pid = 1, .lease = 120s};
    const auto actions = coordinator.handle(t0, Coordinator::Said{link, join});
    if (all<coordinator::OpenStore>(actions).empty()) return false;
    coordinator.handle(t0, Coordinator::StoreReady{job, 4000});
    return true;
  };
  for (int i = 0; i < 1200; ++i) {
    // They keep their links, so none of their places is given away.
    come("10.6.6." + std::to_string(i % 4), "squat" + std::to_string(i));
  }
  CHECK(coordinator.job_count() < bounds::jobs_max);
  for (int i = 0; i < 100; ++i) {
    CHECK(come("10.0.0." + std::to_string(i), "real" + std::to_string(i)));
  }
}

}  // namespace full_daemon_test

// SPDX-License-Identifier: BSD-3-Clause
// Links that have not identified themselves yet.

#include <doctest/doctest.h>

#include "rendezvous/coordinator/bounds.h"
#include "rendezvous/coordinator/coordinator.h"

namespace newcomers_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};
constexpr LinkId a{1};
const JobOptions job_options{.lease = 3s, .status_interval = 5s, .last_call = 30s, .store_port = 7};

link::Join single(std::string job) {
  return {
      .job = std::move(job), .host = "alpha", .pid = 1, .lease = std::chrono::milliseconds(9000)};
}

std::vector<coordinator::HangUp> hung_up(const Coordinator::Actions& actions) {
  std::vector<coordinator::HangUp> found;
  for (const auto& action : actions) {
    if (const auto* one = std::get_if<coordinator::HangUp>(&action)) found.push_back(*one);
  }
  return found;
}

void open(Coordinator& coordinator, LinkId link) {
  coordinator.handle(t0, Coordinator::Opened{{.link = link, .peer = "10.0.0.1"}});
}

}  // namespace

TEST_CASE("among many silent links the longest silent are closed soon, and agents stay") {
  Coordinator coordinator{{.only = {}, .options = job_options, .limits = {.newcomers = 2}}};
  open(coordinator, a);
  coordinator.handle(t0, Coordinator::Said{a, single("k")});
  coordinator.handle(t0, Coordinator::StoreReady{"k", 4000});
  for (std::uint64_t link = 11; link <= 14; ++link) open(coordinator, LinkId{link});
  const TimePoint soon = t0 + bounds::first_message_timeout_in_crowd;
  CHECK(coordinator.next_deadline() == soon);
  CHECK(hung_up(coordinator.advance(soon - 1ms)).empty());
  const auto gone = hung_up(coordinator.advance(soon));
  REQUIRE(gone.size() == 2);
  CHECK(gone[0].link == LinkId{11});
  CHECK(gone[1].link == LinkId{12});
  // Now there is room for the remaining links to take their time.
  CHECK(coordinator.next_deadline() > soon);
  CHECK(hung_up(coordinator.advance(soon + 1s)).empty());
}

TEST_CASE("a link that is silent after its greeting delays the end of a hosted job only briefly") {
  link::Join join = single("k");
  join.lease = job_options.lease;
  Coordinator coordinator{{.only = terms_of(join), .options = job_options}};
  coordinator.handle(t0, Coordinator::Opened{{.link = a, .peer = "10.0.0.1", .local = true}});
  coordinator.handle(t0, Coordinator::Said{a, join});
  open(coordinator, LinkId{11});
  const TimePoint soon = t0 + bounds::first_message_timeout_in_crowd;
  CHECK(hung_up(coordinator.advance(soon)).empty());
  const TimePoint end = t0 + 1s;
  coordinator.handle(end, Coordinator::Said{a, link::Succeeded{RoundNumber{1}}});
  coordinator.handle(end, Coordinator::Closed{.link = a, .reason = "it has ended"});
  CHECK_FALSE(coordinator.done());
  CHECK(coordinator.next_deadline() == soon);
  const auto gone = hung_up(coordinator.advance(end));
  REQUIRE(gone.size() == 1);
  CHECK(gone[0].link == LinkId{11});
  CHECK(gone[0].reason == "no message after the greeting, and the job is over");
  CHECK(coordinator.done());
}

}  // namespace newcomers_test

// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/job_table.h"

#include <doctest/doctest.h>

#include "rendezvous/coordinator/bounds.h"

namespace job_places_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};

// Takes as many places as allowed, up to `most`.
std::size_t take_all(JobAdmission& places, const std::string& address, std::size_t most) {
  std::size_t taken = 0;
  while (taken < most && !places.is_full() && places.check(t0, "j", address)) {
    places.take(address);
    ++taken;
  }
  return taken;
}

std::string reason(const JobAdmission& places, TimePoint now, const std::string& address) {
  const auto may = places.check(now, "j", address);
  return may ? "" : may.error().reason;
}

}  // namespace

TEST_CASE("the last quarter of the places is for addresses that have few") {
  JobAdmission places({.jobs = 1024, .per_source = 256});
  CHECK(take_all(places, "10.6.6.1", 2000) == 256);
  CHECK(take_all(places, "10.6.6.2", 2000) == 256);
  CHECK(take_all(places, "10.6.6.3", 2000) == 256);
  CHECK(take_all(places, "10.6.6.4", 2000) == bounds::jobs_few);
  CHECK_FALSE(places.is_full());
  CHECK(reason(places, t0, "10.6.6.1") ==
        "10.6.6.1 already has 256 unfinished jobs here, the maximum per address; start cpprund "
        "with a "
        "larger --max-jobs-per-address");
  CHECK(reason(places, t0, "10.6.6.4") ==
        "the last 256 of 1024 job slots are kept for addresses with fewer than 8 unfinished jobs, "
        "and 10.6.6.4 already has 8; start cpprund with a larger --max-jobs");
  CHECK(reason(places, t0, "10.0.0.1") == "");
  for (std::size_t i = 0; i <= bounds::jobs_few; ++i) places.give_back("10.6.6.1");
  CHECK(reason(places, t0, "10.6.6.4") == "");
}

TEST_CASE("if a site lets one address have all places, none is reserved for others") {
  JobAdmission places({.jobs = 100, .per_source = 100});
  CHECK(take_all(places, "10.0.0.1", 2000) == 100);
  CHECK(places.is_full());
}

TEST_CASE("the name of a displaced job is reserved until its nodes have ended") {
  JobAdmission places({.jobs = 2, .per_source = 2});
  places.take("10.6.6.1");
  places.take("10.6.6.1");
  REQUIRE(places.is_full());
  REQUIRE(places.keep_name("j", "10.6.6.1", t0 + 90s));
  CHECK_FALSE(places.is_full());
  CHECK(reason(places, t0 + 30500ms, "10.0.0.1") ==
        "job \"j\" was dropped after all of its nodes had disconnected; its workers may still run "
        "for 60 s: retry after that, or use another --rdzv-id");
  CHECK(places.check(t0, "k", "10.0.0.1").has_value());
  // It counts for the address that started it, or one address could reserve any number of names.
  CHECK_FALSE(places.check(t0, "k", "10.6.6.1").has_value());
  CHECK(places.next_to_forget() == t0 + 90s);
  places.forget_names(t0 + 90s);
  CHECK(reason(places, t0 + 90s, "10.6.6.1") == "");
  CHECK_FALSE(places.next_to_forget().has_value());
}

TEST_CASE("the number of reserved names is limited, and at the limit no job is displaced") {
  constexpr std::size_t most = bounds::job_names_kept_max;
  JobAdmission places({.jobs = 2 * most, .per_source = 2 * most});
  for (std::size_t i = 0; i < most; ++i) {
    places.take("10.0.0.1");
    REQUIRE(places.keep_name("j" + std::to_string(i), "10.0.0.1", t0 + 90s));
  }
  places.take("10.0.0.1");
  CHECK_FALSE(places.keep_name("more", "10.0.0.1", t0 + 90s));
  CHECK(places.check(t0, "more", "10.0.0.1").has_value());
}

}  // namespace job_places_test

// SPDX-License-Identifier: BSD-3-Clause
// A daemon with more jobs than a page of a list has, which loses leadership.

#include <doctest/doctest.h>

#include <asio/io_context.hpp>
#include <string>

#include "rendezvous/coordinator/bounds.h"
#include "tests/rendezvous/io/link_kit.h"

namespace many_jobs_test {

using namespace cpprun;
using namespace cpprun::test;

namespace {

// Of a node that computes alone.
JobRecord record_of(std::size_t number) {
  JobRecord record;
  record.founder = loopback;
  record.round = RoundNumber{1};
  record.phase = Round::Phase::sealed;
  record.world_size = 1;
  auto join = node(0);
  join.job = "job" + std::to_string(number);
  join.nodes_min = join.nodes_max = 1;
  join.store_is_local = true;
  record.nodes = {{.join = join,
                   .peer = loopback,
                   .state = Member::State::running,
                   .group_rank = GroupRank{0},
                   .ranks = {Rank{0}, 0, 1}}};
  return record;
}

}  // namespace

TEST_CASE("a daemon that loses leadership drops all of its jobs, however many there are") {
  asio::io_context context;
  std::size_t begun = 0;
  CoordinatorServer server{context,
                           {.to_local_agent = [](const link::Message&) {},
                            .note =
                                [&begun](const Note& note) {
                                  if (note.text.find(" resumes") != note.text.npos) ++begun;
                                },
                            .done = nullptr,
                            .keep_record = [](const auto&, const auto&) { return 0; },
                            .forget_record = [](const auto&) { return std::uint64_t{0}; }}};
  const std::size_t jobs = bounds::jobs_max + 10;
  const auto opened =
      server.open({.host = loopback}, {.only = {},
                                       .options = {},
                                       .limits = {.jobs = jobs, .jobs_per_source = jobs},
                                       .keeps_records = true});
  REQUIRE(opened.has_value());
  for (std::size_t number = 0; number < jobs; ++number) {
    server.recover_with_replica(record_of(number));
  }
  run_until(context, [&] { return begun == jobs; });
  CHECK(server.follow({.reason = "another cpprund leads"}).size() == jobs);
}

}  // namespace many_jobs_test

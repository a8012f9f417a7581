// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A dialogue with one job, for the tests of its rules: each call returns the job's actions.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/job/job.h"

namespace cpprun::testing {

using namespace std::chrono_literals;

inline constexpr TimePoint t0{};
inline constexpr LinkId a{1};
inline constexpr LinkId b{2};
inline constexpr LinkId c{3};

inline link::Join node(int rank, int workers = 2, std::string host = {}) {
  return {.job = "j",
          .host = host.empty() ? "host" + std::to_string(rank) : host,
          .pid = 100 + rank,
          .node_rank = rank,
          .nodes_min = 2,
          .nodes_max = 2,
          .local_world_size = workers};
}

// A dialogue with one job of two nodes: each call returns the job's actions.
struct Table {
  explicit Table(int restarts_max = 0, int nodes_min = 2, int nodes_max = 2)
      : Table(JobTerms{.id = "j",
                       .nodes_min = nodes_min,
                       .nodes_max = nodes_max,
                       .restarts = {.max = restarts_max}}) {}
  explicit Table(JobTerms terms)
      : job(std::move(terms),
            {.lease = 3s, .status_interval = 5s, .last_call = 30s, .store_port = 29500}) {}

  coordinator::Actions join(TimePoint now, LinkId link, link::Join what, bool local = false) {
    const JobTerms& terms = job.terms();
    what.restarts = terms.restarts;
    coordinator::Actions actions;
    job.join(now, {link, "10.0.0." + std::to_string(link.value), local}, what, actions);
    CHECK_FALSE(job.check());
    return actions;
  }
  coordinator::Actions hear(TimePoint now, LinkId link, link::Message what) {
    coordinator::Actions actions;
    job.hear(now, link, what, actions);
    CHECK_FALSE(job.check());
    return actions;
  }
  coordinator::Actions close(TimePoint now, LinkId link, bool broken = false) {
    coordinator::Actions actions;
    job.close(now, {link, "connection reset", broken}, actions);
    CHECK_FALSE(job.check());
    return actions;
  }
  // Called only now: a driver that did not call shortly before a lease ends has slept.
  coordinator::Actions advance(TimePoint now) {
    coordinator::Actions actions;
    job.advance(now, actions);
    CHECK_FALSE(job.check());
    return actions;
  }
  // Like a driver that is awake: calls at every deadline on the way.
  coordinator::Actions awake(TimePoint now) {
    coordinator::Actions actions;
    for (auto due = job.next_deadline(); due && *due < now; due = job.next_deadline()) {
      job.advance(*due, actions);
    }
    job.advance(now, actions);
    CHECK_FALSE(job.check());
    return actions;
  }
  struct Asked {
    CommandResult outcome;
    coordinator::Actions actions;
  };
  Asked command(TimePoint now, OperatorCommand what) {
    what.by = "uid 0 (root)";
    Asked asked;
    asked.outcome = job.command(now, what, asked.actions);
    CHECK_FALSE(job.check());
    return asked;
  }
  // All of these nodes report that they have drained.
  coordinator::Actions drained(TimePoint now, std::uint32_t round, std::vector<LinkId> links) {
    coordinator::Actions last;
    for (const LinkId link : links) last = hear(now, link, link::Drained{RoundNumber{round}});
    return last;
  }
  void seal() {
    join(t0, a, node(0), true);
    join(t0, b, node(1));
  }
  Job job;
};

// The messages of that kind that were sent on that link.
template <class M>
std::vector<M> said(const coordinator::Actions& actions, LinkId link) {
  std::vector<M> found;
  for (const auto& action : actions) {
    const auto* say = std::get_if<coordinator::Say>(&action);
    if (say == nullptr || say->link != link) continue;
    if (const auto* message = std::get_if<M>(&say->message)) found.push_back(*message);
  }
  return found;
}

inline bool resets_store(const coordinator::Actions& actions) {
  return std::any_of(actions.begin(), actions.end(), [](const coordinator::Action& action) {
    return std::holds_alternative<coordinator::ResetStore>(action);
  });
}

inline constexpr LinkId newer{9};

// The agent of link b reconnects from the same address.
inline coordinator::Actions back(Table& table, TimePoint now, link::Join join,
                                 LinkId link = newer) {
  join.restarts.max = table.job.terms().restarts.max;
  coordinator::Actions actions;
  table.job.join(now, {link, "10.0.0.2", false}, join, actions);
  return actions;
}

inline link::Join after(link::Join join, std::uint32_t round) {
  join.after = RoundNumber{round};
  return join;
}

}  // namespace cpprun::testing

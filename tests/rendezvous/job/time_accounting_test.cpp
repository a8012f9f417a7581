// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/time_accounting.h"

#include <doctest/doctest.h>

#include <string>

namespace time_accounting_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr TimePoint t0{};

TimeAccounting::Nodes at(Account account, std::size_t count) {
  TimeAccounting::Nodes nodes{};
  nodes[static_cast<std::size_t>(account)] = count;
  return nodes;
}

NodeDuration booked(const TimeAccounting& accounting, TimePoint now, Account account) {
  return of(accounting.told(now).nodes, account);
}

// Two nodes wait for 1 s, start for 2 s, train for 10 s, and are asked to end.
TimeAccounting trained() {
  TimeAccounting accounting;
  accounting.place(t0, at(Account::waiting_for_nodes, 2));
  accounting.sealed(t0 + 1s);
  accounting.place(t0 + 1s, at(Account::starting, 2));
  accounting.trains();
  accounting.place(t0 + 3s, at(Account::training, 2));
  accounting.broken(t0 + 13s);
  accounting.place(t0 + 13s, at(Account::draining, 2));
  return accounting;
}

const LostTime* lost_to(const TimeUse& use, const std::string& cause) {
  for (const LostTime& each : use.lost) {
    if (each.cause == cause) return &each;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("every node's time is booked to the state it was in") {
  TimeAccounting accounting = trained();
  CHECK(booked(accounting, t0 + 15s, Account::waiting_for_nodes) == 2s);
  CHECK(booked(accounting, t0 + 15s, Account::starting) == 4s);
  CHECK(booked(accounting, t0 + 15s, Account::training) == 20s);
  CHECK(booked(accounting, t0 + 15s, Account::draining) == 4s);
  CHECK(accounting.told(t0 + 15s).wall == 15s);
  CHECK(sum_of(accounting.told(t0 + 15s).nodes) == 30s);
}

TEST_CASE("the time between a failure and its detection is not training") {
  TimeAccounting accounting = trained();
  accounting.round_decided(t0 + 14s, {.id = "out_of_memory", .host = "alpha", .unnoticed = 3s});
  const TimeUse use = accounting.told(t0 + 14s);
  CHECK(of(use.nodes, Account::training) == 14s);
  CHECK(of(use.nodes, Account::detecting) == 6s);
  CHECK(sum_of(use.nodes) == 28s);
  const LostTime* lost = lost_to(use, "out_of_memory");
  REQUIRE(lost != nullptr);
  CHECK(lost->count == 1);
  CHECK(lost->host == "alpha");
  CHECK(of(lost->time, Account::detecting) == 6s);
  CHECK(of(lost->time, Account::draining) == 2s);
}

TEST_CASE("the detection time is at most the length of the round") {
  TimeAccounting accounting = trained();
  accounting.round_decided(t0 + 14s, {.id = "node_lost", .unnoticed = 60s});
  const TimeUse use = accounting.told(t0 + 14s);
  CHECK(of(use.nodes, Account::training) == 0s);
  // Its 20 s of training and its 4 s of starting, but not the wait before it.
  CHECK(of(use.nodes, Account::detecting) == 24s);
  CHECK(of(use.nodes, Account::waiting_for_nodes) == 2s);
  CHECK(sum_of(use.nodes) == 28s);
  CHECK_FALSE(accounting.check());
}

TEST_CASE("training since the last checkpoint counts as redone if a worker failed") {
  TimeAccounting accounting = trained();
  accounting.unsaved(5s);
  accounting.unsaved(4s);
  SUBCASE("a failure") {
    accounting.round_decided(t0 + 13s, {.id = "nan", .unnoticed = 1s});
    CHECK(booked(accounting, t0 + 13s, Account::detecting) == 2s);
    CHECK(booked(accounting, t0 + 13s, Account::redoing) == 7s);
    CHECK(booked(accounting, t0 + 13s, Account::training) == 11s);
  }
  SUBCASE("a new node") {
    accounting.round_decided(t0 + 13s, {.id = "membership_change", .failed = false});
    CHECK(booked(accounting, t0 + 13s, Account::redoing) == 0s);
    CHECK(booked(accounting, t0 + 13s, Account::training) == 20s);
  }
}

TEST_CASE("the time after a failure is booked to its cause until training resumes") {
  TimeAccounting accounting = trained();
  accounting.round_decided(t0 + 14s, {.id = "killed", .host = "alpha"});
  accounting.place(t0 + 14s, at(Account::pausing, 2));
  accounting.place(t0 + 24s, at(Account::rendezvous, 2));
  accounting.sealed(t0 + 25s);
  accounting.place(t0 + 25s, at(Account::starting, 2));
  accounting.trains();
  accounting.place(t0 + 26s, at(Account::training, 2));
  accounting.broken(t0 + 30s);
  accounting.place(t0 + 30s, at(Account::draining, 2));
  accounting.round_decided(t0 + 31s, {.id = "killed", .host = "beta"});
  const TimeUse use = accounting.told(t0 + 31s);
  const LostTime* lost = lost_to(use, "killed");
  REQUIRE(lost != nullptr);
  CHECK(lost->count == 2);
  CHECK(lost->host.empty());
  CHECK(of(lost->time, Account::pausing) == 20s);
  CHECK(of(lost->time, Account::starting) == 2s);
  CHECK(of(lost->time, Account::draining) == 4s);
  CHECK(sum_of(use.nodes) == 62s);
  CHECK(to_text(use) ==
        "training 45.2 % of 31 s × 2 nodes; lost: 14 s (2 × killed), 3.0 s "
        "(startup)");
}

TEST_CASE("a job whose workers never use the store has trained if all of them succeed") {
  TimeAccounting accounting;
  accounting.sealed(t0);
  accounting.place(t0, at(Account::starting, 3));
  accounting.has_worked(t0 + 4s);
  CHECK(booked(accounting, t0 + 4s, Account::training) == 12s);
  CHECK(booked(accounting, t0 + 4s, Account::starting) == 0s);
}

TEST_CASE("the time accounting ends with the job") {
  TimeAccounting accounting;
  accounting.place(t0, at(Account::training, 1));
  accounting.place(t0 + 5s, {});
  CHECK(accounting.told(t0 + 60s).wall == 5s);
  CHECK(sum_of(accounting.told(t0 + 60s).nodes) == 5s);
}

TEST_CASE("the number of causes is limited, whatever nodes report") {
  TimeAccounting accounting;
  for (int i = 0; i < 1000; ++i) {
    accounting.sealed(t0);
    accounting.broken(t0);
    accounting.round_decided(t0, {.id = "cause " + std::to_string(i)});
  }
  CHECK(accounting.told(t0).lost.size() <= 64);
  CHECK(failures_of(accounting.told(t0)) == 1000);
}

}  // namespace time_accounting_test

// SPDX-License-Identifier: BSD-3-Clause
// Elections with a real etcd of three members. Durations are printed, not checked.

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rendezvous/etcd/io/election_stage.h"
#include "tests/rendezvous/etcd/io/etcd_cluster.h"

namespace etcd_test {

using namespace cpprun;
using namespace cpprun::test;
using namespace std::chrono_literals;

namespace {

const std::vector<std::string> both = {"alpha", "beta"};

bool sees(const Candidate& candidate, const std::string& leader) {
  const auto is = candidate.last<election::LeaderIs>();
  return is && is->name == leader && !candidate.leads();
}

bool has_written(const Candidate& candidate, std::uint64_t number) {
  const auto written = candidate.last<election::Written>();
  return written && written->through >= number;
}

// alpha leads, and beta is in sync.
struct Pair {
  explicit Pair(Stage& stage, Duration ttl = stage_ttl)
      : alpha(stage.add("alpha", ttl)), beta(stage.add("beta", ttl)) {
    alpha.tell(election::Enter{});
    stage.await([&] { return alpha.leads(); }, "alpha leads");
    beta.tell(election::Enter{});
    alpha.tell(election::Publish{{"beta"}, 1});
    stage.await([&] { return sees(beta, "alpha") && has_written(alpha, 1); }, "beta follows");
    const auto is_synced = [&] { return beta.last<election::LeaderIs>()->synced == both; };
    stage.await(is_synced, "beta is synced");
  }
  Candidate& alpha;
  Candidate& beta;
};

// Leads in a process of its own; returns its pid.
pid_t lead_elsewhere(const EtcdAccess& access, const std::string& name) {
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid > 0) return pid;
  Stage stage(access);
  stage.add(name).tell(election::Enter{});
  stage.run_for(1h);
  ::_exit(0);
}

}  // namespace

TEST_CASE("the first candidate leads, the second follows, and both see the writes") {
  if (skips_without_etcd()) return;
  EtcdCluster etcd;
  Stage stage({.endpoints = etcd.endpoints()});
  Candidate& alpha = stage.add("alpha");
  stage.await([&] { return alpha.count<election::NoLeader>() == 1; }, "alpha looks");
  const auto begun = boot_now();
  alpha.tell(election::Enter{});
  stage.await([&] { return alpha.leads(); }, "alpha leads");
  fmt::print("first leader after {:.0f} ms\n", 1000 * in_seconds(boot_now() - begun));
  CHECK(alpha.last<election::Found>() == election::Found{});

  Candidate& beta = stage.add("beta");
  beta.tell(election::Enter{});
  stage.await([&] { return sees(beta, "alpha"); }, "beta follows");
  CHECK(beta.last<election::LeaderIs>() ==
        election::LeaderIs{alpha.epoch(), "alpha", "card of alpha", {"alpha"}});

  alpha.tell(election::Keep{"job", "record", 1});
  alpha.tell(election::Keep{"gone", "record", 2});
  alpha.tell(election::Drop{"gone", 3});
  alpha.tell(election::Publish{{"beta"}, 4});
  stage.await([&] { return has_written(alpha, 4); }, "alpha's records are written");
  stage.await([&] { return beta.last<election::LeaderIs>()->synced == both; }, "beta is synced");
  CHECK(beta.count<election::LeaderIs>() == 2);
}

TEST_CASE("when the leading process is killed, another one leads") {
  if (skips_without_etcd()) return;
  EtcdCluster etcd;
  Stage stage({.endpoints = etcd.endpoints()});
  Candidate& beta = stage.add("beta");
  const pid_t other = lead_elsewhere({.endpoints = etcd.endpoints()}, "alpha");
  stage.await([&] { return sees(beta, "alpha"); }, "alpha leads");
  const auto epoch = beta.last<election::LeaderIs>()->epoch;
  beta.tell(election::Enter{});
  // The next case covers the records; an unsynced candidate waits longer.
  stage.run_for(500ms);
  const auto killed = boot_now();
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  stage.await([&] { return beta.leads(); }, "beta leads");
  fmt::print("killed by SIGKILL; an unsynced candidate leads after {:.2f} s\n",
             in_seconds(boot_now() - killed));
  CHECK(beta.epoch() > epoch);
  CHECK(beta.last<election::Found>()->synced == std::vector<std::string>{"alpha"});
}

TEST_CASE("a synced standby leads after the leader's lease and finds hundreds of records") {
  if (skips_without_etcd()) return;
  EtcdCluster etcd;
  Stage stage({.endpoints = etcd.endpoints()});
  Pair pair(stage);
  const std::string record(2000, 'r');
  constexpr std::uint64_t records = 300;
  auto begun = boot_now();
  for (std::uint64_t each = 2; each < 2 + records; ++each) {
    pair.alpha.tell(election::Keep{fmt::format("job {}", each), record, each});
  }
  stage.await([&] { return has_written(pair.alpha, 1 + records); }, "all are written");
  fmt::print("{} records of {} bytes written in {:.0f} ms\n", records, record.size(),
             1000 * in_seconds(boot_now() - begun));
  const auto epoch = pair.alpha.epoch();
  begun = boot_now();
  stage.kill(pair.alpha);
  stage.await([&] { return pair.beta.leads(); }, "beta leads");
  fmt::print("killed; the synced standby leads after {:.2f} s with all records\n",
             in_seconds(boot_now() - begun));
  CHECK(pair.beta.epoch() > epoch);
  const auto found = pair.beta.last<election::Found>();
  CHECK(found->synced == both);
  REQUIRE(found->records.size() == records);
  CHECK(found->records.begin()->second == record);
}

TEST_CASE("a transfer and a withdrawal elect the next leader quickly") {
  if (skips_without_etcd()) return;
  EtcdCluster etcd;
  Stage stage({.endpoints = etcd.endpoints()});
  Pair pair(stage);
  auto begun = boot_now();
  pair.alpha.tell(election::HandOver{"beta"});
  CHECK(pair.alpha.last<election::Deposed>() ==
        election::Deposed{"leadership was transferred to \"beta\"", /*is_orderly=*/true});
  stage.await([&] { return pair.beta.leads(); }, "beta leads");
  fmt::print("handed over in {:.0f} ms\n", 1000 * in_seconds(boot_now() - begun));
  stage.await([&] { return sees(pair.alpha, "beta"); }, "alpha follows");
  pair.beta.tell(election::Publish{{"alpha"}, 1});
  stage.await([&] { return has_written(pair.beta, 1); }, "alpha is synced");
  begun = boot_now();
  pair.beta.tell(election::Withdraw{});
  stage.await([&] { return pair.alpha.leads(); }, "alpha leads again");
  fmt::print("withdrawn, and succeeded in {:.0f} ms\n", 1000 * in_seconds(boot_now() - begun));
  stage.await([&] { return pair.beta.count<election::Withdrawn>() == 1; }, "beta is done");
  pair.alpha.tell(election::Withdraw{});
  stage.await([&] { return pair.alpha.count<election::Withdrawn>() == 1; }, "alpha is done");
  // No lease is left.
  CHECK(etcd.ask(0, "/v3/lease/leases", "{}").find("\"leases\"") == std::string::npos);
}

TEST_CASE("a restarted leader waits for the lease of its previous run in a real etcd") {
  if (skips_without_etcd()) return;
  EtcdCluster etcd;
  Stage stage({.endpoints = etcd.endpoints()});
  Candidate* alpha = &stage.add("alpha");
  alpha->tell(election::Enter{});
  stage.await([&] { return alpha->leads(); }, "alpha leads");
  const auto epoch = alpha->epoch();
  const auto killed = boot_now();
  stage.kill(*alpha);
  alpha = &stage.add("alpha");
  alpha->tell(election::Enter{});
  stage.await([&] { return alpha->leads(); }, "alpha leads again");
  fmt::print("killed and restarted, it leads again after {:.2f} s\n",
             in_seconds(boot_now() - killed));
  CHECK(alpha->epoch() > epoch);
  CHECK(alpha->last<election::LeaderIs>()->name == "alpha");
}

}  // namespace etcd_test

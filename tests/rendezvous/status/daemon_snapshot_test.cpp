// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/daemon_snapshot.h"

#include <doctest/doctest.h>

namespace daemon_snapshot_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

StandbySnapshot standby(const std::string& place = "10.0.0.2:29400") {
  return {.name = "b", .place = place, .is_in_sync = true};
}

// A leader elected through etcd, with a standby on another machine.
DaemonSnapshot pair_of() {
  return {.name = "a",
          .place = "10.0.0.1:29400",
          .has_etcd = true,
          .leads = true,
          .leader = "a",
          .leader_address = "10.0.0.1:29400",
          .standbys = {standby()}};
}

std::string only_warning(const DaemonSnapshot& daemon) {
  const auto warnings = warnings_of(daemon);
  REQUIRE(warnings.size() == 1);
  return warnings.front();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a healthy pair with etcd has no warnings and names its successor") {
  CHECK(warnings_of(pair_of()).empty());
  CHECK(cover_text(pair_of()) == "if the machine of the cpprund is lost, \"b\" resumes the job");
}

TEST_CASE("a standby that is missing, behind, or on the same machine is a warning with a hint") {
  DaemonSnapshot daemon = pair_of();
  daemon.standbys.clear();
  CHECK(only_warning(daemon) ==
        "no standby: if this machine is lost, the workers of its jobs are stopped, and restart "
        "with empty stores when there is a leader again; start another cpprund with the same "
        "--etcd and --cluster on another machine");
  daemon.standbys = {{.name = "b", .place = "10.0.0.2:29400", .bytes_behind = 7}};
  CHECK(has(only_warning(daemon),
            "\"b\" at 10.0.0.2:29400 is a standby, but not in sync "
            "yet (7 bytes behind)"));
  daemon.standbys = {standby("10.0.0.1:29401")};
  CHECK(has(only_warning(daemon), "can become the leader is on this machine (10.0.0.1)"));
  CHECK(has(cover_text(daemon), "the workers of its jobs are stopped"));
  daemon.standbys.push_back(standby("10.0.0.3:29400"));
  CHECK(warnings_of(daemon).empty());
}

TEST_CASE("the warning of a single daemon depends on what it stores") {
  DaemonSnapshot daemon{.name = "a", .place = "a:29400", .leads = true, .leader = "a"};
  CHECK(only_warning(daemon) ==
        "no standby: if this machine is lost, its jobs are lost and their workers are stopped; "
        "start two cpprunds with --etcd on two machines");
  CHECK(cover_text(daemon) == "if the machine of the cpprund is lost, the job is lost");
  daemon.durable = true;
  CHECK(has(only_warning(daemon),
            "are stopped, unless a cpprund with the same state directory (--state) starts again "
            "before the lease of the jobs ends"));
  CHECK(has(cover_text(daemon), "the next cpprund resumes the job"));
  daemon.durable = false;
  CHECK(has(only_warning(daemon), "cannot write to its state directory (--state; see its log)"));
}

TEST_CASE("trouble with etcd is a warning at the leader and at the standby") {
  DaemonSnapshot daemon = pair_of();
  daemon.trouble = "no member answers";
  CHECK(has(only_warning(daemon), "etcd is unavailable (no member answers)"));
  CHECK_FALSE(has(cover_text(daemon), "\"b\" goes on"));
  daemon.leads = false;
  daemon.is_in_sync = true;
  CHECK(has(only_warning(daemon), "etcd is unavailable"));
}

TEST_CASE("a standby warns if its state is incomplete or no leader is known") {
  DaemonSnapshot daemon = pair_of();
  daemon.leads = false;
  CHECK(has(only_warning(daemon), "is not in sync yet"));
  daemon.leader.clear();
  CHECK(has(only_warning(daemon), "this cpprund knows no leader"));
}

TEST_CASE("a change of the leader is one line") {
  LeaderChange change{.to = "b", .to_place = "b:1", .epoch = 7, .reason = "it has begun"};
  CHECK(leader_changed_text(change) == "\"b\" is the leader (epoch 7): it has begun");
  change.from = "a";
  change.silence = 12ms;
  CHECK(leader_changed_text(change) ==
        "\"b\" is the leader (epoch 7), replacing \"a\": it has begun; no leader for 0.012 s");
  change.from = "b";
  change.from_place = "b:1";
  CHECK(leader_changed_text(change) ==
        "\"b\" is the leader again (epoch 7): it has begun; no leader for 0.012 s");
}

}  // namespace daemon_snapshot_test

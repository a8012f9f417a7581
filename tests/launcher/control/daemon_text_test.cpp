// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/text.h"

#include <doctest/doctest.h>

namespace daemon_text_test {

using namespace cpprun;

namespace {

DaemonView leader() {
  return {.name = "a",
          .place = "a:29400",
          .version = "1.2",
          .leads = true,
          .has_etcd = true,
          .leader = "a",
          .leader_address = "a:29400",
          .epoch = 12,
          .now = 1000,
          .since = 880};
}

}  // namespace

TEST_CASE("a leader lists its standbys, its state and the previous leader") {
  DaemonView daemon = leader();
  daemon.standbys = {
      {.name = "b", .place = "b:29400", .version = "1.2", .is_in_sync = true},
      {.name = "c", .place = "c:29400", .version = "1.3", .bytes_behind = 3 * 1024 * 1024}};
  daemon.trouble = "no answer";
  daemon.last_change = ChangeView{
      .time = 880, .from = "b", .to = "a", .reason = "it has handed over", .silence = 0.012};
  CHECK(daemon_text(daemon) ==
        "cpprund \"a\" at a:29400 (1.2) has been the leader for 2 min (epoch 12)\n"
        "  standby \"b\" at b:29400 (1.2): in sync\n"
        "  standby \"c\" at c:29400 (1.3): catching up, 3.0 MiB behind\n"
        "  state: on the leader and its standbys; job records also in etcd\n"
        "  etcd: no answer\n"
        "  \"a\" took over from \"b\" 2 min ago: it has handed over; no leader for 0.012 s\n");
}

TEST_CASE("a standby reports where the jobs are") {
  DaemonView daemon = leader();
  daemon.name = "b";
  daemon.place = "b:29400";
  daemon.leads = false;
  daemon.is_in_sync = true;
  CHECK(daemon_text(daemon) ==
        "cpprund \"b\" at b:29400 (1.2) is a standby, in sync; the jobs are on \"a\" at a:29400, "
        "the leader for 2 min (epoch 12)\n"
        "  state: on the leader and its standbys; job records also in etcd\n");
  daemon.is_in_sync = false;
  CHECK(daemon_text(daemon).find("not yet in sync; the jobs are on \"a\"") != std::string::npos);
  daemon.leader.clear();
  CHECK(daemon_text(daemon).find("is a standby, no known leader") != std::string::npos);
}

TEST_CASE("a leader without a standby reports it, and how its state is kept") {
  DaemonView daemon = leader();
  daemon.has_etcd = false;
  daemon.is_durable = true;
  daemon.is_synced = true;
  CHECK(daemon_text(daemon) ==
        "cpprund \"a\" at a:29400 (1.2) has been the leader for 2 min, without a standby\n"
        "  state: on disk before each reply (--state-sync)\n");
  daemon.is_synced = false;
  CHECK(daemon_text(daemon).find("  state: in the state directory (--state)") != std::string::npos);
  daemon.is_durable.reset();
  CHECK(daemon_text(daemon).find("  state: in memory only (no --state)") != std::string::npos);
  daemon.is_durable = false;
  CHECK(daemon_text(daemon).find("cannot write to the state directory") != std::string::npos);
}

TEST_CASE(
    "untrusted names stay on one line without control characters, and warnings are coloured") {
  DaemonView daemon = leader();
  daemon.name = "a\nb";
  CHECK(daemon_text(daemon).find("\"a?b\"") != std::string::npos);
  CHECK(warnings_text({"x\ny"}, {}) == "warning: x?y\n");
  CHECK(warnings_text({"x"}, {.has_colour = true}).find("\x1b[31m") == 0);
}

}  // namespace daemon_text_test

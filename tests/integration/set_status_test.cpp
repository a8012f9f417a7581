// SPDX-License-Identifier: BSD-3-Clause
// What people and scripts see of a leader and a standby cpprund; and leadership transferred by
// cpprunctl under counting workers.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/integration/daemon_site.h"

namespace set_status_test {

using namespace cpprun::integration;
using nlohmann::json;

namespace {

// A site whose daemons grant read access, by their sockets in the directory of this scene.
struct SeenSite : Site {
  SeenSite() { status_access = "user"; }

  Ended ctl(const Words& words) const {
    Words all = {from_build("CPPRUNCTL")};
    all.insert(all.end(), words.begin(), words.end());
    Command command(all, looking());
    return command.wait();
  }
  // The output once it has done that.
  std::string said(const Words& words) const {
    const Ended ended = ctl(words);
    CAPTURE(words.back());
    CHECK_MESSAGE(ended.code == 0, ended.err);
    return ended.out;
  }
  json shown(const Words& words) const { return json::parse(said(words)); }
  // Until both are listed: a control socket is created a moment after the port.
  json both() const {
    Command waits({"/bin/sh", "-c",
                   "until [ $('" + from_build("CPPRUNCTL") +
                       "' status --json 2>/dev/null | grep -o '\"at\":' | wc -l) = 2 ]; do "
                       "sleep 0.1; done"},
                  looking());
    CHECK(waits.wait().code == 0);
    return shown({"status", "--json"});
  }
  Options looking() const {
    return {.variables = {{"TMPDIR", cluster.temporary.path()}, {"XDG_RUNTIME_DIR", ""}}};
  }
};

json named(const json& daemons, const std::string& name) {
  for (const json& each : daemons) {
    if (each["name"] == name) return each;
  }
  FAIL("no daemon is called ", name);
  return daemons;
}

}  // namespace

TEST_CASE("both daemons of a pair report leader and standby, and cpprunctl transfers leadership") {
  SeenSite site;
  site.status_access = "network";
  if (const auto why = site.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  site.begin_pair();
  const json daemons = site.both()["daemons"];
  const json leader = named(daemons, "node0");
  CHECK(leader["role"] == "leads");
  CHECK(leader["judge"] == "etcd");
  REQUIRE(leader["standbys"].size() == 1);
  CHECK(leader["standbys"][0]["name"] == "node3");
  CHECK(leader["standbys"][0]["place"] == Site::place(3));
  CHECK(leader["standbys"][0]["in_sync"] == true);
  CHECK(leader["warnings"].empty());
  const json standby = named(daemons, "node3");
  CHECK(standby["role"] == "stands_by");
  CHECK(standby["leader_place"] == Site::place(0));
  CHECK(standby["epoch"] == leader["epoch"]);
  CHECK(standby["warnings"].empty());
  const std::string text = site.said({"status"});
  CHECK(contains(text, "\"node3\" at " + Site::place(3)));
  CHECK(contains(text, ": in sync"));
  CHECK(contains(text, "the jobs are on \"node0\" at " + Site::place(0)));

  Nodes nodes(site, 24);
  nodes.first->expect_out("sum is ");
  Command waits({from_build("CPPRUNCTL"), "wait", "cluster"}, site.looking());
  waits.expect_err("waiting for job \"cluster\" to end");
  // A standby has no job, and names the leader.
  const Ended asked =
      Command(site.cluster.hosts.on(
                  1, {from_build("CPPRUNCTL"), "--address=" + Site::place(3), "status", "cluster"}),
              site.looking())
          .wait();
  CHECK_MESSAGE(asked.code == 0, asked.err);
  CHECK(contains(asked.err, "asking the leader at " + Site::place(0)));
  CHECK(contains(asked.out, "\"node0\" at " + Site::place(0)));
  for (const int successor : {3, 0}) {
    nodes.expect_progress();
    const std::string name = Hosts::host_name(successor);
    CHECK(contains(site.said({"handover", "--reason=upgrade"}),
                   "\"" + name + "\" at " + Site::place(successor) + " is the leader (epoch "));
    std::swap(site.leader, site.standby);
    site.leader->expect_err("is in sync and can become the leader", successor == 3 ? 1 : 2);
    const json job = site.shown({"status", "cluster", "--json"});
    CHECK(job["daemon"]["name"] == name);
    CHECK(job["daemon"]["last_change"]["to_name"] == name);
    const auto reason = job["daemon"]["last_change"]["reason"].get<std::string>();
    CHECK_MESSAGE(contains(reason, "was transferred to"), reason);
    CHECK(job["daemon"]["last_change"]["silence"].get<double>() < 1);
  }
  nodes.expect_all_added();
  CHECK(waits.wait().code == 0);
  CHECK(count(waits.err(), "waiting for job \"cluster\" to end") == 1);
  // Once for each transfer.
  CHECK(count(waits.err(), "contact with job \"cluster\" restored") == 2);
  CHECK(count(nodes.first->err(), "workers were not interrupted") == 2);
  site.end_all();
}

TEST_CASE("a daemon that cannot transfer leadership prints the reason and a hint") {
  SeenSite site;
  if (const auto why = site.why_not(); !why.empty()) return skip(why);
  CHECK(contains(site.ctl({"handover"}).err, "choose the leader with --address"));
  site.leader = site.daemon(0, {});
  Command there({"/bin/sh", "-c",
                 "until '" + from_build("CPPRUNCTL") +
                     "' status 2>/dev/null | grep -A9 'without a standby'; do sleep 0.1; done"},
                site.looking());
  const Ended seen = there.wait();
  CHECK(seen.code == 0);
  CHECK_MESSAGE(contains(seen.out, "warning: no standby: if this machine is lost"), seen.out);
  const Ended alone = site.ctl({"handover"});
  CHECK(alone.code == 1);
  CHECK_MESSAGE(contains(alone.err, "this cpprund was started without --etcd and has no standby"),
                alone.err);
  site.leader->signal(SIGTERM);
  CHECK(site.leader->wait().code == 0);
  site.etcd.begin();
  site.leader = site.member(0);
  site.leader->expect_err("this cpprund is the leader");
  const Ended first = site.ctl({"handover"});
  CHECK(first.code == 1);
  CHECK_MESSAGE(contains(first.err, "start another cpprund with the same --etcd and --cluster"),
                first.err);
  site.standby = site.member(3);
  site.leader->expect_err("is in sync and can become the leader");
  (void)site.both();
  CHECK(site.ctl({"exclude", "elsewhere", "--for=3600"}).code == 0);
  CHECK(contains(site.said({"handover"}), "\"node3\" at " + Site::place(3) + " is the leader"));
  std::swap(site.leader, site.standby);
  CHECK(contains(site.said({"include", "elsewhere"}), "nodes of elsewhere may join again"));
  site.leader->expect_err("is in sync and can become the leader");
  site.end_all();
}

}  // namespace set_status_test

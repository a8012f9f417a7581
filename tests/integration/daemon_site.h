// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Two cpprunds on hosts of their own, etcd beside them, and the nodes of a job that use them.

#include <memory>

#include "tests/integration/adding_workers.h"
#include "tests/integration/etcd_on_hosts.h"

namespace cpprun::integration {

// Nodes on hosts 1 and 2, a daemon on hosts 0 and 3, and a member of etcd beside each of these and
// on host 4, as in a real cluster: the loss of a daemon's host also loses a member.
struct Site {
  Site() : cluster(5, "2"), etcd(cluster.hosts, {0, 3, 4}) {
    cluster.workers = "2";
    cluster.endpoint = place(0) + "," + place(3);
  }
  static std::string place(int host) { return Hosts::address(host) + ":29500"; }

  std::string why_not() const { return etcd.why_not(); }

  std::unique_ptr<Command> daemon(int host, const Words& more) const {
    Words words = {from_build("CPPRUND"), "--host=" + Hosts::address(host), "--port=29500",
                   "--status-access=" + status_access, "--name=" + Hosts::host_name(host)};
    words.insert(words.end(), more.begin(), more.end());
    auto begun = std::make_unique<Command>(cluster.hosts.on(host, words), cluster.options());
    begun->expect_out("\n");
    return begun;
  }
  std::unique_ptr<Command> member(int host) const {
    return daemon(host, {"--etcd=" + etcd.endpoints("http://"), "--etcd-lease=" + etcd_lease});
  }
  // The first is the leader, and the other one is in sync.
  void begin_pair() {
    leader = member(0);
    leader->expect_err("this cpprund is the leader");
    standby = member(3);
    leader->expect_err("is in sync and can become the leader");
  }
  // The lost daemon is back, as the standby of the other one.
  void swap_roles(std::unique_ptr<Command> back) {
    standby->expect_err("this cpprund is the leader");
    leader = std::move(standby);
    standby = std::move(back);
    leader->expect_err("is in sync and can become the leader");
  }

  std::unique_ptr<Command> node(int host, const Words& does) const {
    Words program = {from_build("CPPRUN_STORE_WORKER")};
    program.insert(program.end(), does.begin(), does.end());
    return std::make_unique<Command>(cluster.node(host, {}, program), cluster.options());
  }
  void end_all() {
    for (auto* const each : {&standby, &leader}) {
      (*each)->signal(SIGTERM);
      CHECK((*each)->wait().code == 0);
    }
    etcd.end();
    cluster.expect_nothing_left();
  }
  Cluster cluster;
  EtcdOnHosts etcd;
  std::string status_access = "none";
  std::string etcd_lease = "2";  // short, so that a scene sees it end
  std::unique_ptr<Command> leader;
  std::unique_ptr<Command> standby;
};

// All of them at work.
struct Nodes {
  Nodes(const Site& site, int its_steps, int its_adds = adds_per_step)
      : first(site.node(1, adds_in(its_steps, &gate, its_adds))),
        second(site.node(2, adds_in(its_steps, &gate, its_adds))),
        steps(its_steps),
        workers(std::stoi(site.cluster.workers)),
        adds(its_adds) {}
  void expect_progress() { first->expect_out("sum is ", times += std::size_t(workers)); }
  void expect_all_added() {
    gate.open();
    cpprun::integration::expect_all_added({first.get(), second.get()}, steps, 2 * workers, adds);
  }
  Gate gate;  // the workers run until it opens
  std::unique_ptr<Command> first;
  std::unique_ptr<Command> second;
  int steps;
  int workers;  // of a node
  int adds;     // of a worker in a step
  std::size_t times = 0;
};

}  // namespace cpprun::integration

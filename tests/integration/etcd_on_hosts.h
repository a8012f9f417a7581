// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// An etcd whose members are on hosts of a scene.

#include <doctest/doctest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/integration/command.h"
#include "tests/integration/directory.h"
#include "tests/integration/hosts.h"

namespace cpprun::integration {

class EtcdOnHosts {
 public:
  EtcdOnHosts(const Hosts& hosts, std::vector<int> on_hosts)
      : hosts_(hosts), on_(std::move(on_hosts)) {}
  ~EtcdOnHosts() { end(); }
  EtcdOnHosts(const EtcdOnHosts&) = delete;
  EtcdOnHosts& operator=(const EtcdOnHosts&) = delete;

  std::string why_not() const {
    if (!hosts_.why_not().empty()) return hosts_.why_not();
    Command look({"/bin/sh", "-c", "command -v etcd && command -v etcdctl"});
    return look.wait().code == 0
               ? ""
               : "etcd or etcdctl is not installed (Debian's etcd-server and etcd-client)";
  }

  // "10.77.0.1:2379,10.77.0.4:2379", each with the prefix.
  std::string endpoints(const std::string& before) const {
    std::string all;
    for (const int host : on_) {
      all += (all.empty() ? "" : ",") + before + Hosts::address(host) + ":2379";
    }
    return all;
  }

  void begin() {
    for (std::size_t each = 0; each < on_.size(); ++each) members_.push_back(member(each));
  }
  std::size_t size() const { return on_.size(); }
  void kill(std::size_t each) {
    members_[each]->signal(SIGKILL);
    CHECK(members_[each]->wait_for_exit() == 137);
  }
  void signal(std::size_t each, int signal) const { members_[each]->signal(signal); }
  void begin_again(std::size_t each) {
    members_[each] = member(each);
    await_all();
  }
  void await_all() const {
    Command healthy(
        hosts_.on(on_.front(), {"/bin/sh", "-c",
                                "until ETCDCTL_API=3 etcdctl --endpoints=" + endpoints("http://") +
                                    " endpoint health >/dev/null 2>&1; do sleep 0.1; done"}));
    CHECK(healthy.wait().code == 0);
  }
  void end() {
    for (const auto& each : members_) {
      each->signal(SIGKILL);
      (void)each->wait();
    }
    members_.clear();
  }

 private:
  std::unique_ptr<Command> member(std::size_t number) const {
    const auto url = [](int of, const char* port) {
      return "http://" + Hosts::address(of) + ":" + port;
    };
    std::string all;
    for (const int each : on_) {
      all += (all.empty() ? "n" : ",n") + std::to_string(each) + "=" + url(each, "2380");
    }
    const int host = on_[number];
    const std::string name = "n" + std::to_string(host);
    return std::make_unique<Command>(
        hosts_.on(host, {"/usr/bin/env", "etcd", "--name=" + name,
                         "--data-dir=" + directory_.path() + "/" + name, "--logger=zap",
                         "--log-level=warn", "--listen-client-urls=" + url(host, "2379"),
                         "--advertise-client-urls=" + url(host, "2379"),
                         "--listen-peer-urls=" + url(host, "2380"),
                         "--initial-advertise-peer-urls=" + url(host, "2380"),
                         "--initial-cluster=" + all, "--initial-cluster-token=scene"}),
        Options{});
  }

  const Hosts& hosts_;
  std::vector<int> on_;
  Directory directory_;
  std::vector<std::unique_ptr<Command>> members_;
};

}  // namespace cpprun::integration

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A real etcd for tests: its members are child processes on free loopback ports, each with its own
// directory and a log file beside it.

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "rendezvous/etcd/etcd_request.h"
#include "tests/integration/directory.h"

namespace cpprun::test {

// Whether etcd is not installed; then it prints that in the form that the tally counts.
bool skips_without_etcd();

// As curl: the body of the response, or "" after the timeout.
std::string post(int port, const std::string& path, const std::string& body,
                 std::chrono::milliseconds timeout);

// Runs a program to its end without its output. Returns its exit status; -1: it cannot be run.
int run_quietly(const std::vector<std::string>& words);

class EtcdCluster {
 public:
  struct Options {
    int members = 3;
    int heartbeat_milliseconds = 100;  // etcd's default
    int election_milliseconds = 1000;
    std::vector<std::string> words = {};  // further arguments of each member
    bool is_secure = false;               // https; the arguments in `words` must match
  };
  // Ready to serve.
  EtcdCluster() : EtcdCluster(Options{}) {}
  explicit EtcdCluster(Options options);
  ~EtcdCluster();
  EtcdCluster(const EtcdCluster&) = delete;
  EtcdCluster& operator=(const EtcdCluster&) = delete;

  std::vector<EtcdEndpoint> endpoints() const;
  int port(int member) const { return members_[static_cast<std::size_t>(member)].port; }
  int size() const { return static_cast<int>(members_.size()); }

  // The member that leads the cluster; waits until there is one.
  int leader() const;
  void kill(int member);
  void stop(int member) const;
  void go_on(int member) const;
  void begin_again(int member);
  // The response of that member, or "".
  std::string ask(int member, const std::string& path, const std::string& body) const;

 private:
  struct Member {
    int port = 0;
    int peer_port = 0;
    pid_t pid = -1;
  };
  bool begins(int attempt);
  void spawn(int member, const std::string& state);
  bool is_ready(int member);
  std::string log_of(int member) const;
  std::string url(int port, bool is_secure) const;

  Options options_;
  integration::Directory directory_;
  std::string name_;  // prefix of the members' names
  std::vector<Member> members_;
};

}  // namespace cpprun::test

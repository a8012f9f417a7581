// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A real etcd for tests: its members on free ports of loopback, each a child of ours with a
// directory of its own, ended by its pid. What they say of themselves goes to files beside these.

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "rendezvous/etcd/etcd_request.h"
#include "tests/integration/directory.h"

namespace cpprun::test {

// Whether there is none on this machine; then it says so, in the form that the tally counts.
bool skips_without_etcd();

// What curl would say: the body of the answer, or "" where nothing comes within that time.
std::string post(int port, const std::string& path, const std::string& body,
                 std::chrono::milliseconds timeout);

// Runs a program to its end, with what it says thrown away. Its exit status; -1: it cannot be run.
int run_quietly(const std::vector<std::string>& words);

class EtcdCluster {
 public:
  struct Options {
    int members = 3;
    int heartbeat_milliseconds = 100;  // etcd's own
    int election_milliseconds = 1000;
    std::vector<std::string> words = {};  // further ones for each member
    bool is_secure = false;               // https, as the words say
  };
  // Ready to be asked.
  EtcdCluster() : EtcdCluster(Options{}) {}
  explicit EtcdCluster(Options options);
  ~EtcdCluster();
  EtcdCluster(const EtcdCluster&) = delete;
  EtcdCluster& operator=(const EtcdCluster&) = delete;

  std::vector<EtcdEndpoint> endpoints() const;
  int port(int member) const { return members_[static_cast<std::size_t>(member)].port; }
  int size() const { return static_cast<int>(members_.size()); }

  // The one that leads the others; waits until there is one.
  int leader() const;
  void kill(int member);
  void stop(int member) const;
  void go_on(int member) const;
  void begin_again(int member);
  // Answers to everything at that member, or "".
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
  std::string name_;  // of the members, before their numbers
  std::vector<Member> members_;
};

}  // namespace cpprun::test

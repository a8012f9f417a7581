// SPDX-License-Identifier: BSD-3-Clause
// Jobs whose workers reach their store through the cpprun of their own node.

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "tests/integration/cluster.h"
#include "tests/integration/command.h"
#include "tests/integration/directory.h"
#include "tests/integration/hosts.h"

namespace local_store_test {

using namespace cpprun::integration;

namespace {

const std::string secret_text =
    "cpprun1:blue:5f6c1d0e9b8a7c6d5e4f30211203f4e5d6c7b8a99a8b7c6d5e4f302112031a2b\n";

const std::string other_secret_text =
    "cpprun1:red:112233445566778899aabbccddeeff00112233445566778899aabbccddeeff01\n";

// A job on that many hosts whose nodes hold a secret, with workers that use its store.
struct StoreJob {
  explicit StoreJob(int hosts, const std::string& nodes) : cluster(hosts, nodes) {
    secret = directory.write("secret", secret_text);
    REQUIRE(::chmod(secret.c_str(), 0600) == 0);
  }

  Options options() const {
    Options options = cluster.options();
    options.variables["CPPRUN_SECRET_FILE"] = secret;
    return options;
  }
  std::unique_ptr<Command> node(int host, const Words& does, const Words& flags = {}) const {
    Words program = {from_build("CPPRUN_STORE_WORKER")};
    program.insert(program.end(), does.begin(), does.end());
    return std::make_unique<Command>(cluster.node(host, flags, program), options());
  }

  Cluster cluster;
  Directory directory;
  std::string secret;
};

// Looks for keys that another round has left, meets all ranks of its own, and stays.
const Words meets_others = {"find",  "old",  "add", "here", "1", "meet", "all",
                            "count", "here", "set", "old",  "1", "get",  "wait"};

// The ports with listeners on that host, on addresses other than loopback.
std::string open_ports(const Cluster& cluster, int host) {
  const auto listed = run(cluster.hosts.on(
      host, {"sh", "-c", "ss -Hltn | awk '{print $4}' | grep -v -e ^127 -e '^.::1.:' | sort -u"}));
  return listed.out;
}

}  // namespace

TEST_CASE("workers meet in a store that is not reachable over the network") {
  const StoreJob job(2, "2");
  if (!job.cluster.hosts.why_not().empty()) return skip(job.cluster.hosts.why_not());
  const Words does = {"say_place", "add",   "sum", "10",  "meet",
                      "all",       "count", "sum", "get", "wait"};
  const auto first = job.node(0, does);
  const auto second = job.node(1, does);
  expect_each({first.get(), second.get()}, "sum is 20\n");
  CHECK(contains(first->out(), "127.0.0.1 for " + Hosts::address(0) + "\n"));
  CHECK(contains(second->out(), "127.0.0.1 for " + Hosts::address(0) + "\n"));
  // Only the port where nodes meet is open, and it answers no store client.
  const std::string ports = open_ports(job.cluster, 0);
  CHECK(count(ports, "\n") == 1);
  CHECK(contains(ports, ":29500\n"));
  CHECK(open_ports(job.cluster, 1) == "");
  for (const int host : {0, 1}) {
    const auto unidentified =
        run(job.cluster.hosts.on(host, {from_build("CPPRUN_STORE_WORKER"), "find", "sum"}),
            {.variables = {
                 {"MASTER_ADDR", Hosts::address(0)}, {"MASTER_PORT", "29500"}, {"RANK", "x"}}});
    CHECK(unidentified.code == 1);
    CHECK_FALSE(contains(unidentified.out, "sum is"));
  }
  first->expect_err("(--store=local)");
  first->signal(SIGTERM);
  CHECK(first->wait().code == 143);
  CHECK(second->wait().code == 143);
  job.cluster.expect_nothing_left();
}

TEST_CASE("another user of the machine is rejected by the store of a node") {
  const StoreJob job(2, "2");
  if (!job.cluster.hosts.why_not().empty()) return skip(job.cluster.hosts.why_not());
  if (run({"sh", "-c", "command -v setpriv"}).code != 0) return skip("setpriv is not installed");
  const Words does = {"add", "here", "1", "get", "wait"};
  const Words as_seen = {"sh", "-c", "echo port $MASTER_PORT.; exec \"$0\" \"$@\"",
                         from_build("CPPRUN_STORE_WORKER")};
  Words program = as_seen;
  program.insert(program.end(), does.begin(), does.end());
  Command first(job.cluster.node(0, {"--no-python"}, program), job.options());
  Command second(job.cluster.node(1, {"--no-python"}, program), job.options());
  Command* const nodes[] = {&first, &second};
  for (const int host : {0, 1}) {
    CAPTURE(host);
    Command& node = *nodes[host];
    node.expect_out(".\n");
    const auto at = node.out().find("port ") + 5;
    const std::string port = node.out().substr(at, node.out().find('.', at) - at);
    const Variables place = {{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}, {"RANK", "x"}};
    const auto other_user =
        run(job.cluster.hosts.on(host, {"setpriv", "--reuid=65534", "--clear-groups",
                                        from_build("CPPRUN_STORE_WORKER"), "find", "here"}),
            {.variables = place});
    CHECK(other_user.code == 1);
    CHECK_FALSE(contains(other_user.out, "here is"));
    node.expect_err("a connection of uid 65534, and the store of this node serves workers of uid");
  }
  first.signal(SIGTERM);
  CHECK(first.wait().code == 143);
  CHECK(second.wait().code == 143);
  job.cluster.expect_nothing_left();
}

TEST_CASE("a link that is reset under the store's traffic loses nothing and repeats nothing") {
  StoreJob job(2, "2");
  // Between two runs of iptables, a busy machine can take two seconds.
  job.cluster.conf = "keep_alive_interval=0.2,keep_alive_max_attempt=100,join_timeout=50";
  const Hosts& hosts = job.cluster.hosts;
  if (!hosts.why_not().empty()) return skip(hosts.why_not());
  if (!hosts.why_no_drop().empty()) return skip(hosts.why_no_drop());
  const Words does = {"meet", "begin", "set",  "begun", "yes",   "add",
                      "sum",  "20000", "meet", "end",   "count", "sum"};
  const auto first = job.node(0, does);
  const auto second = job.node(1, does);
  // Both sides notice that the link is broken, and the agent reconnects at once.
  for (int turn = 0; turn < 12; ++turn) {
    const auto reset = [&](const char* what) {
      return run(hosts.on(1, {"iptables", "-w", what, "OUTPUT", "-p", "tcp", "--dport", "29500",
                              "-j", "REJECT", "--reject-with", "tcp-reset"}))
          .code;
    };
    REQUIRE(reset("-A") == 0);
    REQUIRE(reset("-D") == 0);
  }
  const auto of_first = first->wait();
  const auto of_second = second->wait();
  CHECK_MESSAGE(of_first.code == 0, of_first.err);
  CHECK_MESSAGE(of_second.code == 0, of_second.err);
  CHECK(contains(of_first.out, "sum is 40000\n"));
  CHECK(contains(of_second.out, "sum is 40000\n"));
  job.cluster.expect_nothing_left();
}

TEST_CASE("a value of 100 MiB passes through a link that keeps its lease") {
  const StoreJob job(2, "2");
  if (!job.cluster.hosts.why_not().empty()) return skip(job.cluster.hosts.why_not());
  const auto first = job.node(0, {"size", "from 1", "large", "from 0", "100", "meet", "end"});
  const auto second = job.node(1, {"large", "from 1", "100", "size", "from 0", "meet", "end"});
  const auto of_first = first->wait();
  const auto of_second = second->wait();
  CHECK_MESSAGE(of_first.code == 0, of_first.err);
  CHECK_MESSAGE(of_second.code == 0, of_second.err);
  CHECK(contains(of_first.out, "from 1 has 104857600\n"));
  CHECK(contains(of_second.out, "from 0 has 104857600\n"));
  job.cluster.expect_nothing_left();
}

TEST_CASE("a new round has a new store, and the old one's clients are disconnected") {
  const StoreJob job(2, "2");
  if (!job.cluster.hosts.why_not().empty()) return skip(job.cluster.hosts.why_not());
  const Words does = {"find", "old",  "meet",  "all",        "set", "old",
                      "1",    "meet", "again", "fail_first", "7"};
  const auto first = job.node(0, does, {"--max-restarts=1"});
  const auto second = job.node(1, does, {"--max-restarts=1"});
  const auto of_first = first->wait();
  const auto of_second = second->wait();
  CHECK_MESSAGE(of_first.code == 0, of_first.err);
  CHECK_MESSAGE(of_second.code == 0, of_second.err);
  CHECK(count(of_first.out + of_second.out, "old is nothing\n") == 4);
  job.cluster.expect_nothing_left();
}

TEST_CASE("a late node meets the others in a new store, which has nothing of the old one") {
  const StoreJob job(3, "2:3");
  if (!job.cluster.hosts.why_not().empty()) return skip(job.cluster.hosts.why_not());
  const Words does = meets_others;
  const auto first = job.node(0, does);
  const auto second = job.node(1, does);
  expect_each({first.get(), second.get()}, "old is nothing\n");
  const auto third = job.node(2, does);
  expect_each({first.get(), second.get()}, "old is nothing\n", 2);
  third->expect_out("old is nothing\n");
  expect_each({first.get(), second.get(), third.get()}, "here is 3\n");
  end_all(*first, {second.get(), third.get()});
  job.cluster.expect_nothing_left();
}

TEST_CASE("a spare takes the seat of a killed node, and uses the job's store") {
  const StoreJob job(3, "2");
  if (!job.cluster.hosts.why_not().empty()) return skip(job.cluster.hosts.why_not());
  const Words does = meets_others;
  const auto first = job.node(0, does);
  const auto second = job.node(1, does);
  expect_each({first.get(), second.get()}, "here is 2\n");
  const auto spare = job.node(2, does);
  spare->expect_err("this node is a spare");
  second->signal(SIGKILL);
  CHECK(second->wait().code == 137);
  spare->expect_out("old is nothing\n");
  expect_each({spare.get()}, "here is 2\n");
  expect_each({first.get()}, "here is 2\n", 2);
  end_all(*first, {spare.get()});
  job.cluster.expect_nothing_left();
}

TEST_CASE("the stores of a daemon's owners share nothing, on whichever nodes they are") {
  StoreJob job(3, "2");
  if (!job.cluster.hosts.why_not().empty()) return skip(job.cluster.hosts.why_not());
  const std::string owners = job.directory.path() + "/owners";
  REQUIRE(::mkdir(owners.c_str(), 0700) == 0);
  (void)job.directory.write("owners/alice", secret_text);
  (void)job.directory.write("owners/bob", other_secret_text);
  for (const char* owner : {"/alice", "/bob"}) {
    REQUIRE(::chmod((owners + owner).c_str(), 0600) == 0);
  }
  Command daemon(
      job.cluster.hosts.on(0, {from_build("CPPRUND"), "--port=29500", "--secrets=" + owners}),
      job.cluster.options());
  daemon.expect_out("29500");
  const auto begin = [&](const std::string& owner, int host, const std::string& times) {
    job.cluster.job = "of-" + owner;
    job.secret = owners + "/" + owner;
    return job.node(host, {"add", "sum", times, "meet", "all", "count", "sum", "get", "wait"},
                    {"--rdzv-conf=is_host=false"});
  };
  const auto of_alice = begin("alice", 1, "10");
  const auto of_bob = begin("bob", 1, "3");
  const auto also_alice = begin("alice", 2, "10");
  const auto also_bob = begin("bob", 2, "3");
  expect_each({of_alice.get(), also_alice.get()}, "sum is 20\n");
  expect_each({of_bob.get(), also_bob.get()}, "sum is 6\n");
  // One owner's job ends, and the other's workers keep their store.
  end_all(*of_alice, {also_alice.get()});
  CHECK(count(open_ports(job.cluster, 0), "\n") == 1);
  CHECK(open_ports(job.cluster, 1) == "");
  end_all(*of_bob, {also_bob.get()});
  daemon.signal(SIGTERM);
  CHECK(daemon.wait().code == 0);
  job.cluster.expect_nothing_left();
}

TEST_CASE("a daemon's job needs no port of its own") {
  const StoreJob job(3, "2");
  if (!job.cluster.hosts.why_not().empty()) return skip(job.cluster.hosts.why_not());
  Command daemon(job.cluster.hosts.on(
                     0, {from_build("CPPRUND"), "--port=29500", "--secret-file=" + job.secret}),
                 job.cluster.options());
  daemon.expect_out("29500");
  const Words does = {"add", "sum", "10", "meet", "all", "count", "sum", "get", "wait"};
  const auto first = job.node(1, does, {"--rdzv-conf=is_host=false"});
  const auto second = job.node(2, does, {"--rdzv-conf=is_host=false"});
  expect_each({first.get(), second.get()}, "sum is 20\n");
  CHECK(count(open_ports(job.cluster, 0), "\n") == 1);
  first->signal(SIGTERM);
  CHECK(first->wait().code == 143);
  CHECK(second->wait().code == 143);
  daemon.signal(SIGTERM);
  CHECK(daemon.wait().code == 0);
  job.cluster.expect_nothing_left();
}

TEST_CASE("nodes that reconnect to a restarted daemon find nothing of their last round") {
  StoreJob job(3, "2");
  if (!job.cluster.hosts.why_not().empty()) return skip(job.cluster.hosts.why_not());
  job.cluster.conf += ",is_host=false";
  const Words daemon = job.cluster.hosts.on(
      0, {from_build("CPPRUND"), "--port=29500", "--secret-file=" + job.secret});
  Command lost(daemon, job.cluster.options());
  lost.expect_out("29500");
  const auto first = job.node(1, meets_others, {"--max-restarts=1"});
  const auto second = job.node(2, meets_others, {"--max-restarts=1"});
  expect_each({first.get(), second.get()}, "here is 2\n");
  lost.signal(SIGKILL);
  CHECK(lost.wait().code == 137);
  // Both have ended their workers and have no round; the next one is a first one again.
  first->expect_err("rejoining (timeout");
  second->expect_err("rejoining (timeout");
  Command found(daemon, job.cluster.options());
  found.expect_out("29500");
  expect_each({first.get(), second.get()}, "old is nothing\n", 2);
  expect_each({first.get(), second.get()}, "here is 2\n", 2);
  end_all(*first, {second.get()});
  found.signal(SIGTERM);
  CHECK(found.wait().code == 0);
  job.cluster.expect_nothing_left();
}

TEST_CASE("nodes with different store settings are rejected with both settings") {
  const StoreJob job(2, "2");
  if (!job.cluster.hosts.why_not().empty()) return skip(job.cluster.hosts.why_not());
  const auto first = job.node(0, {"get", "wait"}, {"--store=local"});
  const auto second = job.node(1, {"get", "wait"}, {"--store=direct"});
  const auto of_second = second->wait();
  CHECK(of_second.code == 1);
  CHECK(contains(of_second.err, "this job uses --store=local, but node1 has --store=direct"));
  first->signal(SIGTERM);
  CHECK(first->wait().code == 143);
  job.cluster.expect_nothing_left();
}

}  // namespace local_store_test

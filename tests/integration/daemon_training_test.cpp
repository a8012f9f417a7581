// SPDX-License-Identifier: BSD-3-Clause
// Real trainings while the cpprund at which their nodes meet is killed, cut off and stopped, and a
// member of etcd is lost: no worker is restarted, and the losses are the same to the last digit. It
// takes some minutes; CPPRUN_LONG_SCENES=1 runs it.

#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/daemon_site.h"

namespace daemon_training_test {

using namespace cpprun::integration;

namespace {

// The losses that were printed, without the times.
std::string losses_in(const std::string& said) {
  std::string losses;
  for (std::size_t at = 0; at < said.size();) {
    const auto end = std::min(said.find('\n', at), said.size());
    std::string line = said.substr(at, end - at);
    at = end + 1;
    if (!contains(line, "loss ") && !contains(line, " % of ")) continue;
    if (contains(line, " images/s")) line = line.substr(0, line.rfind(" % ") + 2);
    if (contains(line, " % of ")) line = line.substr(0, line.rfind(", "));
    losses += line + "\n";
  }
  return losses;
}

// Two nodes with two workers each.
class Training {
 public:
  Training(const Site& site, const std::string& job, const Words& flags, const Words& program) {
    for (const int host : {1, 2}) {
      Words all = {"--rdzv-id=" + job};
      all.insert(all.end(), flags.begin(), flags.end());
      Options options = site.cluster.options();
      options.variables["OMP_NUM_THREADS"] = "1";
      options.variables["TORCHINDUCTOR_CACHE_DIR"] = scratch_.path();  // PyTorch leaves it behind
      nodes_.push_back(std::make_unique<Command>(site.cluster.node(host, all, program), options));
    }
  }
  void expect_progress(const std::string& text) {
    said_ = std::max(said_, count(first().out(), text)) + 1;
    first().expect_out(text, said_);
  }
  // The losses of an undisturbed training, as its workers print them.
  std::string losses() {
    for (const auto& each : nodes_) {
      const auto ended = each->wait();
      CHECK(ended.code == 0);
      CHECK_FALSE(contains(ended.err, "stopping the workers"));
    }
    std::cout << first().err() << nodes_[1]->err();
    return losses_in(first().out());
  }
  Command& first() { return *nodes_.front(); }

 private:
  std::vector<std::unique_ptr<Command>> nodes_;
  Directory scratch_;
  std::size_t said_ = 0;
};

void await(int host, const Site& site, const char* seconds) {
  Command slept(site.cluster.hosts.on(host, {"sleep", seconds}));
  (void)slept.wait();
}

// One fault at a time: etcd elects its own leader within a second or two, and a new leader has a
// standby a moment later.
void await_steady(const Site& site) {
  await(1, site, "6");
}

// All faults that the four hosts can suffer, during training.
void disturb(Site& site, Training& training, const std::string& progress) {
  std::cout << "--- kill -9 of the leader (node0)\n";
  training.expect_progress(progress);
  kill_at_once(*site.leader);
  site.swap_roles(site.member(0));
  await_steady(site);
  std::cout << "--- the cable of the leader's host (node3)\n";
  training.expect_progress(progress);
  site.cluster.hosts.pull_cable(3);
  site.standby->expect_err("this cpprund is the leader");
  training.expect_progress(progress);
  site.cluster.hosts.plug_in(3);
  std::swap(site.leader, site.standby);
  // It did so once before, and the member of etcd beside it is back as well.
  site.standby->expect_err("is a standby of \"node0\"", 2);
  site.etcd.await_all();
  await_steady(site);
  std::cout << "--- a member of etcd (node4)\n";
  site.etcd.kill(2);
  training.expect_progress(progress);
  site.etcd.begin_again(2);
  await_steady(site);
  std::cout << "--- SIGSTOP of the leader (node0), for 10 s\n";
  site.leader->signal(SIGSTOP);
  await(1, site, "10");
  site.leader->signal(SIGCONT);
  site.leader->expect_err("is a standby of \"node3\"", 2);
  std::swap(site.leader, site.standby);
  training.expect_progress(progress);
  std::cout << "--- nothing more\n";
}

void train_disturbed(const Words& flags, const Words& program, const std::string& progress) {
  if (std::getenv("CPPRUN_LONG_SCENES") == nullptr) {
    return skip("it takes minutes, and CPPRUN_LONG_SCENES is not set");
  }
  Site site;
  if (const auto why = site.why_not(); !why.empty()) return skip(why);
  site.etcd.begin();
  site.begin_pair();
  const std::string undisturbed = Training(site, "calm", flags, program).losses();
  Training training(site, "storm", flags, program);
  disturb(site, training, progress);
  const std::string losses = training.losses();
  CHECK(losses == undisturbed);
  CHECK(count(losses, "loss ") > 5);
  site.end_all();
  std::cout << losses << "--- of node3's cpprund\n"
            << site.leader->err() << "--- of node0's\n"
            << site.standby->err();
}

}  // namespace

TEST_CASE("a C++ training computes the same losses despite any fault of its coordinator") {
  if (from_build("CPPRUN_DIGITS").empty()) return skip("digits was not built: it needs LibTorch");
  train_disturbed({}, {from_build("CPPRUN_DIGITS"), "--epochs=300"}, "epoch ");
}

TEST_CASE("a PyTorch script computes the same losses despite any fault of its coordinator") {
  if (from_build("CPPRUN_PYTHON").empty()) return skip("there is no Python with torch");
  train_disturbed({"--no-python"},
                  {from_build("CPPRUN_PYTHON"), from_build("CPPRUN_TRAIN_SCRIPT"), "--steps=6000"},
                  "loss ");
}

}  // namespace daemon_training_test

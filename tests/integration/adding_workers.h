// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Workers that increment one number continuously; the final value shows whether an answer was lost
// or applied twice. Also the daemons that they use.

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/integration/cluster.h"

namespace cpprun::integration {

inline constexpr int adds_per_step = 300;

// Workers wait for this at the end of their work, so that they run for as long as the scene does.
class Gate {
 public:
  Gate() : path_(directory_.path() + "/gate") { REQUIRE(::mkfifo(path_.c_str(), 0600) == 0); }
  const std::string& path() const { return path_; }
  // Releases the waiting workers; later workers do not wait.
  void open() { file_.open(path_, std::ios::in | std::ios::out); }

 private:
  Directory directory_;
  std::string path_;
  std::fstream file_;
};

// Increments and prints the sum so many times, then meets the other workers.
inline Words adds_in(int steps, const Gate* gate = nullptr, int adds_each = adds_per_step) {
  const std::string adds = std::to_string(adds_each);
  Words words;
  for (int step = 0; step < steps; ++step) {
    for (const std::string& word :
         Words{"add", "sum", adds, "set", "last", "value", "count", "sum"}) {
      words.push_back(word);
    }
  }
  if (gate != nullptr) {
    for (const std::string& word : Words{"await", gate->path()}) words.push_back(word);
  }
  for (const char* const word : {"meet", "all", "count", "sum"}) words.emplace_back(word);
  return words;
}

// Neither node noticed anything, and every increment of their workers was counted once.
inline void expect_all_added(std::initializer_list<Command*> nodes, int steps, int workers = 4,
                             int adds_each = adds_per_step) {
  for (Command* const each : nodes) {
    const auto ended = each->wait();
    CHECK_MESSAGE(ended.code == 0, ended.err);
    const int sum = workers * steps * adds_each;
    CHECK(count(ended.out, "sum is " + std::to_string(sum) + "\n") >= 2);
    CHECK_FALSE(contains(ended.err, "stopping the workers"));
  }
}

inline void end_daemon(Command& daemon) {
  daemon.expect_err("job \"cluster\" is over");
  daemon.signal(SIGTERM);
  CHECK(daemon.wait().code == 0);
}

}  // namespace cpprun::integration

// SPDX-License-Identifier: BSD-3-Clause
// A worker that uses its job's store, as PyTorch's process group would: each argument is an action,
// in order. It ends with 1, and prints why, if the store fails.
//
//   set KEY VALUE    get KEY         says the value, as soon as there is one
//   find KEY         says the value, or "nothing"
//   large KEY MIB    sets a value of so many MiB              size KEY   says how many bytes it has
//   add KEY N        adds 1, N times, each answered before the next
//   count KEY        says the sum    meet NAME   waits until all ranks are there
//   fail_first CODE  ends with CODE unless the job was restarted
//   say_place        says MASTER_ADDR, and where the master is
//   only R           the rest is for rank R alone
//   await FIFO       waits until a process opens it for writing
//   forget           closes its connection, and makes another for what follows

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/client/io/store_client.h"
#include "tests/integration/worker_words.h"

namespace {

using namespace cpprun;
using namespace cpprun::integration;

// The store exists before its workers do, but a cpprund may be lost just then: longer than another
// takes to become the leader. A rejected client need not try for longer.
constexpr std::chrono::seconds connect_timeout{5};
constexpr std::size_t mebibyte = std::size_t{1} << 20;

void say(const std::string& line) {
  std::puts((variable("RANK") + ": " + line).c_str());
  std::fflush(stdout);
}

template <class T>
T must(const char* what, StoreResult<T> result) {
  if (result) {
    if constexpr (std::is_void_v<T>) {
      return;
    } else {
      return *std::move(result);
    }
  }
  say(std::string("cannot ") + what + ": " + result.error().reason);
  std::exit(1);
}

class Worker {
 public:
  Worker(int count, char** words) : words_(words), count_(count) {}

  void work() {
    while (at_ < count_ && !is_done_) act(next());
  }

 private:
  std::string next() { return at_ < count_ ? words_[at_++] : ""; }

  StoreClient& store() {
    if (!store_) {
      StoreClientOptions options{
          .host = variable("MASTER_ADDR"),
          .port = static_cast<std::uint16_t>(number(variable("MASTER_PORT")))};
      options.connect_timeout = connect_timeout;
      store_.emplace(must("connect", StoreClient::open(options)));
    }
    return *store_;
  }

  void act(const std::string& action) {
    if (action == "only") {
      is_done_ = next() != variable("RANK");
    } else if (action == "fail_first") {
      const long code = number(next());
      if (variable("TORCHELASTIC_RESTART_COUNT") == "0") std::exit(static_cast<int>(code));
    } else if (action == "say_place") {
      say(variable("MASTER_ADDR") + " for " + variable("CPPRUN_MASTER_ADDR"));
    } else if (action == "forget") {
      store_.reset();
    } else if (action == "await") {
      std::fclose(std::fopen(next().c_str(), "r"));
    } else if (action == "add") {
      const std::string key = next();
      for (long left = number(next()); left > 0; --left) must("add", store().add(key, 1));
    } else if (action == "meet") {
      must("meet", store().barrier(next(), number(variable("WORLD_SIZE"))));
    } else {
      act_on_key(action, next());
    }
  }

  void act_on_key(const std::string& action, const std::string& key) {
    if (action == "set") {
      must("set", store().set(key, next()));
    } else if (action == "get") {
      say(key + " is " + must("get", store().get(key)));
    } else if (action == "find") {
      say(key + " is " + must("find", store().find(key)).value_or("nothing"));
    } else if (action == "large") {
      const auto size = static_cast<std::size_t>(number(next())) * mebibyte;
      must("set", store().set(key, std::string(size, 'x')));
    } else if (action == "size") {
      say(key + " has " + std::to_string(must("get", store().get(key)).size()));
    } else if (action == "count") {
      say(key + " is " + std::to_string(must("add", store().add(key, 0))));
    } else {
      say("what is \"" + action + "\"?");
      std::exit(64);
    }
  }

  char** words_;
  int count_;
  int at_ = 0;
  bool is_done_ = false;
  std::optional<StoreClient> store_;
};

}  // namespace

int main(int count, char** words) {
  Worker(count - 1, words + 1).work();
}

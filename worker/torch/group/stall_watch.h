// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Why a collective does not end, told while it is still waited for. A rank that has waited in one
// for some seconds writes that into the store and reads what the others have written there: those
// that wait in something else, or have left, are named. Nothing is compared before that, so a
// collective that ends costs no more than a note in memory.
//
// A thread of its own looks every few seconds: whoever waits is in LibTorch's hands. It is started
// by the first wait.

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "worker/torch/group/collective_check.h"

namespace c10d {
class Store;
}  // namespace c10d

namespace cpprun {

class StallWatch {
 public:
  struct Options {
    std::string group;       // its name
    int rank = 0;            // in the group
    std::vector<int> ranks;  // of its members, in the group everybody is in
    // Steps of DistributedDataParallel that this rank has begun; those of one that has left the
    // group everybody is in, if it has.
    std::function<std::int64_t()> steps;
    std::function<std::optional<std::int64_t>(c10d::Store&, int rank)> left_after;
    std::function<void(const std::string&)> say;  // one sentence
    std::chrono::milliseconds patience;           // between two looks
  };
  // Only `store` is asked; a client of its own is made of it when something stalls.
  StallWatch(c10::intrusive_ptr<c10d::Store> store, Options options);
  ~StallWatch();
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

  // That operation is waited for from now on, until end() with the number. From any thread.
  std::uint64_t begin(std::string operation);
  void end(std::uint64_t number);

  // For the error of an operation that was given up because its time was up: what the others are
  // known to wait in. A clause that follows the sentence, or nothing.
  std::string explain(const std::string& operation);
  // The same where it failed because a peer had closed its connection: others that give up later
  // read what this one was in, and not that it has left.
  std::string explain_lost_peer(const std::string& operation);

 private:
  struct Wait {
    std::string operation;
    std::chrono::steady_clock::time_point since;
  };
  void run();
  void look(std::uint64_t number, const Wait& wait);
  std::string give_up(std::string_view reason, const std::string& operation,
                      bool (*counts)(const std::string& post));
  void post(std::string_view wait, const std::string& operation);
  void withdraw();
  std::vector<std::string> seen();
  std::string difference(const std::vector<std::string>& posts) const;
  c10d::Store& client();

  const c10::intrusive_ptr<c10d::Store> store_;
  const Options options_;
  const std::vector<int> looked_at_;  // members, by their rank in the group

  std::mutex mutex_;  // of what follows
  std::condition_variable stopped_;
  bool is_stopping_ = false;
  std::uint64_t last_number_ = 0;
  std::map<std::uint64_t, Wait> waits_;  // the oldest is the first

  std::timed_mutex at_the_store_;  // of what follows
  c10::intrusive_ptr<c10d::Store> client_;
  std::uint64_t posted_ = 0;           // the number of the wait that is written there
  bool has_given_up_ = false;          // it stays there: the others are about to look for it
  std::uint64_t told_ = 0;             // and of the last that was spoken of
  std::vector<std::string> previous_;  // what the others had written at the last look

  std::thread thread_;
};

// One wait: from here to its end() or its own end, whichever comes first, on any thread.
class Stall {
 public:
  Stall(std::shared_ptr<StallWatch> watch, std::string operation)
      : watch_(std::move(watch)), number_(watch_->begin(std::move(operation))) {}
  ~Stall() { end(); }
  Stall(const Stall&) = delete;
  Stall& operator=(const Stall&) = delete;

  void end() const { watch_->end(number_); }

 private:
  std::shared_ptr<StallWatch> watch_;
  std::uint64_t number_;
};

}  // namespace cpprun

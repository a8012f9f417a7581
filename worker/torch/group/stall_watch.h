// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Reports why a collective does not end while ranks still wait for it. A rank that has waited for
// some seconds writes its operation into the store and reads those of the others. The report names
// the ranks that wait in another operation or have left. Nothing is exchanged before that, so a
// collective that ends in time costs only a note in memory.
//
// A separate thread checks every few seconds, because the waiting thread is inside LibTorch. The
// first wait starts it.
//
// Over NCCL no thread waits: a call only queues its operation on the GPU. The operation is watched
// until it is found finished, by the thread or when a later one is queued.

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
    std::vector<int> ranks;  // its members' global ranks
    // `steps`: DistributedDataParallel steps that this rank has begun. `left_after`: the steps of a
    // rank that has left the default group, absent if it has not.
    std::function<std::int64_t()> steps;
    std::function<std::optional<std::int64_t>(c10d::Store&, int rank)> left_after;
    std::function<void(const std::string&)> say;  // receives one sentence
    std::chrono::milliseconds interval;           // time between two checks
    // Time limit of one operation. After half of it, ranks that are in no operation are named too.
    // Zero: they are never named.
    std::chrono::milliseconds timeout{};
    // Whether that rank has such a watch: Python ranks have none. Empty: every rank has.
    std::function<bool(c10d::Store&, int rank)> has_watch = nullptr;
  };
  // Whether an operation on the GPU has finished or failed. May throw; that counts as finished.
  using Finished = std::function<bool()>;
  // When something stalls, a separate client is created from `store`.
  StallWatch(c10::intrusive_ptr<c10d::Store> store, Options options);
  ~StallWatch();
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

  // The operation is waited for from now on, until end() with the returned number. Thread-safe.
  std::uint64_t begin(std::string operation);
  void end(std::uint64_t number);
  // The operation was queued on the GPU, and ends when `finished` returns true. The thread and
  // later calls of watch() call it. At most `bounds::worker_stall_queue_max` are watched.
  // Thread-safe.
  void watch(std::string operation, Finished finished);

  // For a group that is left: the works of its user may refer to this object for longer. Drops
  // every `finished`, ends the thread and removes the entry in the store. When it returns, no
  // `finished` runs, and later calls of begin() and watch() do nothing.
  void close();
  // The same without waiting for the thread, which may be at the store for seconds.
  void abandon();

  // For the error of an operation that timed out: the operations the others wait in. Returns a
  // clause to append to the error message, or an empty string.
  std::string explain(const std::string& operation);
  // The same for an operation that failed because a peer closed its connection. Ranks that give up
  // later read which operation this rank was in, not that it has left.
  std::string explain_lost_peer(const std::string& operation);

 private:
  struct Wait {
    std::string operation;
    std::chrono::steady_clock::time_point since;
    std::int64_t steps = 0;  // when it began; over NCCL, the program is ahead of the GPU
    Finished finished = nullptr;
  };
  using Waits = std::map<std::uint64_t, Wait>;
  std::uint64_t add(Waits& waits, Wait wait);
  std::pair<std::uint64_t, Wait> oldest();
  void run();
  void look(std::uint64_t number, const Wait& wait);
  bool may_report(const Wait& wait, std::chrono::steady_clock::duration waited) const;
  std::string give_up(std::string_view reason, const std::string& operation,
                      bool (*counts)(const std::string& post));
  void post(std::string_view wait, std::int64_t steps, const std::string& operation);
  void withdraw();
  std::vector<std::string> seen();
  std::string difference(const std::vector<std::string>& posts) const;
  std::string with_absent(std::string found, const std::vector<std::string>& posts);
  c10d::Store& client();

  const c10::intrusive_ptr<c10d::Store> store_;
  const Options options_;
  const std::vector<int> looked_at_;  // members, by their rank in the group

  std::mutex mutex_;  // guards the members below
  std::condition_variable stopped_;
  bool is_stopping_ = false;
  std::uint64_t last_number_ = 0;
  Waits waits_;   // of threads; the first is the oldest
  Waits queued_;  // on the GPU, likewise

  std::timed_mutex at_the_store_;  // guards the members below
  c10::intrusive_ptr<c10d::Store> client_;
  std::uint64_t posted_ = 0;           // number of the wait written in the store
  bool has_given_up_ = false;          // the entry then stays: others will look for it
  std::uint64_t told_ = 0;             // number of the last wait that was reported
  std::vector<std::string> previous_;  // what the others had written at the last check

  std::thread thread_;
};

// One wait: ends at end() or destruction, whichever comes first. Any thread may end it.
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

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a client can do besides requests if its store is in the same process. Keys are those of the
// store, with every prefix.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "proto/clock.h"
#include "rendezvous/client/store_error.h"

namespace cpprun {

struct StoreFigures {
  std::uint64_t clients = 0;
  std::uint64_t keys = 0;
  std::uint64_t bytes = 0;  // that the clients make the process hold
  std::uint64_t waits = 0;  // clients that wait for a key or at a barrier
  friend bool operator==(const StoreFigures&, const StoreFigures&) = default;
};

// The numbers are part of the C interface.
enum class StoreChange : int {
  updated = 0,
  created = 1,
  deleted = 2,
  lost = 3,  // there were too many changes at once: what the watch had seen is out of date
};

class LocalStore {
 public:
  using Watcher =
      std::function<void(StoreChange change, const std::string& key, const std::string& value)>;
  using Visitor = std::function<void(const std::string& key, const std::string& value)>;
  using WaitVisitor =
      std::function<void(const std::string& client, const std::string& key, bool is_barrier)>;

  virtual ~LocalStore() = default;
  // Fails if the calling thread must not use the store now: it is in a callback that admits
  // clients.
  virtual StoreResult<void> usable() const = 0;
  // Looks the key up without a request. False: the store is busy, and a request has to be sent.
  virtual bool find(std::string_view key, std::optional<std::string>& value) = 0;
  // Calls the watcher for every later change of a key with this prefix, in order, in the thread
  // that serves, until the client ends.
  virtual StoreResult<void> watch(std::string prefix, Watcher watcher) = 0;
  // Every key with this prefix. A key that exists the whole time is visited once.
  virtual StoreResult<void> each(const std::string& prefix, const Visitor& visit) = 0;
  virtual StoreResult<void> waits(const WaitVisitor& visit) = 0;
  virtual StoreResult<StoreFigures> figures() = 0;
  // All keys and queues at one moment, and adding them to a store.
  virtual StoreResult<std::string> snapshot() = 0;
  virtual StoreResult<void> restore(std::string_view snapshot, Duration timeout) = 0;
};

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A client in the process of its store. Its requests are decided by the thread that makes them,
// like those of any other client; only what they make other clients do is left to the thread that
// serves.

#include <condition_variable>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "rendezvous/client/io/store_transport.h"
#include "rendezvous/client/local_store.h"
#include "rendezvous/store/io/open_store.h"

namespace cpprun {

class LocalTransport : public StoreTransport, public LocalStore {
 public:
  static StoreResult<std::unique_ptr<StoreTransport>> open(std::shared_ptr<OpenStore> store);
  ~LocalTransport() override;

  StoreResult<std::size_t> send(std::string_view bytes, TimePoint deadline) override;
  StoreResult<std::size_t> receive(std::span<char> into, TimePoint deadline) override;
  StoreResult<int> descriptor() override;
  void interrupt() noexcept override;
  LocalStore* local() override { return this; }

  StoreResult<void> usable() const override { return store_->usable(); }
  bool find(std::string_view key, std::optional<std::string>& value) override;
  StoreResult<void> watch(std::string prefix, Watcher watcher) override;
  StoreResult<void> each(const std::string& prefix, const Visitor& visit) override;
  StoreResult<void> waits(const WaitVisitor& visit) override;
  StoreResult<StoreFigures> figures() override;
  StoreResult<std::string> snapshot() override;
  StoreResult<void> restore(std::string_view snapshot, Duration timeout) override;

 private:
  class Stream;
  explicit LocalTransport(std::shared_ptr<OpenStore> store);

  const std::shared_ptr<OpenStore> store_;
  const std::shared_ptr<Stream> stream_;
  ConnectionId id_;
  bool has_watched_ = false;
};

}  // namespace cpprun

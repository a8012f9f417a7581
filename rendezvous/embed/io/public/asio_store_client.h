// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A client of a store for programs with Asio, in C++20 and later; header-only.
//
//   asio::awaitable<void> greet(cpprun::AsioStoreClient& store) {
//     const cpprun::Expected<std::string> value = co_await store.get("greeting");
//     if (!value) co_return report_error(value.error());
//     …
//   }
//
// Every request takes a completion token, asio::use_awaitable unless another is given, and
// completes with an Expected. It can be cancelled, as by the operators of asio::experimental or by
// asio::cancel_after(); it then ends with CPPRUN_STORE_INTERRUPTED. Any number may be in progress.
// As an Asio object it may be used by one thread, or one strand, at a time: that of its executor.
//
// It needs the standalone Asio, 1.22 or later.

#include <unistd.h>
#include <asio/any_io_executor.hpp>
#include <asio/associated_cancellation_slot.hpp>
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rendezvous/embed/io/public/async_store_client.h"

namespace cpprun {
inline namespace v1 {

namespace detail {

namespace net = ::asio;

// Outlives its AsioStoreClient while a wait for the descriptor is in progress.
struct AsioStore : std::enable_shared_from_this<AsioStore> {
  AsioStore(const net::any_io_executor& given, AsyncStoreClient opened)
      : executor(given),
        client(std::move(opened)),
        descriptor(std::make_unique<net::posix::stream_descriptor>(given, client->descriptor())) {}
  ~AsioStore() { close(); }
  AsioStore(const AsioStore&) = delete;
  AsioStore& operator=(const AsioStore&) = delete;

  // Waits only while there are requests, so that an io_context without work ends.
  void wait() {
    if (is_waiting || !client || client->in_progress() == 0) return;
    is_waiting = true;
    descriptor->async_wait(net::posix::descriptor_base::wait_read, Wait(this->shared_from_this()));
  }
  void close() {
    if (!client) return;
    if (::getpid() == owner) {
      descriptor->release();  // the client owns it
    } else {
      // A forked child shares the epoll set of its parent, which must go on watching.
      static_cast<void>(descriptor.release());
    }
    descriptor.reset();
    const auto ends_here = std::exchange(client, std::nullopt);
  }

  // Ends the requests when its context is destroyed, as a coroutine that awaits one may own the
  // client, and would keep itself.
  class Wait {
   public:
    explicit Wait(std::shared_ptr<AsioStore> store) : store_(std::move(store)) {}
    Wait(Wait&&) noexcept = default;
    Wait& operator=(Wait&&) = delete;
    ~Wait() {
      if (store_) store_->close();
    }
    template <class Error>
    void operator()(const Error& /*error*/) {
      const std::shared_ptr<AsioStore> store = std::move(store_);
      store->is_waiting = false;
      if (!store->client) return;
      store->client->dispatch();
      store->wait();
    }

   private:
    std::shared_ptr<AsioStore> store_;
  };

  net::any_io_executor executor;
  std::optional<AsyncStoreClient> client;  // empty: closed
  std::unique_ptr<net::posix::stream_descriptor> descriptor;
  const ::pid_t owner = ::getpid();
  bool is_waiting = false;
};

// A handler on its way to its executor.
template <class T, class Handler>
class AsioCompletion {
 public:
  AsioCompletion(Handler handler, const net::any_io_executor& executor)
      : handler_(std::move(handler)), work_(net::get_associated_executor(handler_, executor)) {}

  // Never within a call of the client, which the handler may destroy.
  void complete(Expected<T> result) {
    if (auto slot = net::get_associated_cancellation_slot(handler_); slot.is_connected()) {
      slot.clear();
    }
    net::post(work_.get_executor(),
              [handler = std::move(handler_), result = std::move(result)]() mutable {
                std::move(handler)(std::move(result));
              });
    work_.reset();
  }
  template <class Cancel>
  void on_cancellation(Cancel cancel) {
    if (auto slot = net::get_associated_cancellation_slot(handler_); slot.is_connected()) {
      slot.assign([cancel](net::cancellation_type type) {
        if (type != net::cancellation_type::none) cancel();
      });
    }
  }

 private:
  Handler handler_;
  net::executor_work_guard<net::associated_executor_t<Handler, net::any_io_executor>> work_;
};

}  // namespace detail

class AsioStoreClient {
 public:
  using Awaitable = detail::net::use_awaitable_t<>;
  static constexpr std::chrono::milliseconds usual = AsyncStoreClient::usual;

  // Begins to connect; requests may follow at once.
  static Expected<AsioStoreClient> open(const detail::net::any_io_executor& executor,
                                        const StoreClientOptions& options) {
    auto client = AsyncStoreClient::open(options);
    if (!client) return Failure{client.error(), client.code()};
    return AsioStoreClient(std::make_shared<detail::AsioStore>(executor, std::move(*client)));
  }
  // Requests in progress end with CPPRUN_STORE_INTERRUPTED.
  ~AsioStoreClient() {
    if (store_) store_->close();
  }
  AsioStoreClient(AsioStoreClient&&) noexcept = default;
  AsioStoreClient& operator=(AsioStoreClient&& other) noexcept {
    if (store_) store_->close();
    store_ = std::move(other.store_);
    return *this;
  }

  bool broken() const { return store_->client->broken(); }

  // As the requests of AsyncStoreClient.
  template <class Token = Awaitable>
  auto set(std::string_view key, std::string_view value, std::chrono::milliseconds timeout = usual,
           Token token = {}) {
    return request<void>(std::move(token), [key = std::string(key), value = std::string(value),
                                            timeout](AsyncStoreClient& client, auto done) {
      return client.set(key, value, std::move(done), timeout);
    });
  }
  template <class Token = Awaitable>
  auto get(std::string_view key, std::chrono::milliseconds timeout = usual, Token token = {}) {
    return request<std::string>(
        std::move(token), [key = std::string(key), timeout](AsyncStoreClient& client, auto done) {
          return client.get(key, std::move(done), timeout);
        });
  }
  template <class Token = Awaitable>
  auto find(std::string_view key, std::chrono::milliseconds timeout = usual, Token token = {}) {
    return request<std::optional<std::string>>(
        std::move(token), [key = std::string(key), timeout](AsyncStoreClient& client, auto done) {
          return client.find(key, std::move(done), timeout);
        });
  }
  template <class Token = Awaitable>
  auto add(std::string_view key, std::int64_t delta, std::chrono::milliseconds timeout = usual,
           Token token = {}) {
    return request<std::int64_t>(std::move(token), [key = std::string(key), delta, timeout](
                                                       AsyncStoreClient& client, auto done) {
      return client.add(key, delta, std::move(done), timeout);
    });
  }
  template <class Token = Awaitable>
  auto compare_set(std::string_view key, std::string_view expected, std::string_view desired,
                   std::chrono::milliseconds timeout = usual, Token token = {}) {
    return request<std::string>(
        std::move(token),
        [key = std::string(key), expected = std::string(expected), desired = std::string(desired),
         timeout](AsyncStoreClient& client, auto done) {
          return client.compare_set(key, expected, desired, std::move(done), timeout);
        });
  }
  template <class Token = Awaitable>
  auto delete_key(std::string_view key, std::chrono::milliseconds timeout = usual,
                  Token token = {}) {
    return request<bool>(std::move(token),
                         [key = std::string(key), timeout](AsyncStoreClient& client, auto done) {
                           return client.delete_key(key, std::move(done), timeout);
                         });
  }
  template <class Token = Awaitable>
  auto wait(const std::vector<std::string>& keys, std::chrono::milliseconds timeout = usual,
            Token token = {}) {
    return request<void>(std::move(token), [keys, timeout](AsyncStoreClient& client, auto done) {
      return client.wait(keys, std::move(done), timeout);
    });
  }
  template <class Token = Awaitable>
  auto barrier(std::string_view key, std::int64_t world_size,
               std::chrono::milliseconds timeout = usual, Token token = {}) {
    return request<void>(std::move(token), [key = std::string(key), world_size, timeout](
                                               AsyncStoreClient& client, auto done) {
      return client.barrier(key, world_size, std::move(done), timeout);
    });
  }
  // Completes when the watch has ended, by cancellation or with the store.
  template <class Token = Awaitable>
  auto watch(std::string_view prefix, AsyncStoreClient::Watcher watcher, Token token = {}) {
    return request<void>(std::move(token),
                         [prefix = std::string(prefix), watcher = std::move(watcher)](
                             AsyncStoreClient& client, auto done) {
                           return client.watch(prefix, watcher, std::move(done));
                         });
  }

 private:
  explicit AsioStoreClient(std::shared_ptr<detail::AsioStore> store) : store_(std::move(store)) {}

  template <class T, class Token, class Start>
  auto request(Token token, Start start) {
    // An awaitable begins when it is awaited, perhaps after the end of this object.
    return detail::net::async_initiate<Token, void(Expected<T>)>(
        [store = store_, start = std::move(start)](auto handler) {
          using Completion = detail::AsioCompletion<T, decltype(handler)>;
          const auto completion = std::make_shared<Completion>(std::move(handler), store->executor);
          if (!store->client) {
            completion->complete(Failure{"the client was closed", CPPRUN_STORE_INTERRUPTED});
            return;
          }
          const Expected<AsyncStoreClient::Id> id = start(
              *store->client, typename AsyncStoreClient::Done<T>([completion](Expected<T> result) {
                completion->complete(std::move(result));
              }));
          if (!id) {
            completion->complete(Failure{id.error(), id.code()});
            return;
          }
          completion->on_cancellation([weak = std::weak_ptr(store), id = *id] {
            const auto its = weak.lock();
            if (its && its->client) its->client->cancel(id);
          });
          store->wait();
        },
        token);
  }

  std::shared_ptr<detail::AsioStore> store_;
};

}  // namespace v1
}  // namespace cpprun

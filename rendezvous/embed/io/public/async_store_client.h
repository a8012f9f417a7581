// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A client of a store for programs with an event loop, in C++17 and later. It never blocks and has
// no thread: wait until descriptor() is readable, level- or edge-triggered, then call dispatch().
//
//   auto client = cpprun::AsyncStoreClient::open({"node1", 29400});
//   client->get("greeting", [](cpprun::Expected<std::string> value) { … });
//
// The callback of a request is called once, by dispatch() or by the destructor, unless the request
// fails at once. It may use the client and destroy it; what it throws is dropped. A client may be
// used by one thread at a time. The class is a wrapper around the C functions of <cpprun/store.h>,
// which describes the rest. With Asio, use <cpprun/asio_store_client.h>.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rendezvous/embed/io/public/expected.h"
#include "rendezvous/embed/io/public/store.h"
#include "rendezvous/embed/io/public/store_client.h"

namespace cpprun {
inline namespace v1 {

namespace detail {

// One request in progress.
struct AsyncCall {
  virtual ~AsyncCall() = default;
  virtual void done(const cpprun_store_reply& reply) = 0;
  std::list<std::unique_ptr<AsyncCall>>* calls = nullptr;  // its owner
  std::list<std::unique_ptr<AsyncCall>>::iterator self = {};
};

template <class Body>
struct AsyncCallOf : AsyncCall {
  explicit AsyncCallOf(Body given) : body(std::move(given)) {}
  void done(const cpprun_store_reply& reply) override { body(reply); }
  Body body;
};

inline void finish_async_call(void* user, const cpprun_store_reply* reply) noexcept {
  auto* const call = static_cast<AsyncCall*>(user);
  const std::unique_ptr<AsyncCall> own = std::move(*call->self);
  own->calls->erase(own->self);
  without_exceptions([&] { own->done(*reply); });
}

inline Failure failure_of(const cpprun_store_reply& reply) {
  return {reply.error, reply.code};
}

}  // namespace detail

class AsyncStoreClient {
 public:
  // Of a request, for cancel().
  using Id = std::uint64_t;
  template <class T>
  using Done = std::function<void(Expected<T>)>;
  // Stands for the timeout in the options.
  static constexpr std::chrono::milliseconds usual{-1};

  AsyncStoreClient(AsyncStoreClient&&) noexcept = default;
  AsyncStoreClient& operator=(AsyncStoreClient&& other) noexcept {
    AsyncStoreClient old(std::move(other));
    std::swap(calls_, old.calls_);
    std::swap(client_, old.client_);
    return *this;  // the old callbacks are called, and may use and assign this client
  }

  // Begins to connect; requests may follow at once.
  static Expected<AsyncStoreClient> open(const StoreClientOptions& options) {
    const cpprun_store_client_options c = detail::c_options(options);
    cpprun_store_async* client = cpprun_store_async_open(&c);
    if (client == nullptr) return detail::store_failure();
    return AsyncStoreClient(client);
  }

  // Readable when there is something to dispatch. It stays the same, and the client owns it.
  int descriptor() const { return cpprun_store_async_descriptor(client()); }
  void dispatch() { cpprun_store_async_dispatch(client()); }
  // How many callbacks are still to come.
  std::size_t in_progress() const { return cpprun_store_async_in_progress(client()); }
  // Every further request will fail.
  bool broken() const { return cpprun_store_async_is_broken(client()) != 0; }
  // The callback is called with CPPRUN_STORE_INTERRUPTED, by the next dispatch(). False: it is
  // over.
  bool cancel(Id request) { return cpprun_store_async_cancel(client(), request) != 0; }

  // Done when it was sent, as the store does not reply to it.
  Expected<Id> set(std::string_view key, std::string_view value, Done<void> done,
                   std::chrono::milliseconds timeout = usual) {
    return start<void>(key, std::move(done), [&](const char* k, auto callback, void* user) {
      return cpprun_store_async_set(client(), k, value.data(), value.size(), timeout.count(),
                                    callback, user);
    });
  }
  // Waits until the key exists.
  Expected<Id> get(std::string_view key, Done<std::string> done,
                   std::chrono::milliseconds timeout = usual) {
    return start<std::string>(key, std::move(done), [&](const char* k, auto callback, void* user) {
      return cpprun_store_async_get(client(), k, timeout.count(), callback, user);
    });
  }
  // The current value, or nothing.
  Expected<Id> find(std::string_view key, Done<std::optional<std::string>> done,
                    std::chrono::milliseconds timeout = usual) {
    return start<std::optional<std::string>>(
        key, std::move(done), [&](const char* k, auto callback, void* user) {
          return cpprun_store_async_find(client(), k, timeout.count(), callback, user);
        });
  }
  Expected<Id> add(std::string_view key, std::int64_t delta, Done<std::int64_t> done,
                   std::chrono::milliseconds timeout = usual) {
    return start<std::int64_t>(key, std::move(done), [&](const char* k, auto callback, void* user) {
      return cpprun_store_async_add(client(), k, delta, timeout.count(), callback, user);
    });
  }
  Expected<Id> compare_set(std::string_view key, std::string_view expected,
                           std::string_view desired, Done<std::string> done,
                           std::chrono::milliseconds timeout = usual) {
    return start<std::string>(key, std::move(done), [&](const char* k, auto callback, void* user) {
      return cpprun_store_async_compare_set(client(), k, expected.data(), expected.size(),
                                            desired.data(), desired.size(), timeout.count(),
                                            callback, user);
    });
  }
  // Whether the key existed.
  Expected<Id> delete_key(std::string_view key, Done<bool> done,
                          std::chrono::milliseconds timeout = usual) {
    return start<bool>(key, std::move(done), [&](const char* k, auto callback, void* user) {
      return cpprun_store_async_delete_key(client(), k, timeout.count(), callback, user);
    });
  }
  Expected<Id> wait(const std::vector<std::string>& keys, Done<void> done,
                    std::chrono::milliseconds timeout = usual) {
    std::vector<const char*> all;
    for (const std::string& key : keys) {
      if (key.find('\0') != std::string::npos) return no_key();
      all.push_back(key.c_str());
    }
    return start<void>("", std::move(done), [&](const char*, auto callback, void* user) {
      return cpprun_store_async_wait(client(), all.data(), all.size(), timeout.count(), callback,
                                     user);
    });
  }
  Expected<Id> barrier(std::string_view key, std::int64_t world_size, Done<void> done,
                       std::chrono::milliseconds timeout = usual) {
    return start<void>(key, std::move(done), [&](const char* k, auto callback, void* user) {
      return cpprun_store_async_barrier(client(), k, world_size, timeout.count(), callback, user);
    });
  }

  // Needs a store in this process. Called by dispatch(), in order, for every later change of a key
  // with this prefix, until the request is cancelled; `ended` is called then.
  using Watcher = std::function<void(int change, std::string_view key, std::string_view value)>;
  Expected<Id> watch(std::string_view prefix, Watcher watcher, Done<void> ended) {
    struct Body {
      std::shared_ptr<const Watcher> watcher;
      Done<void> ended;
      void operator()(const cpprun_store_reply& reply) const {
        if (ended) ended(result_of<void>(reply));
      }
    };
    const auto call = [](void* user, int change, const char* key, std::size_t key_size,
                         const char* value, std::size_t value_size) noexcept {
      // It may end its watch, and destroy the client.
      const std::shared_ptr<const Watcher> own =
          static_cast<detail::AsyncCallOf<Body>*>(static_cast<detail::AsyncCall*>(user))
              ->body.watcher;
      detail::without_exceptions([&] { (*own)(change, {key, key_size}, {value, value_size}); });
    };
    return start_call(prefix,
                      Body{std::make_shared<const Watcher>(std::move(watcher)), std::move(ended)},
                      [&](const char* k, auto callback, void* user) {
                        return cpprun_store_async_watch(client(), k, call, callback, user);
                      });
  }

 private:
  explicit AsyncStoreClient(cpprun_store_async* client)
      : calls_(std::make_unique<Calls>()), client_(client, &cpprun_store_async_close) {}

  using Calls = std::list<std::unique_ptr<detail::AsyncCall>>;
  cpprun_store_async* client() const { return client_.get(); }
  static Failure no_key() {
    return {"a key of the store must not contain a NUL byte", CPPRUN_STORE_BAD_ARGUMENT};
  }

  template <class T>
  static Expected<T> result_of(const cpprun_store_reply& reply) {
#if defined(__cpp_exceptions)
    try {
      return converted<T>(reply);
    } catch (...) {
      return Failure{"out of memory", CPPRUN_STORE_NO_MEMORY};
    }
#else
    return converted<T>(reply);
#endif
  }
  template <class T>
  static Expected<T> converted(const cpprun_store_reply& reply) {
    if (reply.code != 0) return detail::failure_of(reply);
    if constexpr (std::is_same_v<T, std::string>) {
      return std::string(reply.value, reply.value_size);
    } else if constexpr (std::is_same_v<T, std::optional<std::string>>) {
      if (reply.value == nullptr) return T();
      return T(std::string(reply.value, reply.value_size));
    } else if constexpr (std::is_same_v<T, bool>) {
      return reply.number != 0;
    } else if constexpr (std::is_same_v<T, void>) {
      return {};
    } else {
      return reply.number;
    }
  }

  template <class T, class Call>
  Expected<Id> start(std::string_view key, Done<T> done, Call call) {
    const auto body = [done = std::move(done)](const cpprun_store_reply& reply) {
      if (done) done(result_of<T>(reply));
    };
    return start_call(key, std::move(body), call);
  }
  template <class Body, class Call>
  Expected<Id> start_call(std::string_view key, Body body, Call call) {
    if (calls_ == nullptr) {
      return Failure{"the client was moved to another object", CPPRUN_STORE_BAD_ARGUMENT};
    }
    if (key.find('\0') != std::string_view::npos) return no_key();
    calls_->push_front(std::make_unique<detail::AsyncCallOf<Body>>(std::move(body)));
    detail::AsyncCall* const own = calls_->front().get();
    own->calls = calls_.get();
    own->self = calls_->begin();
    const Id id = call(std::string(key).c_str(), &detail::finish_async_call, own);
    if (id != 0) return id;
    calls_->erase(own->self);
    return detail::store_failure();
  }

  std::unique_ptr<Calls> calls_;  // outlive the client, which finishes them
  std::unique_ptr<cpprun_store_async, void (*)(cpprun_store_async*)> client_;
};

}  // namespace v1
}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A blocking client of a store (cpprun's or PyTorch's, 2.2 and later), in C++17 and later.
//
//   auto client = cpprun::StoreClient::open({"node1", 29400});
//   if (!client) return report_error(client.error());
//   client->set("greeting", "hello");
//
// Every call ends within its timeout. A failed call returns the reason as a clause and a code.
// After a failure of the connection (broken()) every further call fails with the same reason.
// Threads may share a client. Values are any bytes; a key must not contain a NUL byte. The class is
// a wrapper around the C functions of <cpprun/store.h>, as <cpprun/store_server.h> explains.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rendezvous/embed/io/public/expected.h"
#include "rendezvous/embed/io/public/store.h"

namespace cpprun {
inline namespace v1 {

struct StoreClientOptions {
  std::string host = {};  // name, address, or "unix:PATH"
  std::uint16_t port = 0;
  // How long to try to connect. The store may not be listening yet.
  std::chrono::milliseconds connect_timeout = std::chrono::minutes(5);
  // The default timeout of a request.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  // Prefix of every key. PyTorch's clients use "/", so with it keys are shared with them.
  std::string key_prefix = "/";
  // Used instead of host and port: StoreServer::handle() or StoreService::handle() in this process.
  // Without bytes on a wire, and with each(), watch() and what follows them.
  cpprun_store_server* server = nullptr;
  cpprun_store_service* service = nullptr;
  // Not empty: uses TLS with this secret, as <cpprun/store.h> describes.
  std::string secret = {};
};

namespace detail {

// Valid as long as the options.
inline cpprun_store_client_options c_options(const StoreClientOptions& options) {
  cpprun_store_client_options c = {};
  c.size = sizeof(c);
  c.host = options.host.c_str();
  c.port = options.port;
  c.connect_timeout_ms = options.connect_timeout.count();
  c.timeout_ms = options.timeout.count();
  c.key_prefix = options.key_prefix.c_str();
  c.server = options.server;
  c.service = options.service;
  c.secret = options.secret.empty() ? nullptr : options.secret.c_str();
  return c;
}

}  // namespace detail

class StoreClient {
 public:
  StoreClient(StoreClient&&) noexcept = default;
  StoreClient& operator=(StoreClient&&) noexcept = default;

  // Stands for the timeout in the options.
  static constexpr std::chrono::milliseconds usual{-1};

  // Retries until connect_timeout, because the store may not be listening yet.
  static Expected<StoreClient> open(const StoreClientOptions& options) {
    const cpprun_store_client_options c = detail::c_options(options);
    cpprun_store_client* client = cpprun_store_connect_with(&c);
    if (client == nullptr) return failure();
    return StoreClient(client);
  }

  bool broken() const { return cpprun_store_is_broken(client()) != 0; }
  // Calls of other threads, and all later ones, fail with CPPRUN_STORE_INTERRUPTED.
  void interrupt() { cpprun_store_interrupt(client()); }

  // Written at once. The store does not reply to these, so a failure may show only at the next
  // call.
  Expected<void> set(std::string_view key, std::string_view value) {
    return done(key, [&](const char* k) {
      return cpprun_store_set(client(), k, value.data(), value.size());
    });
  }
  Expected<void> append(std::string_view key, std::string_view data) {
    return done(key, [&](const char* k) {
      return cpprun_store_append(client(), k, data.data(), data.size());
    });
  }
  // Atomic: no client sees only some of the keys set.
  Expected<void> multi_set(const std::vector<std::pair<std::string, std::string>>& entries) {
    std::vector<const char*> keys;
    std::vector<const void*> values;
    std::vector<std::size_t> sizes;
    for (const auto& [key, value] : entries) {
      if (!is_key(key)) return no_key();
      keys.push_back(key.c_str());
      values.push_back(value.data());
      sizes.push_back(value.size());
    }
    return done(
        cpprun_store_multi_set(client(), keys.size(), keys.data(), values.data(), sizes.data()));
  }
  Expected<void> queue_push(std::string_view key, std::string_view value) {
    return done(key, [&](const char* k) {
      return cpprun_store_queue_push(client(), k, value.data(), value.size());
    });
  }

  // Waits until the key exists, then returns its value.
  Expected<std::string> get(std::string_view key, std::chrono::milliseconds timeout = usual) {
    return required(key, [&](const char* k, char** value, std::size_t* size) {
      return cpprun_store_get(client(), k, timeout.count(), value, size);
    });
  }
  // The current value, or nothing.
  Expected<std::optional<std::string>> find(std::string_view key) {
    return optional(key, [&](const char* k, char** value, std::size_t* size) {
      return cpprun_store_find(client(), k, value, size);
    });
  }
  // Adds to a counter, which starts at 0, and returns the sum.
  Expected<std::int64_t> add(std::string_view key, std::int64_t delta) {
    return number<std::int64_t>(key, [&](const char* k, std::int64_t* sum) {
      return cpprun_store_add(client(), k, delta, sum);
    });
  }
  // Returns the value after the operation: `desired` if the key held `expected` (if that is empty:
  // or did not exist).
  Expected<std::string> compare_set(std::string_view key, std::string_view expected,
                                    std::string_view desired) {
    return required(key, [&](const char* k, char** value, std::size_t* size) {
      return cpprun_store_compare_set(client(), k, expected.data(), expected.size(), desired.data(),
                                      desired.size(), value, size);
    });
  }
  // Whether all keys exist.
  Expected<bool> check(const std::vector<std::string>& keys) {
    const auto all = pointers(keys);
    if (!all) return no_key();
    int exist = 0;
    if (cpprun_store_check(client(), all->data(), all->size(), &exist) != 0) return failure();
    return exist != 0;
  }
  // Returns when all keys exist. A failure names the keys.
  Expected<void> wait(const std::vector<std::string>& keys,
                      std::chrono::milliseconds timeout = usual) {
    const auto all = pointers(keys);
    if (!all) return no_key();
    return done(cpprun_store_wait(client(), all->data(), all->size(), timeout.count()));
  }
  // Returns when `world_size` clients have reached the barrier.
  Expected<void> barrier(std::string_view key, std::int64_t world_size,
                         std::chrono::milliseconds timeout = usual) {
    return done(key, [&](const char* k) {
      return cpprun_store_barrier(client(), k, world_size, timeout.count());
    });
  }
  // Whether the key existed.
  Expected<bool> delete_key(std::string_view key) {
    const auto existed = number<int>(
        key, [&](const char* k, int* flag) { return cpprun_store_delete_key(client(), k, flag); });
    if (!existed) return Failure{existed.error(), existed.code()};
    return *existed != 0;
  }
  // The keys of all clients, with any prefix.
  Expected<std::int64_t> num_keys() {
    std::int64_t count = 0;
    if (cpprun_store_num_keys(client(), &count) != 0) return failure();
    return count;
  }
  // The value is empty for a key that does not exist.
  Expected<std::vector<std::string>> multi_get(const std::vector<std::string>& keys) {
    const auto all = pointers(keys);
    if (!all) return no_key();
    cpprun_store_list* list = nullptr;
    return texts(cpprun_store_multi_get(client(), all->data(), all->size(), &list), &list);
  }
  // The oldest entry, or nothing if the queue is empty.
  Expected<std::optional<std::string>> queue_pop(std::string_view key) {
    return optional(key, [&](const char* k, char** value, std::size_t* size) {
      return cpprun_store_queue_pop(client(), k, value, size);
    });
  }
  Expected<std::int64_t> queue_length(std::string_view key) {
    return number<std::int64_t>(key, [&](const char* k, std::int64_t* length) {
      return cpprun_store_queue_length(client(), k, length);
    });
  }
  // The keys under the prefix, returned without it.
  Expected<std::vector<std::string>> list_keys() {
    cpprun_store_list* list = nullptr;
    return texts(cpprun_store_list_keys(client(), &list), &list);
  }

  // --- for a server in this process ---

  // Called in the serving thread, in order, for every later change of a key with this prefix, until
  // this client is destroyed. `change` is CPPRUN_STORE_UPDATED, …
  using Watcher = std::function<void(int change, std::string_view key, std::string_view value)>;
  Expected<void> watch(std::string_view prefix, Watcher watcher) {
    auto kept = std::make_unique<Watcher>(std::move(watcher));
    const auto call = [](void* user, int change, const char* key, std::size_t key_size,
                         const char* value, std::size_t value_size) noexcept {
      detail::without_exceptions([&] {
        (*static_cast<Watcher*>(user))(change, {key, key_size}, {value, value_size});
      });
    };
    const auto release = [](void* user) noexcept { delete static_cast<Watcher*>(user); };
    return done(cpprun_store_watch_with(client(), std::string(prefix).c_str(), call, kept.release(),
                                        release));
  }
  // Calls `visit(key, value)`, which must not throw, for every key with this prefix.
  template <class Visit>
  Expected<void> each(std::string_view prefix, Visit visit) {
    const auto call = [](void* user, const char* key, std::size_t key_size, const char* value,
                         std::size_t value_size) noexcept {
      (*static_cast<Visit*>(user))(std::string_view(key, key_size),
                                   std::string_view(value, value_size));
    };
    return done(cpprun_store_each(client(), std::string(prefix).c_str(), call, &visit));
  }
  // Calls `visit(client, key, is_barrier)`, which must not throw, for every wait.
  template <class Visit>
  Expected<void> each_wait(Visit visit) {
    const auto call = [](void* user, const char* waiting, const char* key, std::size_t key_size,
                         int is_barrier) noexcept {
      (*static_cast<Visit*>(user))(std::string_view(waiting), std::string_view(key, key_size),
                                   is_barrier != 0);
    };
    return done(cpprun_store_each_wait(client(), call, &visit));
  }
  Expected<cpprun_store_figures> figures() {
    cpprun_store_figures figures = {};
    figures.size = sizeof(figures);
    if (cpprun_store_get_figures(client(), &figures) != 0) return failure();
    return figures;
  }
  // All keys and queues, and adding them to a store.
  Expected<std::string> snapshot() {
    return required("", [&](const char*, char** bytes, std::size_t* size) {
      return cpprun_store_snapshot(client(), bytes, size);
    });
  }
  Expected<void> restore(std::string_view snapshot) {
    return done(cpprun_store_restore(client(), snapshot.data(), snapshot.size()));
  }

 private:
  explicit StoreClient(cpprun_store_client* client) : client_(client, &cpprun_store_disconnect) {}

  cpprun_store_client* client() const { return client_.get(); }
  static bool is_key(std::string_view key) { return key.find('\0') == std::string_view::npos; }
  static Failure no_key() {
    return {"a key of the store must not contain a NUL byte", CPPRUN_STORE_BAD_ARGUMENT};
  }
  static Failure failure() { return detail::store_failure(); }

  static Expected<void> done(int outcome) {
    if (outcome != 0) return failure();
    return {};
  }
  template <class Call>
  static Expected<void> done(std::string_view key, Call call) {
    if (!is_key(key)) return no_key();
    return done(call(std::string(key).c_str()));
  }
  template <class Number, class Call>
  static Expected<Number> number(std::string_view key, Call call) {
    if (!is_key(key)) return no_key();
    Number result = 0;
    if (call(std::string(key).c_str(), &result) != 0) return failure();
    return result;
  }
  template <class Call>
  static Expected<std::optional<std::string>> optional(std::string_view key, Call call) {
    if (!is_key(key)) return no_key();
    char* value = nullptr;
    std::size_t size = 0;
    if (call(std::string(key).c_str(), &value, &size) != 0) return failure();
    if (value == nullptr) return std::optional<std::string>();
    const std::unique_ptr<char, void (*)(void*)> owner(value, &cpprun_store_free);
    return std::optional<std::string>(std::string(value, size));
  }
  template <class Call>
  static Expected<std::string> required(std::string_view key, Call call) {
    auto found = optional(key, call);
    if (!found) return Failure{found.error(), found.code()};
    return std::move(**found);
  }
  static Expected<std::vector<std::string>> texts(int outcome, cpprun_store_list** list) {
    if (outcome != 0) return failure();
    const std::unique_ptr<cpprun_store_list, void (*)(cpprun_store_list*)> owner(
        *list, &cpprun_store_list_free);
    std::vector<std::string> all;
    for (std::size_t at = 0; at < cpprun_store_list_count(*list); ++at) {
      std::size_t size = 0;
      const char* item = cpprun_store_list_item(*list, at, &size);
      all.emplace_back(item, size);
    }
    return all;
  }
  static std::optional<std::vector<const char*>> pointers(const std::vector<std::string>& keys) {
    std::vector<const char*> all;
    for (const std::string& key : keys) {
      if (!is_key(key)) return std::nullopt;
      all.push_back(key.c_str());
    }
    return all;
  }

  std::unique_ptr<cpprun_store_client, void (*)(cpprun_store_client*)> client_;
};

}  // namespace v1
}  // namespace cpprun

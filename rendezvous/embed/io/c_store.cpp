// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/c10d/bounds.h"
#include "proto/text.h"
#include "rendezvous/client/bounds.h"
#include "rendezvous/client/io/store_client.h"
#include "rendezvous/client/local_store.h"
#include "rendezvous/client/store_error.h"
#include "rendezvous/embed/io/c_call.h"
#include "rendezvous/embed/io/public/store.h"
#include "rendezvous/store/io/store_server.h"

namespace cpprun::c {

static_assert(CPPRUN_STORE_TIMEOUT == static_cast<int>(Code::timeout));
static_assert(CPPRUN_STORE_REFUSED == static_cast<int>(Code::refused));
static_assert(CPPRUN_STORE_CLOSED == static_cast<int>(Code::closed));
static_assert(CPPRUN_STORE_INTERRUPTED == static_cast<int>(Code::interrupted));
static_assert(CPPRUN_STORE_BAD_ARGUMENT == static_cast<int>(Code::bad_argument));
static_assert(CPPRUN_STORE_TOO_LARGE == static_cast<int>(Code::too_large));
static_assert(CPPRUN_STORE_VERSION == static_cast<int>(Code::version));
static_assert(CPPRUN_STORE_PROTOCOL == static_cast<int>(Code::protocol));
static_assert(CPPRUN_STORE_UNREACHABLE == static_cast<int>(Code::unreachable));
static_assert(CPPRUN_STORE_NO_MEMORY == static_cast<int>(Code::no_memory));
static_assert(CPPRUN_STORE_FORKED == static_cast<int>(Code::forked));
static_assert(CPPRUN_STORE_SYSTEM == static_cast<int>(Code::system));
static_assert(CPPRUN_STORE_UNSUPPORTED == static_cast<int>(Code::unsupported));
static_assert(CPPRUN_STORE_UPDATED == static_cast<int>(StoreChange::updated));
static_assert(CPPRUN_STORE_CREATED == static_cast<int>(StoreChange::created));
static_assert(CPPRUN_STORE_DELETED == static_cast<int>(StoreChange::deleted));
static_assert(CPPRUN_STORE_LOST == static_cast<int>(StoreChange::lost));
static_assert(CPPRUN_STORE_KEY_BYTES_MAX == bounds::store_key_bytes_max);
static_assert(CPPRUN_STORE_VALUE_BYTES_MAX == bounds::store_value_bytes_max);
static_assert(CPPRUN_STORE_COMPARED_BYTES_MAX == bounds::store_compare_bytes_max);
static_assert(CPPRUN_STORE_KEYS_MAX == bounds::store_keys_per_request_max);
static_assert(CPPRUN_STORE_REQUEST_BYTES_MAX == bounds::store_request_bytes_max);

}  // namespace cpprun::c

// --- the client functions of <cpprun/store.h> ------------------------------------------------

using cpprun::Duration;
using cpprun::failure;
using cpprun::StoreResult;
using cpprun::c::Argument;
using cpprun::c::bytes;
using cpprun::c::Call;
using cpprun::c::Code;
using cpprun::c::duration_of;
using cpprun::c::guarded;
using cpprun::c::keys_of;
using cpprun::c::needed_for;
using cpprun::c::timeout_of;
using cpprun::c::with;

struct cpprun_store_client {
  cpprun::StoreClient client;
  cpprun::StoreClientOptions options;
};

struct cpprun_store_list {
  std::vector<std::string> items;
};

namespace {

// Returns a NUL-terminated copy. It comes from malloc, because other languages can call free().
void hand_out(std::string_view text, char** value, std::size_t* size) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  *value = copy;
  *size = text.size();
}

void empty(char** value, std::size_t* size) {
  if (value != nullptr) *value = nullptr;
  if (size != nullptr) *size = 0;
}

StoreResult<std::unique_ptr<cpprun_store_client>> connect(
    const cpprun_store_client_options* options) {
  cpprun_store_client_options given{};
  const auto own = cpprun::c::read_client_options("cpprun_store_connect_with", options, given);
  if (!own) return tl::unexpected(own.error());
  cpprun::OpenStore* const local = cpprun::c::store_of(given);
  StoreResult<cpprun::StoreClient> client =
      local == nullptr ? cpprun::StoreClient::open(*own) : local->connect(*own);
  if (!client) return tl::unexpected(std::move(client.error()));
  return std::unique_ptr<cpprun_store_client>(new cpprun_store_client{std::move(*client), *own});
}

}  // namespace

StoreResult<cpprun::StoreClientOptions> cpprun::c::read_client_options(
    const char* function, const cpprun_store_client_options* options,
    cpprun_store_client_options& read) {
  const auto given = read_struct(function, "cpprun_store_client_options", options,
                                 offsetof(cpprun_store_client_options, server));
  if (!given) return tl::unexpected(given.error());
  read = *given;
  StoreClientOptions own;
  own.port = read.port;
  if (read.connect_timeout_ms >= 0) own.connect_timeout = duration_of(read.connect_timeout_ms);
  if (read.timeout_ms >= 0) own.timeout = duration_of(read.timeout_ms);
  if (read.key_prefix != nullptr) own.key_prefix = read.key_prefix;
  if (read.secret != nullptr && store_of(read) == nullptr) {
    auto ciphers = client_ciphers(read.secret);
    if (!ciphers) return tl::unexpected(std::move(ciphers.error()));
    own.make_cipher = std::move(*ciphers);
  }
  if (read.host != nullptr) {
    own.host = read.host;
  } else if (store_of(read) == nullptr) {
    return failure(Code::bad_argument, null_pointer_text(function, "the host of the options"));
  }
  return own;
}

cpprun::OpenStore* cpprun::c::store_of(const cpprun_store_client_options& read) {
  if (read.server != nullptr) return &read.server->server->store();
  if (read.service != nullptr) return &read.service->service->store();
  return nullptr;
}

cpprun_store_client* cpprun_store_connect(const char* host, uint16_t port, int64_t timeout_ms) {
  if (!cpprun::c::is_given(__func__, "host", host)) return nullptr;
  cpprun_store_client_options options{};
  options.size = sizeof options;
  options.host = host;
  options.port = port;
  options.connect_timeout_ms = timeout_ms;
  options.timeout_ms = -1;
  return cpprun_store_connect_with(&options);
}

cpprun_store_client* cpprun_store_connect_with(const cpprun_store_client_options* options) {
  if (!cpprun::c::is_given(__func__, "options", options)) return nullptr;
  return cpprun::c::made<cpprun_store_client>([options] { return connect(options); });
}

void cpprun_store_disconnect(cpprun_store_client* client) {
  const std::unique_ptr<cpprun_store_client> ends_here(client);
}

int cpprun_store_is_broken(const cpprun_store_client* client) {
  (void)cpprun::c::is_given(__func__, "client", client);  // sets the error text
  return client == nullptr || client->client.is_broken() ? 1 : 0;
}

void cpprun_store_interrupt(cpprun_store_client* client) {
  if (cpprun::c::is_given(__func__, "client", client)) client->client.interrupt();
}

// --- requests without a reply --------------------------------------------------------------------

int cpprun_store_set(cpprun_store_client* client, const char* key, const void* value,
                     size_t value_size) {
  const Call call{__func__, client};
  return guarded([&] {
    return with(call,
                [&](auto& store) {
                  return store.set(key, bytes(call, {"value", value}, value_size));
                },
                {{"key", key}});
  });
}

int cpprun_store_append(cpprun_store_client* client, const char* key, const void* value,
                        size_t value_size) {
  const Call call{__func__, client};
  return guarded([&] {
    return with(call,
                [&](auto& store) {
                  return store.append(key, bytes(call, {"value", value}, value_size));
                },
                {{"key", key}});
  });
}

int cpprun_store_multi_set(cpprun_store_client* client, size_t count, const char* const* keys,
                           const void* const* values, const size_t* value_sizes) {
  const Call call{__func__, client};
  return guarded([&] {
    return with(call,
                [&](auto& store) {
                  std::vector<std::pair<std::string, std::string>> entries;
                  const std::vector<std::string> names = keys_of(call, keys, count);
                  for (std::size_t at = 0; at < count; ++at) {
                    entries.emplace_back(
                        names[at], bytes(call, {"values[" + std::to_string(at) + "]", values[at]},
                                         value_sizes[at]));
                  }
                  return store.multi_set(entries);
                },
                {{"keys", needed_for(count, keys)},
                 {"values", needed_for(count, values)},
                 {"value_sizes", needed_for(count, value_sizes)}});
  });
}

int cpprun_store_queue_push(cpprun_store_client* client, const char* key, const void* value,
                            size_t value_size) {
  const Call call{__func__, client};
  return guarded([&] {
    return with(call,
                [&](auto& store) {
                  return store.queue_push(key, bytes(call, {"value", value}, value_size));
                },
                {{"key", key}});
  });
}

// --- requests with a reply -----------------------------------------------------------------------

int cpprun_store_get(cpprun_store_client* client, const char* key, int64_t timeout_ms, char** value,
                     size_t* value_size) {
  const Call call{__func__, client};
  empty(value, value_size);
  return guarded(
      [&] {
        return with(call, [&](auto& store) { return store.get(key, timeout_of(timeout_ms)); },
                    {{"key", key}, {"value", value}, {"value_size", value_size}});
      },
      [&](const std::string& text) { hand_out(text, value, value_size); });
}

int cpprun_store_find(cpprun_store_client* client, const char* key, char** value,
                      size_t* value_size) {
  const Call call{__func__, client};
  empty(value, value_size);
  return guarded(
      [&] {
        return with(call, [&](auto& store) { return store.find(key); },
                    {{"key", key}, {"value", value}, {"value_size", value_size}});
      },
      [&](const std::optional<std::string>& text) {
        if (text) hand_out(*text, value, value_size);
      });
}

int cpprun_store_add(cpprun_store_client* client, const char* key, int64_t delta, int64_t* sum) {
  const Call call{__func__, client};
  return guarded(
      [&] {
        return with(call, [&](auto& store) { return store.add(key, delta); },
                    {{"key", key}, {"sum", sum}});
      },
      [sum](std::int64_t now) { *sum = now; });
}

int cpprun_store_compare_set(cpprun_store_client* client, const char* key, const void* expected,
                             size_t expected_size, const void* desired, size_t desired_size,
                             char** value, size_t* value_size) {
  const Call call{__func__, client};
  empty(value, value_size);
  return guarded(
      [&] {
        return with(call,
                    [&](auto& store) {
                      return store.compare_set(key,
                                               bytes(call, {"expected", expected}, expected_size),
                                               bytes(call, {"desired", desired}, desired_size));
                    },
                    {{"key", key}, {"value", value}, {"value_size", value_size}});
      },
      [&](const std::string& text) { hand_out(text, value, value_size); });
}

int cpprun_store_check(cpprun_store_client* client, const char* const* keys, size_t count,
                       int* exist) {
  const Call call{__func__, client};
  return guarded(
      [&] {
        return with(call, [&](auto& store) { return store.check(keys_of(call, keys, count)); },
                    {{"keys", needed_for(count, keys)}, {"exist", exist}});
      },
      [exist](bool all) { *exist = all ? 1 : 0; });
}

int cpprun_store_wait(cpprun_store_client* client, const char* const* keys, size_t count,
                      int64_t timeout_ms) {
  const Call call{__func__, client};
  return guarded([&] {
    return with(
        call,
        [&](auto& store) { return store.wait(keys_of(call, keys, count), timeout_of(timeout_ms)); },
        {{"keys", needed_for(count, keys)}});
  });
}

int cpprun_store_barrier(cpprun_store_client* client, const char* key, int64_t world_size,
                         int64_t timeout_ms) {
  const Call call{__func__, client};
  return guarded([&] {
    return with(call,
                [&](auto& store) { return store.barrier(key, world_size, timeout_of(timeout_ms)); },
                {{"key", key}});
  });
}

int cpprun_store_delete_key(cpprun_store_client* client, const char* key, int* existed) {
  const Call call{__func__, client};
  return guarded(
      [&] {
        return with(call, [&](auto& store) { return store.delete_key(key); }, {{"key", key}});
      },
      [existed](bool was_there) {
        if (existed != nullptr) *existed = was_there ? 1 : 0;
      });
}

int cpprun_store_num_keys(cpprun_store_client* client, int64_t* count) {
  const Call call{__func__, client};
  return guarded(
      [&] {
        return with(call, [&](auto& store) { return store.num_keys(); }, {{"count", count}});
      },
      [count](std::int64_t keys) { *count = keys; });
}

int cpprun_store_queue_pop(cpprun_store_client* client, const char* key, char** value,
                           size_t* value_size) {
  const Call call{__func__, client};
  empty(value, value_size);
  return guarded(
      [&] {
        return with(call, [&](auto& store) { return store.queue_pop(key); },
                    {{"key", key}, {"value", value}, {"value_size", value_size}});
      },
      [&](const std::optional<std::string>& text) {
        if (text) hand_out(*text, value, value_size);
      });
}

int cpprun_store_queue_length(cpprun_store_client* client, const char* key, int64_t* length) {
  const Call call{__func__, client};
  return guarded(
      [&] {
        return with(call, [&](auto& store) { return store.queue_length(key); },
                    {{"key", key}, {"length", length}});
      },
      [length](std::int64_t entries) { *length = entries; });
}

// --- lists ---------------------------------------------------------------------------------------

int cpprun_store_multi_get(cpprun_store_client* client, const char* const* keys, size_t count,
                           cpprun_store_list** values) {
  const Call call{__func__, client};
  if (values != nullptr) *values = nullptr;
  return guarded(
      [&] {
        return with(call, [&](auto& store) { return store.multi_get(keys_of(call, keys, count)); },
                    {{"keys", needed_for(count, keys)}, {"values", values}});
      },
      [values](auto texts) { *values = new cpprun_store_list{std::move(texts)}; });
}

int cpprun_store_list_keys(cpprun_store_client* client, cpprun_store_list** keys) {
  const Call call{__func__, client};
  if (keys != nullptr) *keys = nullptr;
  return guarded(
      [&] {
        return with(call, [&](auto& store) { return store.list_keys(); }, {{"keys", keys}});
      },
      [keys](auto texts) { *keys = new cpprun_store_list{std::move(texts)}; });
}

// --- inside the server's process -----------------------------------------------------------------

namespace {

// Calls `body` with the store of the client, if that is in this process.
template <class Body>
auto locally(const Call<cpprun_store_client>& call, std::initializer_list<Argument> needed,
             Body body) {
  return with(
      call,
      [&](cpprun::StoreClient& client) -> decltype(body(std::declval<cpprun::LocalStore&>())) {
        const StoreResult<cpprun::LocalStore*> store = client.local();
        if (!store) {
          return failure(store.error().code,
                         std::string(call.function) + ": " + store.error().reason);
        }
        return body(**store);
      },
      needed);
}

const void* function_pointer(bool is_null) {
  return is_null ? nullptr : "";
}

// The keys of this client that begin with `prefix`, as the store has them.
std::string full_prefix(const cpprun_store_client* client, const char* prefix) {
  return client->options.key_prefix + (prefix == nullptr ? "" : prefix);
}

}  // namespace

int cpprun_store_watch(cpprun_store_client* client, const char* prefix,
                       void (*watcher)(void* user, int change, const char* key, size_t key_size,
                                       const char* value, size_t value_size),
                       void* user) {
  return cpprun_store_watch_with(client, prefix, watcher, user, nullptr);
}

int cpprun_store_watch_with(cpprun_store_client* client, const char* prefix,
                            void (*watcher)(void* user, int change, const char* key,
                                            size_t key_size, const char* value, size_t value_size),
                            void* user, void (*release)(void* user)) {
  return guarded([&, call = Call{"cpprun_store_watch", client}] {
    // It lives as long as the watch, and a call of the watcher keeps that.
    const std::shared_ptr<void> owner(user, [release](void* its) {
      if (release != nullptr) release(its);
    });
    return locally(call, {{"watcher", function_pointer(watcher == nullptr)}},
                   [&](cpprun::LocalStore& store) {
                     const std::size_t own = client->options.key_prefix.size();
                     return store.watch(
                         full_prefix(client, prefix),
                         [watcher, owner, own](cpprun::StoreChange change, const std::string& key,
                                               const std::string& value) {
                           // An event that stands for several has no key.
                           const std::size_t skipped = std::min(own, key.size());
                           watcher(owner.get(), static_cast<int>(change), key.c_str() + skipped,
                                   key.size() - skipped, value.c_str(), value.size());
                         });
                   });
  });
}

int cpprun_store_each(cpprun_store_client* client, const char* prefix,
                      void (*visit)(void* user, const char* key, size_t key_size, const char* value,
                                    size_t value_size),
                      void* user) {
  return guarded([&, call = Call{__func__, client}] {
    return locally(
        call, {{"visit", function_pointer(visit == nullptr)}}, [&](cpprun::LocalStore& store) {
          const std::size_t own = client->options.key_prefix.size();
          return store.each(
              full_prefix(client, prefix), [&](const std::string& key, const std::string& value) {
                visit(user, key.c_str() + own, key.size() - own, value.c_str(), value.size());
              });
        });
  });
}

int cpprun_store_get_figures(cpprun_store_client* client, cpprun_store_figures* figures) {
  const auto read = [&, call = Call{__func__, client}] {
    return locally(call, {{"figures", figures}},
                   [](cpprun::LocalStore& store) { return store.figures(); });
  };
  return guarded([&]() -> StoreResult<void> {
    const StoreResult<cpprun::StoreFigures> now = read();
    if (!now) return tl::unexpected(now.error());
    const std::size_t size = figures->size;
    if (auto known = cpprun::c::read_struct("cpprun_store_get_figures", "cpprun_store_figures",
                                            figures, sizeof(cpprun_store_figures));
        !known) {
      return tl::unexpected(std::move(known.error()));
    }
    *figures = {size, now->clients, now->keys, now->bytes, now->waits};
    return {};
  });
}

int cpprun_store_each_wait(cpprun_store_client* client,
                           void (*visit)(void* user, const char* waiting_client, const char* key,
                                         size_t key_size, int is_barrier),
                           void* user) {
  return guarded([&, call = Call{__func__, client}] {
    return locally(
        call, {{"visit", function_pointer(visit == nullptr)}}, [&](cpprun::LocalStore& store) {
          return store.waits(
              [&](const std::string& waiting, const std::string& key, bool is_barrier) {
                visit(user, waiting.c_str(), key.c_str(), key.size(), is_barrier ? 1 : 0);
              });
        });
  });
}

int cpprun_store_snapshot(cpprun_store_client* client, char** snapshot, size_t* snapshot_size) {
  empty(snapshot, snapshot_size);
  return guarded(
      [&, call = Call{__func__, client}] {
        return locally(call, {{"snapshot", snapshot}, {"snapshot_size", snapshot_size}},
                       [](cpprun::LocalStore& store) { return store.snapshot(); });
      },
      [&](const std::string& bytes) { hand_out(bytes, snapshot, snapshot_size); });
}

int cpprun_store_restore(cpprun_store_client* client, const void* snapshot, size_t snapshot_size) {
  return guarded([&, call = Call{__func__, client}] {
    return locally(call, {{"snapshot", needed_for(snapshot_size, snapshot)}},
                   [&](cpprun::LocalStore& store) {
                     return store.restore({static_cast<const char*>(snapshot), snapshot_size},
                                          client->options.timeout);
                   });
  });
}

// --- results -------------------------------------------------------------------------------------

void cpprun_store_free(void* value) {
  std::free(value);
}

size_t cpprun_store_list_count(const cpprun_store_list* list) {
  return !cpprun::c::is_given(__func__, "list", list) ? 0 : list->items.size();
}

const char* cpprun_store_list_item(const cpprun_store_list* list, size_t index, size_t* item_size) {
  if (item_size != nullptr) *item_size = 0;
  if (!cpprun::c::is_given(__func__, "list", list) || index >= list->items.size()) return nullptr;
  if (item_size != nullptr) *item_size = list->items[index].size();
  return list->items[index].c_str();
}

void cpprun_store_list_free(cpprun_store_list* list) {
  const std::unique_ptr<cpprun_store_list> ends_here(list);
}

// --- the server functions of <cpprun/store.h> ------------------------------------------------

namespace {

// A duplicate of a listening socket, which does not block.
StoreResult<int> duplicate(int listening_socket) {
  int is_listening = 0;
  socklen_t size = sizeof is_listening;
  const int flags = ::fcntl(listening_socket, F_GETFL);
  int error = 0;
  if (flags < 0 ||
      ::getsockopt(listening_socket, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &size) != 0) {
    error = errno;
  } else if (is_listening == 0) {
    error = EINVAL;
  } else if (::fcntl(listening_socket, F_SETFL, flags | O_NONBLOCK) != 0) {
    error = errno;
  } else if (const int copy = ::fcntl(listening_socket, F_DUPFD_CLOEXEC, 0); copy >= 0) {
    return copy;
  } else {
    error = errno;
  }
  return failure(Code::bad_argument,
                 "cpprun_store_serve_with: listening_socket " + std::to_string(listening_socket) +
                     (error == EINVAL ? " does not listen" : ": " + cpprun::errno_text(error)));
}

StoreResult<std::vector<cpprun::StoreNamespace>> read_namespaces(
    const cpprun_store_server_options& given) {
  std::vector<cpprun::StoreNamespace> all;
  if (given.namespace_count == 0) return all;
  const char* const function = "cpprun_store_serve_with";
  if (given.namespaces == nullptr) {
    return failure(Code::bad_argument, cpprun::c::null_pointer_text(function, "namespaces"));
  }
  const auto limit = [](std::uint64_t max) {
    return max == 0 ? cpprun::StoreNamespace::none : max;
  };
  // A newer header has larger elements.
  const auto* at = reinterpret_cast<const char*>(given.namespaces);
  const std::size_t size = given.namespaces->size;
  for (std::size_t each = 0; each < given.namespace_count; ++each, at += size) {
    const auto read = cpprun::c::read_struct(function, "cpprun_store_namespace",
                                             reinterpret_cast<const cpprun_store_namespace*>(at),
                                             sizeof(cpprun_store_namespace));
    if (!read) return tl::unexpected(read.error());
    if (read->size != size || read->prefix == nullptr || read->lease_ms < 0) {
      const char* const what = read->size != size        ? ".size differs from that of the first"
                               : read->prefix == nullptr ? ".prefix is a null pointer"
                                                         : ".lease_ms is negative";
      return failure(Code::bad_argument,
                     std::string(function) + ": namespaces[" + std::to_string(each) + "]" + what);
    }
    all.push_back({.prefix = read->prefix,
                   .keys_max = limit(read->keys_max),
                   .bytes_max = limit(read->bytes_max),
                   .ends_with_client = read->ends_with_client != 0,
                   .lease = duration_of(read->lease_ms)});
  }
  return all;
}

// `given` is not null.
StoreResult<cpprun::StoreServerOptions> read_options(const cpprun_store_server_options* options) {
  const auto read =
      cpprun::c::read_struct("cpprun_store_serve_with", "cpprun_store_server_options", options,
                             offsetof(cpprun_store_server_options, listening_socket));
  if (!read) return tl::unexpected(read.error());
  const cpprun_store_server_options& given = *read;
  auto namespaces = read_namespaces(given);
  if (!namespaces) return tl::unexpected(std::move(namespaces.error()));
  const std::string host = given.host == nullptr ? "" : given.host;
  cpprun::StoreServerOptions own{.host = host.empty()  ? "127.0.0.1"
                                         : host == "*" ? ""
                                                       : host,
                                 .port = given.port,
                                 .memory_bytes_max = given.memory_bytes_max,
                                 .clients_max = given.clients_max,
                                 .address_clients_max = given.address_clients_max,
                                 .address_keys_max = given.address_keys_max,
                                 .address_bytes_max = given.address_bytes_max,
                                 .namespaces = std::move(*namespaces)};
  if (given.log != nullptr) {
    own.log = [log = given.log, user = given.log_user](const std::string& line) {
      log(user, line.c_str());
    };
  }
  if (given.admit != nullptr) {
    own.admit = [admit = given.admit, user = given.admit_user](const std::string& client) {
      return admit(user, client.c_str()) != 0;
    };
  }
  if (given.secret != nullptr) {
    auto ciphers = cpprun::server_ciphers(given.secret);
    if (!ciphers) return tl::unexpected(std::move(ciphers.error()));
    own.make_cipher = std::move(*ciphers);
  }
  if (given.listening_socket != 0) {
    const StoreResult<int> taken = duplicate(given.listening_socket);
    if (!taken) return tl::unexpected(taken.error());
    own.passed = *taken;
  }
  return own;
}

// Creates a StoreServer or a StoreService, and keeps the text of its address.
template <class Handle, class Served>
StoreResult<std::unique_ptr<Handle>> open(const cpprun_store_server_options* given) {
  const StoreResult<cpprun::StoreServerOptions> options = read_options(given);
  if (!options) return tl::unexpected(options.error());
  StoreResult<std::unique_ptr<Served>> served = Served::open(*options);
  if (!served) return tl::unexpected(std::move(served.error()));
  std::string address = (*served)->address();
  return std::unique_ptr<Handle>(new Handle{std::move(*served), std::move(address)});
}

}  // namespace

int cpprun_store_abi(void) {
  return CPPRUN_STORE_ABI;
}

const char* cpprun_store_version(void) {
  return CPPRUN_VERSION;
}

const char* cpprun_store_error(void) {
  return cpprun::c::last_error().text.data();
}

int cpprun_store_error_code(void) {
  return cpprun::c::last_error().code;
}

cpprun::c::LastError& cpprun::c::last_error() noexcept {
  thread_local LastError last;
  return last;
}

cpprun_store_server* cpprun_store_serve(const char* host, uint16_t port) {
  cpprun_store_server_options options{};
  options.size = sizeof options;
  options.host = host;
  options.port = port;
  return cpprun_store_serve_with(&options);
}

cpprun_store_server* cpprun_store_serve_with(const cpprun_store_server_options* options) {
  if (!cpprun::c::is_given(__func__, "options", options)) return nullptr;
  return cpprun::c::made<cpprun_store_server>(
      [&] { return open<cpprun_store_server, cpprun::StoreServer>(options); });
}

uint16_t cpprun_store_port(const cpprun_store_server* server) {
  return !cpprun::c::is_given(__func__, "server", server) ? std::uint16_t{0}
                                                          : server->server->port();
}

const char* cpprun_store_address(const cpprun_store_server* server) {
  return !cpprun::c::is_given(__func__, "server", server) ? "" : server->address.c_str();
}

int cpprun_store_drain(cpprun_store_server* server, int64_t timeout_ms) {
  if (!cpprun::c::is_given(__func__, "server", server)) return -1;
  const Duration timeout = timeout_of(timeout_ms).value_or(cpprun::bounds::store_client_timeout);
  return guarded(
      [&] { return server->server->store().drain(std::chrono::steady_clock::now() + timeout); });
}

void cpprun_store_stop(cpprun_store_server* server) {
  const std::unique_ptr<cpprun_store_server> ends_here(server);
}

cpprun_store_service* cpprun_store_service_open(const cpprun_store_server_options* options) {
  if (!cpprun::c::is_given(__func__, "options", options)) return nullptr;
  return cpprun::c::made<cpprun_store_service>(
      [&] { return open<cpprun_store_service, cpprun::StoreService>(options); });
}

uint16_t cpprun_store_service_port(const cpprun_store_service* service) {
  return !cpprun::c::is_given(__func__, "service", service) ? std::uint16_t{0}
                                                            : service->service->port();
}

const char* cpprun_store_service_address(const cpprun_store_service* service) {
  return !cpprun::c::is_given(__func__, "service", service) ? "" : service->address.c_str();
}

int cpprun_store_service_descriptor(const cpprun_store_service* service) {
  return !cpprun::c::is_given(__func__, "service", service) ? -1 : service->service->descriptor();
}

int cpprun_store_service_wait_ms(const cpprun_store_service* service) {
  return !cpprun::c::is_given(__func__, "service", service) ? -1 : service->service->next_wait_ms();
}

void cpprun_store_service_serve(cpprun_store_service* service) {
  if (cpprun::c::is_given(__func__, "service", service)) service->service->serve();
}

void cpprun_store_service_close(cpprun_store_service* service) {
  const std::unique_ptr<cpprun_store_service> ends_here(service);
}

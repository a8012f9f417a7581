// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <chrono>
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
#include <vector>

#include "proto/result.h"
#include "rendezvous/client/io/store_client.h"
#include "rendezvous/embed/io/public/store.h"
#include "rendezvous/store/io/store_server.h"

// The frame of every function of the C interface. No C++ exception gets out: failures and
// exceptions become -1 or a null pointer, with an error text for the calling thread.
namespace cpprun::c {

// The text of cpprun_store_error(), one per thread.
std::string& last_error() noexcept;

// Keeps the reason. If there is no memory for it, the text is empty.
inline void keep(const char* reason) noexcept {
  try {
    last_error() = reason;
  } catch (...) {
    last_error().clear();
  }
}

// The error text for a null argument, with the names of the function and the argument.
inline std::string null_pointer_text(const char* function, const std::string& argument) {
  return std::string(function) + ": " + argument + " is a null pointer";
}

// Returns false, and sets the error text, if the pointer is null.
inline bool is_given(const char* function, const char* argument, const void* pointer) noexcept {
  if (pointer != nullptr) return true;
  try {
    keep(null_pointer_text(function, argument).c_str());
  } catch (...) {
    keep("");
  }
  return false;
}

// Runs `body`, which returns a Result<T>, and passes its value to `take`.
template <class Body, class Take>
int guarded(Body body, Take take) noexcept {
  try {
    auto result = body();
    if (result) {
      take(std::move(*result));
      return 0;
    }
    keep(result.error().reason.c_str());
  } catch (const std::bad_alloc&) {
    keep("out of memory");
  } catch (const std::exception& error) {
    keep(error.what());
  } catch (...) {
    keep("unknown exception");
  }
  return -1;
}

// The same without a value.
template <class Body>
int guarded(Body body) noexcept {
  return guarded(
      [&body]() -> Result<bool> {
        if (auto result = body(); !result) return tl::unexpected<Error>(result.error());
        return true;
      },
      [](bool) {});
}

// The same for functions that create an object: `body` returns a Result<std::unique_ptr<Object>>.
template <class Object, class Body>
Object* made(Body body) noexcept {
  Object* object = nullptr;
  static_cast<void>(guarded(body, [&object](auto owner) { object = owner.release(); }));
  return object;
}

}  // namespace cpprun::c

// --- the client functions of <cpprun/store.h> ------------------------------------------------

using cpprun::Duration;
using cpprun::failure;
using cpprun::Result;
using cpprun::c::guarded;

struct cpprun_store_client {
  cpprun::StoreClient client;
};

struct cpprun_store_list {
  std::vector<std::string> items;
};

namespace {

// Timeouts are capped at one year, well below the three hundred years that a Duration holds.
constexpr std::int64_t milliseconds_max = std::int64_t{366} * 24 * 3600 * 1000;

Duration duration_of(std::int64_t milliseconds) {
  return std::chrono::milliseconds(std::min(milliseconds, milliseconds_max));
}

std::optional<Duration> timeout_of(std::int64_t milliseconds) {
  if (milliseconds < 0) return std::nullopt;
  return duration_of(milliseconds);
}

// One call of the C interface, for error texts.
struct Call {
  const char* function;
  cpprun_store_client* client;
};

// An argument of the call, under its name in the header.
struct Argument {
  std::string name;
  const void* pointer;
};

std::string is_null(const Call& call, const std::string& argument) {
  return cpprun::c::null_pointer_text(call.function, argument);
}

// Throws if the pointer is null; guarded() turns that into a failure.
std::string_view bytes(const Call& call, const Argument& value, std::size_t size) {
  if (size == 0) return "";
  if (value.pointer == nullptr) throw std::invalid_argument(is_null(call, value.name));
  return {static_cast<const char*>(value.pointer), size};
}

std::vector<std::string> keys_of(const Call& call, const char* const* keys, std::size_t count) {
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < count; ++at) {
    const std::string name = "keys[" + std::to_string(at) + "]";
    if (keys[at] == nullptr) throw std::invalid_argument(is_null(call, name));
    texts.emplace_back(keys[at]);
  }
  return texts;
}

// Calls `body` with the client, unless one of the `needed` pointers is null.
template <class Body>
auto with(const Call& call, Body body, std::initializer_list<Argument> needed)
    -> decltype(body(call.client->client)) {
  if (call.client == nullptr) return failure(is_null(call, "client"));
  for (const Argument& argument : needed) {
    if (argument.pointer == nullptr) return failure(is_null(call, argument.name));
  }
  return body(call.client->client);
}

// A pointer to an empty array may be null.
template <class Pointer>
const void* needed_for(std::size_t count, const Pointer* pointer) {
  return count == 0 ? "" : static_cast<const void*>(pointer);
}

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

Result<std::unique_ptr<cpprun_store_client>> connect(const cpprun_store_client_options* given) {
  if (given->size < sizeof(cpprun_store_client_options)) {
    return failure("cpprun_store_connect_with: options->size is " + std::to_string(given->size) +
                   "; set it to sizeof(cpprun_store_client_options)");
  }
  cpprun::StoreClientOptions options;
  if (given->host == nullptr) {
    return failure(
        cpprun::c::null_pointer_text("cpprun_store_connect_with", "the host of the options"));
  }
  options.host = given->host;
  options.port = given->port;
  if (given->connect_timeout_ms >= 0) {
    options.connect_timeout = duration_of(given->connect_timeout_ms);
  }
  if (given->timeout_ms >= 0) options.timeout = duration_of(given->timeout_ms);
  if (given->key_prefix != nullptr) options.key_prefix = given->key_prefix;
  Result<cpprun::StoreClient> client = cpprun::StoreClient::open(options);
  if (!client) return tl::unexpected<cpprun::Error>(client.error());
  return std::unique_ptr<cpprun_store_client>(new cpprun_store_client{std::move(*client)});
}

}  // namespace

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
  return client == nullptr || !client->client.broken().empty() ? 1 : 0;
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

struct cpprun_store_server {
  std::unique_ptr<cpprun::StoreServer> server;
  std::string address;
};

struct cpprun_store_service {
  std::unique_ptr<cpprun::StoreService> service;
  std::string address;
};

namespace {

// `given` is not null.
Result<cpprun::StoreServerOptions> read_options(const cpprun_store_server_options* given) {
  // A smaller size was never defined. A larger one comes from a newer header, whose additional
  // members are zero unless the caller uses them.
  if (given->size < sizeof(cpprun_store_server_options)) {
    return failure("cpprun_store_serve_with: options->size is " + std::to_string(given->size) +
                   "; set it to sizeof(cpprun_store_server_options)");
  }
  cpprun::StoreServerOptions options;
  if (given->host != nullptr) options.host = given->host;
  options.port = given->port;
  options.memory_bytes_max = given->memory_bytes_max;
  if (given->log != nullptr) {
    options.log = [log = given->log, user = given->log_user](const std::string& line) {
      log(user, line.c_str());
    };
  }
  return options;
}

// Creates a StoreServer or a StoreService, and keeps the text of its address.
template <class Handle, class Served>
Result<std::unique_ptr<Handle>> open(const cpprun_store_server_options* given) {
  Result<cpprun::StoreServerOptions> options = read_options(given);
  if (!options) return tl::unexpected<cpprun::Error>(options.error());
  Result<std::unique_ptr<Served>> served = Served::open(*options);
  if (!served) return tl::unexpected<cpprun::Error>(served.error());
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
  return cpprun::c::last_error().c_str();
}

std::string& cpprun::c::last_error() noexcept {
  thread_local std::string text;
  return text;
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

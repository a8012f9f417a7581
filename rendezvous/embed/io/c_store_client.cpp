// SPDX-License-Identifier: BSD-3-Clause
// The client's half of <cpprun/store.h>.

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/client/io/store_client.h"
#include "rendezvous/embed/io/c_guard.h"
#include "rendezvous/embed/io/public/store.h"

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

// Some three hundred years fit into a Duration; nobody means more than one.
constexpr std::int64_t milliseconds_max = std::int64_t{366} * 24 * 3600 * 1000;

Duration duration_of(std::int64_t milliseconds) {
  return std::chrono::milliseconds(std::min(milliseconds, milliseconds_max));
}

std::optional<Duration> timeout_of(std::int64_t milliseconds) {
  if (milliseconds < 0) return std::nullopt;
  return duration_of(milliseconds);
}

// Throws what guarded() turns into a failure.
std::string_view bytes(const void* value, std::size_t size) {
  if (size == 0) return "";
  if (value == nullptr)
    throw std::invalid_argument("cannot ask a store: a value is a null pointer");
  return {static_cast<const char*>(value), size};
}

std::vector<std::string> keys_of(const char* const* keys, std::size_t count) {
  if (std::find(keys, keys + count, nullptr) != keys + count) {
    throw std::invalid_argument("cannot ask a store: a key is a null pointer");
  }
  return {keys, keys + count};
}

// Calls `body` with the client, unless one of the pointers it needs is null.
template <class... Pointers, class Body>
auto with(cpprun_store_client* client, Body body, const Pointers*... needed)
    -> decltype(body(client->client)) {
  if (client == nullptr) return failure("cannot ask a store: the client is a null pointer");
  if (((needed == nullptr) || ...))
    return failure("cannot ask a store: an argument is a null pointer");
  return body(client->client);
}

// A copy of its own, with a NUL behind it; malloc, because free() is what other languages have.
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
  if (given == nullptr) return failure("cannot reach a store: the options are a null pointer");
  if (given->size < sizeof(cpprun_store_client_options)) {
    return failure("cannot reach a store: the options say a size of " +
                   std::to_string(given->size) + ", set it to sizeof(cpprun_store_client_options)");
  }
  cpprun::StoreClientOptions options;
  if (given->host != nullptr) options.host = given->host;
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
  cpprun_store_client_options options{};
  options.size = sizeof options;
  options.host = host;
  options.port = port;
  options.connect_timeout_ms = timeout_ms;
  options.timeout_ms = -1;
  return cpprun_store_connect_with(&options);
}

cpprun_store_client* cpprun_store_connect_with(const cpprun_store_client_options* options) {
  return cpprun::c::made<cpprun_store_client>([options] { return connect(options); });
}

void cpprun_store_disconnect(cpprun_store_client* client) {
  const std::unique_ptr<cpprun_store_client> ends_here(client);
}

int cpprun_store_is_broken(const cpprun_store_client* client) {
  return client == nullptr || !client->client.broken().empty() ? 1 : 0;
}

// --- sent and not answered -----------------------------------------------------------------------

int cpprun_store_set(cpprun_store_client* client, const char* key, const void* value,
                     size_t value_size) {
  return guarded([&] {
    return with(
        client, [&](auto& store) { return store.set(key, bytes(value, value_size)); }, key);
  });
}

int cpprun_store_append(cpprun_store_client* client, const char* key, const void* value,
                        size_t value_size) {
  return guarded([&] {
    return with(
        client, [&](auto& store) { return store.append(key, bytes(value, value_size)); }, key);
  });
}

int cpprun_store_multi_set(cpprun_store_client* client, size_t count, const char* const* keys,
                           const void* const* values, const size_t* value_sizes) {
  return guarded([&] {
    return with(
        client,
        [&](auto& store) {
          std::vector<std::pair<std::string, std::string>> entries;
          const std::vector<std::string> names = keys_of(keys, count);
          for (std::size_t at = 0; at < count; ++at) {
            entries.emplace_back(names[at], bytes(values[at], value_sizes[at]));
          }
          return store.multi_set(entries);
        },
        keys, values, value_sizes);
  });
}

int cpprun_store_queue_push(cpprun_store_client* client, const char* key, const void* value,
                            size_t value_size) {
  return guarded([&] {
    return with(
        client, [&](auto& store) { return store.queue_push(key, bytes(value, value_size)); }, key);
  });
}

// --- answered ------------------------------------------------------------------------------------

int cpprun_store_get(cpprun_store_client* client, const char* key, int64_t timeout_ms, char** value,
                     size_t* value_size) {
  empty(value, value_size);
  return guarded(
      [&] {
        return with(
            client, [&](auto& store) { return store.get(key, timeout_of(timeout_ms)); }, key, value,
            value_size);
      },
      [&](const std::string& text) { hand_out(text, value, value_size); });
}

int cpprun_store_find(cpprun_store_client* client, const char* key, char** value,
                      size_t* value_size) {
  empty(value, value_size);
  return guarded(
      [&] {
        return with(
            client, [&](auto& store) { return store.find(key); }, key, value, value_size);
      },
      [&](const std::optional<std::string>& text) {
        if (text) hand_out(*text, value, value_size);
      });
}

int cpprun_store_add(cpprun_store_client* client, const char* key, int64_t delta, int64_t* sum) {
  return guarded(
      [&] {
        return with(
            client, [&](auto& store) { return store.add(key, delta); }, key, sum);
      },
      [sum](std::int64_t now) { *sum = now; });
}

int cpprun_store_compare_set(cpprun_store_client* client, const char* key, const void* expected,
                             size_t expected_size, const void* desired, size_t desired_size,
                             char** value, size_t* value_size) {
  empty(value, value_size);
  return guarded(
      [&] {
        return with(
            client,
            [&](auto& store) {
              return store.compare_set(key, bytes(expected, expected_size),
                                       bytes(desired, desired_size));
            },
            key, value, value_size);
      },
      [&](const std::string& text) { hand_out(text, value, value_size); });
}

int cpprun_store_check(cpprun_store_client* client, const char* const* keys, size_t count,
                       int* exist) {
  return guarded(
      [&] {
        return with(
            client, [&](auto& store) { return store.check(keys_of(keys, count)); }, keys, exist);
      },
      [exist](bool all) { *exist = all ? 1 : 0; });
}

int cpprun_store_wait(cpprun_store_client* client, const char* const* keys, size_t count,
                      int64_t timeout_ms) {
  return guarded([&] {
    return with(
        client,
        [&](auto& store) { return store.wait(keys_of(keys, count), timeout_of(timeout_ms)); },
        keys);
  });
}

int cpprun_store_barrier(cpprun_store_client* client, const char* key, int64_t world_size,
                         int64_t timeout_ms) {
  return guarded([&] {
    return with(
        client, [&](auto& store) { return store.barrier(key, world_size, timeout_of(timeout_ms)); },
        key);
  });
}

int cpprun_store_delete_key(cpprun_store_client* client, const char* key, int* existed) {
  return guarded(
      [&] {
        return with(
            client, [&](auto& store) { return store.delete_key(key); }, key);
      },
      [existed](bool was_there) {
        if (existed != nullptr) *existed = was_there ? 1 : 0;
      });
}

int cpprun_store_num_keys(cpprun_store_client* client, int64_t* count) {
  return guarded(
      [&] {
        return with(
            client, [&](auto& store) { return store.num_keys(); }, count);
      },
      [count](std::int64_t keys) { *count = keys; });
}

int cpprun_store_queue_pop(cpprun_store_client* client, const char* key, char** value,
                           size_t* value_size) {
  empty(value, value_size);
  return guarded(
      [&] {
        return with(
            client, [&](auto& store) { return store.queue_pop(key); }, key, value, value_size);
      },
      [&](const std::optional<std::string>& text) {
        if (text) hand_out(*text, value, value_size);
      });
}

int cpprun_store_queue_length(cpprun_store_client* client, const char* key, int64_t* length) {
  return guarded(
      [&] {
        return with(
            client, [&](auto& store) { return store.queue_length(key); }, key, length);
      },
      [length](std::int64_t entries) { *length = entries; });
}

// --- lists ---------------------------------------------------------------------------------------

int cpprun_store_multi_get(cpprun_store_client* client, const char* const* keys, size_t count,
                           cpprun_store_list** values) {
  if (values != nullptr) *values = nullptr;
  return guarded(
      [&] {
        return with(
            client, [&](auto& store) { return store.multi_get(keys_of(keys, count)); }, keys,
            values);
      },
      [values](auto texts) { *values = new cpprun_store_list{std::move(texts)}; });
}

int cpprun_store_list_keys(cpprun_store_client* client, cpprun_store_list** keys) {
  if (keys != nullptr) *keys = nullptr;
  return guarded(
      [&] {
        return with(
            client, [&](auto& store) { return store.list_keys(); }, keys);
      },
      [keys](auto texts) { *keys = new cpprun_store_list{std::move(texts)}; });
}

void cpprun_store_free(void* value) {
  std::free(value);
}

size_t cpprun_store_list_count(const cpprun_store_list* list) {
  return list == nullptr ? 0 : list->items.size();
}

const char* cpprun_store_list_item(const cpprun_store_list* list, size_t index, size_t* item_size) {
  if (item_size != nullptr) *item_size = 0;
  if (list == nullptr || index >= list->items.size()) return nullptr;
  if (item_size != nullptr) *item_size = list->items[index].size();
  return list->items[index].c_str();
}

void cpprun_store_list_free(cpprun_store_list* list) {
  const std::unique_ptr<cpprun_store_list> ends_here(list);
}

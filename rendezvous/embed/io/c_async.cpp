// SPDX-License-Identifier: BSD-3-Clause
// The asynchronous client of <cpprun/store.h>.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "rendezvous/client/bounds.h"
#include "rendezvous/client/io/async_store_client.h"
#include "rendezvous/embed/io/c_call.h"
#include "rendezvous/embed/io/public/store.h"

using cpprun::AsyncStoreClient;
using cpprun::AsyncValue;
using cpprun::failure;
using cpprun::StoreResult;
using cpprun::c::bytes;
using cpprun::c::Call;
using cpprun::c::Code;
using cpprun::c::guarded;
using cpprun::c::keys_of;
using cpprun::c::needed_for;
using cpprun::c::timeout_of;
using cpprun::c::with;

static_assert(CPPRUN_STORE_ASYNC_REQUESTS_MAX == cpprun::bounds::async_requests_max);

struct cpprun_store_async {
  std::shared_ptr<AsyncStoreClient> client;
  bool is_closing = false;
};

namespace {

using Id = cpprun::AsyncRequestId;

AsyncStoreClient::Done callback(cpprun_store_done done, void* user) {
  if (done == nullptr) return {};
  return [done, user](Id request, const StoreResult<AsyncValue>& result) {
    cpprun_store_reply reply{};
    reply.size = sizeof reply;
    reply.request = request;
    reply.error = "";
    if (!result) {
      reply.code = static_cast<int>(result.error().code);
      reply.error = result.error().reason.c_str();
    } else {
      reply.number = result->number;
      if (result->text) {
        reply.value = result->text->c_str();
        reply.value_size = result->text->size();
      }
    }
    done(user, &reply);
  };
}

// The number of the request that `body` starts, or 0 with an error.
template <class Body>
std::uint64_t started(Body body) noexcept {
  std::uint64_t number = 0;
  static_cast<void>(guarded(body, [&number](Id id) { number = id; }));
  return number;
}

}  // namespace

cpprun_store_async* cpprun_store_async_open(const cpprun_store_client_options* options) {
  if (!cpprun::c::is_given(__func__, "options", options)) return nullptr;
  return cpprun::c::made<cpprun_store_async>(
      [&, function = __func__]() -> StoreResult<std::unique_ptr<cpprun_store_async>> {
        cpprun_store_client_options given{};
        const auto own = cpprun::c::read_client_options(function, options, given);
        if (!own) return tl::unexpected(own.error());
        AsyncStoreClient::Connect connect;
        if (cpprun::OpenStore* const local = cpprun::c::store_of(given)) {
          connect = [store = local->shared_from_this()] { return store->transport(); };
        }
        auto client = AsyncStoreClient::open(*own, std::move(connect));
        if (!client) return tl::unexpected(std::move(client.error()));
        return std::unique_ptr<cpprun_store_async>(new cpprun_store_async{std::move(*client)});
      });
}

int cpprun_store_async_descriptor(const cpprun_store_async* client) {
  return !cpprun::c::is_given(__func__, "client", client) ? -1 : client->client->descriptor();
}

void cpprun_store_async_dispatch(cpprun_store_async* client) {
  if (!cpprun::c::is_given(__func__, "client", client)) return;
  static_cast<void>(guarded([&]() -> StoreResult<void> {
    client->client->dispatch();
    return {};
  }));
}

size_t cpprun_store_async_in_progress(const cpprun_store_async* client) {
  return !cpprun::c::is_given(__func__, "client", client) ? 0 : client->client->in_progress();
}

int cpprun_store_async_is_broken(const cpprun_store_async* client) {
  return !cpprun::c::is_given(__func__, "client", client) || client->client->is_broken() ? 1 : 0;
}

uint64_t cpprun_store_async_set(cpprun_store_async* client, const char* key, const void* value,
                                size_t value_size, int64_t timeout_ms, cpprun_store_done done,
                                void* user) {
  const Call call{__func__, client};
  return started([&] {
    return with(call,
                [&](auto& store) {
                  return store->set(key, bytes(call, {"value", value}, value_size),
                                    timeout_of(timeout_ms), callback(done, user));
                },
                {{"key", key}});
  });
}

uint64_t cpprun_store_async_get(cpprun_store_async* client, const char* key, int64_t timeout_ms,
                                cpprun_store_done done, void* user) {
  const Call call{__func__, client};
  return started([&] {
    return with(
        call,
        [&](auto& store) { return store->get(key, timeout_of(timeout_ms), callback(done, user)); },
        {{"key", key}});
  });
}

uint64_t cpprun_store_async_find(cpprun_store_async* client, const char* key, int64_t timeout_ms,
                                 cpprun_store_done done, void* user) {
  const Call call{__func__, client};
  return started([&] {
    return with(
        call,
        [&](auto& store) { return store->find(key, timeout_of(timeout_ms), callback(done, user)); },
        {{"key", key}});
  });
}

uint64_t cpprun_store_async_add(cpprun_store_async* client, const char* key, int64_t delta,
                                int64_t timeout_ms, cpprun_store_done done, void* user) {
  const Call call{__func__, client};
  return started([&] {
    return with(call,
                [&](auto& store) {
                  return store->add(key, delta, timeout_of(timeout_ms), callback(done, user));
                },
                {{"key", key}});
  });
}

uint64_t cpprun_store_async_compare_set(cpprun_store_async* client, const char* key,
                                        const void* expected, size_t expected_size,
                                        const void* desired, size_t desired_size,
                                        int64_t timeout_ms, cpprun_store_done done, void* user) {
  const Call call{__func__, client};
  return started([&] {
    return with(call,
                [&](auto& store) {
                  return store->compare_set(key, bytes(call, {"expected", expected}, expected_size),
                                            bytes(call, {"desired", desired}, desired_size),
                                            timeout_of(timeout_ms), callback(done, user));
                },
                {{"key", key}});
  });
}

uint64_t cpprun_store_async_delete_key(cpprun_store_async* client, const char* key,
                                       int64_t timeout_ms, cpprun_store_done done, void* user) {
  const Call call{__func__, client};
  return started([&] {
    return with(call,
                [&](auto& store) {
                  return store->delete_key(key, timeout_of(timeout_ms), callback(done, user));
                },
                {{"key", key}});
  });
}

uint64_t cpprun_store_async_wait(cpprun_store_async* client, const char* const* keys, size_t count,
                                 int64_t timeout_ms, cpprun_store_done done, void* user) {
  const Call call{__func__, client};
  return started([&] {
    return with(call,
                [&](auto& store) {
                  return store->wait(keys_of(call, keys, count), timeout_of(timeout_ms),
                                     callback(done, user));
                },
                {{"keys", needed_for(count, keys)}});
  });
}

uint64_t cpprun_store_async_barrier(cpprun_store_async* client, const char* key, int64_t world_size,
                                    int64_t timeout_ms, cpprun_store_done done, void* user) {
  const Call call{__func__, client};
  return started([&] {
    return with(call,
                [&](auto& store) {
                  return store->barrier(key, world_size, timeout_of(timeout_ms),
                                        callback(done, user));
                },
                {{"key", key}});
  });
}

uint64_t cpprun_store_async_watch(cpprun_store_async* client, const char* prefix,
                                  void (*watcher)(void* user, int change, const char* key,
                                                  size_t key_size, const char* value,
                                                  size_t value_size),
                                  cpprun_store_done done, void* user) {
  const Call call{__func__, client};
  return started([&] {
    return with(call,
                [&](auto& store) {
                  return store->watch(
                      prefix == nullptr ? "" : prefix,
                      [watcher, user](cpprun::StoreChange change, const std::string& key,
                                      const std::string& value) {
                        watcher(user, static_cast<int>(change), key.c_str(), key.size(),
                                value.c_str(), value.size());
                      },
                      callback(done, user));
                },
                {{"watcher", watcher == nullptr ? nullptr : ""}});
  });
}

int cpprun_store_async_cancel(cpprun_store_async* client, uint64_t request) {
  if (!cpprun::c::is_given(__func__, "client", client)) return 0;
  bool was_in_progress = false;
  static_cast<void>(guarded([&]() -> StoreResult<void> {
    was_in_progress = client->client->cancel(request);
    return {};
  }));
  return was_in_progress ? 1 : 0;
}

void cpprun_store_async_close(cpprun_store_async* client) {
  // A callback that the close makes may close the client, too; the outer call frees it.
  if (client == nullptr || std::exchange(client->is_closing, true)) return;
  const std::unique_ptr<cpprun_store_async> ends_here(client);
  static_cast<void>(guarded([&]() -> StoreResult<void> {
    ends_here->client->close();
    return {};
  }));
}

// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/client/io/store_client.h"

#include <poll.h>

#include <cerrno>

#include "proto/text.h"
#include "rendezvous/io/socket_address.h"

namespace cpprun {
namespace {

// Keeps what an answer says until the waiting loop looks.
template <class T>
auto into(std::optional<Result<T>>& slot) {
  return [&slot](Result<T> result) { slot = std::move(result); };
}

}  // namespace

StoreClient::StoreClient(std::unique_ptr<AsyncStoreClient> client, Duration timeout)
    : client_(std::move(client)), timeout_(timeout) {}

Result<StoreClient> StoreClient::open(const StoreClientOptions& options) {
  Result<std::unique_ptr<AsyncStoreClient>> client = AsyncStoreClient::open(options);
  if (!client) return tl::unexpected<Error>(client.error());
  return StoreClient(std::move(*client), options.timeout);
}

const std::string& StoreClient::broken() const {
  return client_->broken();
}

template <class T>
Result<T> StoreClient::await(std::optional<Result<T>>& slot) {
  client_->write();
  while (!slot) {
    pollfd watched{client_->descriptor(), client_->wanted_events(), 0};
    // Every request has a deadline, at which the client fills the slot with a failure.
    if (poll(&watched, 1, client_->next_wait_ms()) < 0 && errno != EINTR) {
      return failure("cannot wait for the store: " + errno_text(errno));
    }
    client_->serve();
  }
  return std::move(*slot);
}

// Sends what has no answer. Blocks only while the kernel takes nothing.
Result<void> StoreClient::written() {
  client_->write();
  while (client_->broken().empty() && (client_->wanted_events() & POLLOUT) != 0) {
    pollfd watched{client_->descriptor(), POLLOUT, 0};
    const auto patience = std::chrono::ceil<std::chrono::milliseconds>(timeout_).count();
    const int count = poll(&watched, 1, static_cast<int>(patience));
    if (count == 0) return failure("the store takes nothing");
    if (count < 0 && errno != EINTR) return failure("cannot write: " + errno_text(errno));
    client_->write();
  }
  if (!client_->broken().empty()) return failure(client_->broken());
  return {};
}

Result<void> StoreClient::set(std::string_view key, std::string_view value) {
  client_->set(key, value);
  return written();
}

Result<void> StoreClient::append(std::string_view key, std::string_view data) {
  client_->append(key, data);
  return written();
}

Result<void> StoreClient::multi_set(
    const std::vector<std::pair<std::string, std::string>>& entries) {
  client_->multi_set(entries);
  return written();
}

Result<void> StoreClient::queue_push(std::string_view key, std::string_view value) {
  client_->queue_push(key, value);
  return written();
}

Result<std::string> StoreClient::get(std::string_view key, std::optional<Duration> timeout) {
  std::optional<Result<std::string>> slot;
  client_->get(key, timeout.value_or(timeout_), into(slot));
  return await(slot);
}

Result<std::optional<std::string>> StoreClient::find(std::string_view key) {
  std::optional<Result<std::optional<std::string>>> slot;
  client_->find(key, into(slot));
  return await(slot);
}

Result<std::int64_t> StoreClient::add(std::string_view key, std::int64_t delta) {
  std::optional<Result<std::int64_t>> slot;
  client_->add(key, delta, into(slot));
  return await(slot);
}

Result<std::string> StoreClient::compare_set(std::string_view key, std::string_view expected,
                                             std::string_view desired) {
  std::optional<Result<std::string>> slot;
  client_->compare_set(key, expected, desired, into(slot));
  return await(slot);
}

Result<bool> StoreClient::check(const std::vector<std::string>& keys) {
  std::optional<Result<bool>> slot;
  client_->check(keys, into(slot));
  return await(slot);
}

Result<void> StoreClient::wait(const std::vector<std::string>& keys,
                               std::optional<Duration> timeout) {
  std::optional<Result<void>> slot;
  client_->wait(keys, timeout.value_or(timeout_), into(slot));
  return await(slot);
}

Result<void> StoreClient::barrier(std::string_view key, std::int64_t world_size,
                                  std::optional<Duration> timeout) {
  std::optional<Result<void>> slot;
  client_->barrier(key, world_size, timeout.value_or(timeout_), into(slot));
  return await(slot);
}

Result<bool> StoreClient::delete_key(std::string_view key) {
  std::optional<Result<bool>> slot;
  client_->delete_key(key, into(slot));
  return await(slot);
}

Result<std::int64_t> StoreClient::num_keys() {
  std::optional<Result<std::int64_t>> slot;
  client_->num_keys(into(slot));
  return await(slot);
}

Result<std::vector<std::string>> StoreClient::multi_get(const std::vector<std::string>& keys) {
  std::optional<Result<std::vector<std::string>>> slot;
  client_->multi_get(keys, into(slot));
  return await(slot);
}

Result<std::optional<std::string>> StoreClient::queue_pop(std::string_view key) {
  std::optional<Result<std::optional<std::string>>> slot;
  client_->queue_pop(key, into(slot));
  return await(slot);
}

Result<std::int64_t> StoreClient::queue_length(std::string_view key) {
  std::optional<Result<std::int64_t>> slot;
  client_->queue_length(key, into(slot));
  return await(slot);
}

Result<std::vector<std::string>> StoreClient::list_keys() {
  std::optional<Result<std::vector<std::string>>> slot;
  client_->list_keys(into(slot));
  return await(slot);
}

}  // namespace cpprun

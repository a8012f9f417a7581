// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/client/io/store_client.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "proto/text.h"
#include "rendezvous/client/io/store_connection.h"
#include "rendezvous/io/socket_address.h"

namespace cpprun {

class AsyncStoreClient::Impl : public StoreExchange {
 public:
  using StoreExchange::StoreExchange;

  std::string full(std::string_view key) const { return options().key_prefix + std::string(key); }
  std::vector<std::string> full(const std::vector<std::string>& keys) const {
    std::vector<std::string> all;
    for (const std::string& key : keys) all.push_back(full(key));
    return all;
  }
  // Sends a request that gets no reply.
  void tell(const c10d::Request& request) {
    ask(request, "", options().timeout, [](const Result<c10d::Reply>&) {});
  }
  // Sends a request that gets a reply, with the default timeout.
  void ask_soon(const c10d::Request& request, std::string what, Answered answered) {
    ask(request, std::move(what), options().timeout, std::move(answered));
  }
};

namespace {

std::vector<c10d::Bytes> views(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

// For error messages. A wait may name a hundred thousand keys.
std::string names_of(const std::vector<std::string>& keys) {
  constexpr std::size_t shown_max = 5;
  const auto end = keys.begin() + static_cast<std::ptrdiff_t>(std::min(keys.size(), shown_max));
  const std::string shown = fmt::format("{}", fmt::join(keys.begin(), end, ", "));
  if (keys.size() <= shown_max) return shown;
  return fmt::format("{} and {} more", shown, keys.size() - shown_max);
}

// Converts the reply to a T, and passes failures on.
template <class T, class Convert>
auto converted(AsyncStoreClient::Done<T> done, Convert convert) {
  return [done = std::move(done), convert](const Result<c10d::Reply>& reply) {
    if (!reply) return done(tl::unexpected<Error>(reply.error()));
    done(convert(*reply));
  };
}

auto without_value(AsyncStoreClient::Done<void> done) {
  return [done = std::move(done)](const Result<c10d::Reply>& reply) {
    if (!reply) return done(tl::unexpected<Error>(reply.error()));
    done({});
  };
}

std::int64_t to_number(const c10d::Reply& reply) {
  return std::get<c10d::Number>(reply).number;
}
bool to_flag(const c10d::Reply& reply) {
  return std::get<c10d::Checked>(reply).ready;
}
std::string to_text(const c10d::Reply& reply) {
  return std::string(std::get<c10d::Value>(reply).value);
}

}  // namespace

// --- opening and driving -------------------------------------------------------------------------

AsyncStoreClient::AsyncStoreClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AsyncStoreClient::~AsyncStoreClient() = default;

Result<std::unique_ptr<AsyncStoreClient>> AsyncStoreClient::open(
    const StoreClientOptions& options) {
  Result<FileDescriptor> socket = dial_store(options.host, options.port, options.connect_timeout);
  if (!socket) return tl::unexpected<Error>(socket.error());
  return std::unique_ptr<AsyncStoreClient>(
      new AsyncStoreClient(std::make_unique<Impl>(options, std::move(*socket))));
}

int AsyncStoreClient::descriptor() const {
  return impl_->descriptor();
}
short AsyncStoreClient::wanted_events() const {
  return static_cast<short>(impl_->has_unwritten() ? POLLIN | POLLOUT : POLLIN);
}
int AsyncStoreClient::next_wait_ms() const {
  return impl_->next_wait_ms();
}
void AsyncStoreClient::serve() {
  impl_->serve();
}
void AsyncStoreClient::write() {
  impl_->write();
}
const std::string& AsyncStoreClient::broken() const {
  return impl_->broken();
}

// --- requests without a reply --------------------------------------------------------------------

void AsyncStoreClient::set(std::string_view key, std::string_view value) {
  impl_->tell(c10d::Set{impl_->full(key), value});
}

void AsyncStoreClient::append(std::string_view key, std::string_view data) {
  impl_->tell(c10d::Append{impl_->full(key), data});
}

void AsyncStoreClient::multi_set(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : entries) keys.push_back(impl_->full(key));
  std::vector<c10d::KeyValue> pairs;
  for (std::size_t at = 0; at < entries.size(); ++at) {
    pairs.push_back({keys[at], entries[at].second});
  }
  impl_->tell(c10d::MultiSet{pairs});
}

void AsyncStoreClient::queue_push(std::string_view key, std::string_view value) {
  impl_->tell(c10d::QueuePush{impl_->full(key), value});
}

// --- requests with a reply -----------------------------------------------------------------------

void AsyncStoreClient::get(std::string_view key, Duration timeout, Done<std::string> done) {
  const std::string name = impl_->full(key);
  const c10d::Bytes names[] = {name};
  const std::string what = "GET of " + name;
  // CHECK and GET leave in one write. There is no WAIT before them, because the GET would cancel
  // it.
  const auto exists = std::make_shared<bool>(false);
  impl_->ask(c10d::Check{names}, what, timeout,
             [exists](const Result<c10d::Reply>& reply) { *exists = reply && to_flag(*reply); });
  const auto wait_then_get = [this, name, what, timeout, done] {
    const c10d::Bytes keys[] = {name};
    impl_->ask(c10d::Wait{keys}, "wait for " + name, timeout,
               [this, name, what, timeout, done](const Result<c10d::Reply>& reply) {
                 if (!reply) return done(tl::unexpected<Error>(reply.error()));
                 impl_->ask(c10d::Get{name}, what, timeout, converted(done, to_text));
               });
  };
  impl_->ask(c10d::Get{name}, what, timeout,
             [exists, wait_then_get, done](const Result<c10d::Reply>& reply) {
               if (!reply) return done(tl::unexpected<Error>(reply.error()));
               if (!*exists) return wait_then_get();
               done(to_text(*reply));
             });
}

void AsyncStoreClient::find(std::string_view key, Done<std::optional<std::string>> done) {
  const std::string name = impl_->full(key);
  const c10d::Bytes names[] = {name};
  const auto exists = std::make_shared<bool>(false);
  impl_->ask_soon(
      c10d::Check{names}, "CHECK of " + name,
      [exists](const Result<c10d::Reply>& reply) { *exists = reply && to_flag(*reply); });
  impl_->ask_soon(c10d::Get{name}, "GET of " + name,
                  converted(std::move(done), [exists](const c10d::Reply& reply) {
                    return *exists ? std::optional(to_text(reply)) : std::nullopt;
                  }));
}

void AsyncStoreClient::add(std::string_view key, std::int64_t delta, Done<std::int64_t> done) {
  const std::string name = impl_->full(key);
  impl_->ask_soon(c10d::Add{name, delta}, "ADD to " + name, converted(std::move(done), to_number));
}

void AsyncStoreClient::compare_set(std::string_view key, std::string_view expected,
                                   std::string_view desired, Done<std::string> done) {
  const std::string name = impl_->full(key);
  impl_->ask_soon(c10d::CompareSet{name, expected, desired}, "COMPARE_SET of " + name,
                  converted(std::move(done), to_text));
}

void AsyncStoreClient::check(const std::vector<std::string>& keys, Done<bool> done) {
  const std::vector<std::string> names = impl_->full(keys);
  impl_->ask_soon(c10d::Check{views(names)}, "CHECK of " + names_of(names),
                  converted(std::move(done), to_flag));
}

void AsyncStoreClient::wait(const std::vector<std::string>& keys, Duration timeout,
                            Done<void> done) {
  const std::vector<std::string> names = impl_->full(keys);
  impl_->ask(c10d::Wait{views(names)}, "wait for " + names_of(names), timeout,
             without_value(std::move(done)));
}

void AsyncStoreClient::barrier(std::string_view key, std::int64_t world_size, Duration timeout,
                               Done<void> done) {
  const std::string name = impl_->full(key);
  impl_->ask(c10d::Barrier{name, world_size}, "barrier " + name, timeout,
             without_value(std::move(done)));
}

void AsyncStoreClient::delete_key(std::string_view key, Done<bool> done) {
  const std::string name = impl_->full(key);
  impl_->ask_soon(
      c10d::DeleteKey{name}, "DELETE_KEY of " + name,
      converted(std::move(done), [](const c10d::Reply& reply) { return to_number(reply) > 0; }));
}

void AsyncStoreClient::num_keys(Done<std::int64_t> done) {
  impl_->ask_soon(c10d::GetNumKeys{}, "GETNUMKEYS", converted(std::move(done), to_number));
}

void AsyncStoreClient::multi_get(const std::vector<std::string>& keys,
                                 Done<std::vector<std::string>> done) {
  const std::vector<std::string> names = impl_->full(keys);
  impl_->ask_soon(c10d::MultiGet{views(names)}, "MULTI_GET of " + names_of(names),
                  converted(std::move(done), [](const c10d::Reply& reply) {
                    const auto values = std::get<c10d::Values>(reply).values;
                    return std::vector<std::string>(values.begin(), values.end());
                  }));
}

void AsyncStoreClient::queue_pop(std::string_view key, Done<std::optional<std::string>> done) {
  const std::string name = impl_->full(key);
  impl_->ask_soon(c10d::QueuePop{name}, "QUEUE_POP of " + name,
                  converted(std::move(done), [](const c10d::Reply& reply) {
                    const auto& popped = std::get<c10d::Popped>(reply);
                    return popped.length_before > 0 ? std::optional(std::string(popped.value))
                                                    : std::nullopt;
                  }));
}

void AsyncStoreClient::queue_length(std::string_view key, Done<std::int64_t> done) {
  const std::string name = impl_->full(key);
  impl_->ask_soon(c10d::QueueLen{name}, "QUEUE_LEN of " + name,
                  converted(std::move(done), to_number));
}

void AsyncStoreClient::list_keys(Done<std::vector<std::string>> done) {
  const std::string prefix = impl_->options().key_prefix;
  impl_->ask_soon(c10d::ListKeys{}, "LIST_KEYS",
                  converted(std::move(done), [prefix](const c10d::Reply& reply) {
                    std::vector<std::string> keys;
                    for (const c10d::Bytes key : std::get<c10d::Keys>(reply).keys) {
                      if (key.starts_with(prefix)) keys.emplace_back(key.substr(prefix.size()));
                    }
                    return keys;
                  }));
}

namespace {

// Stores a result for the loop that waits for it.
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

// Sends requests without a reply. Blocks only while the kernel's send buffer is full.
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

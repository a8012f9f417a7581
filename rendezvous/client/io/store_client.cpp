// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/client/io/store_client.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <type_traits>
#include <utility>

#include "proto/c10d/codec.h"
#include "proto/c10d/request.h"
#include "rendezvous/byte_buffer.h"
#include "rendezvous/client/bounds.h"
#include "rendezvous/client/io/store_transport.h"
#include "rendezvous/client/local_store.h"
#include "rendezvous/client/request_limits.h"
#include "rendezvous/io/owner_process.h"

namespace cpprun {

namespace {

using Clock = std::chrono::steady_clock;
using Code = StoreErrorCode;

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

// --- requests and replies ------------------------------------------------------------------------

// The connection: sends requests and reads their replies, in order, for one call at a time. In a
// fork of the process that opened it every request fails, because the two processes would read each
// other's replies.
class StoreClient::Connection {
 public:
  Connection(const StoreClientOptions& options, std::unique_ptr<StoreTransport> transport)
      : options_(options), transport_(std::move(transport)), local_(transport_->local()) {}

  std::string full(std::string_view key) const {
    std::string name;
    name.reserve(options_.key_prefix.size() + key.size());
    return name.append(options_.key_prefix).append(key);
  }
  std::vector<std::string> full(const std::vector<std::string>& keys) const {
    std::vector<std::string> all;
    for (const std::string& key : keys) all.push_back(full(key));
    return all;
  }
  const StoreClientOptions& options() const { return options_; }

  // One call: waits until no other call uses the connection, and passes the deadline of both waits
  // to `body`.
  template <class Body>
  auto call(std::optional<Duration> timeout, Body body) -> std::invoke_result_t<Body, TimePoint>;
  template <class Body>
  auto call(Body body) {
    return call(std::nullopt, body);
  }

  // --- within a call ---
  // A request without a reply. Blocks only while the kernel's send buffer is full.
  StoreResult<void> tell(const c10d::Request& request, TimePoint deadline);
  // A request with a reply, which `convert` turns into the result. `what` is for the error: "no
  // response from the store to <what>".
  template <class Convert>
  auto ask(const c10d::Request& request, const std::string& what, TimePoint deadline,
           Convert convert) -> StoreResult<decltype(convert(c10d::Reply{}))>;
  // A request that may wait for its reply for long; it is cancelled at the deadline.
  StoreResult<void> wait(const c10d::Request& request, const std::string& what, TimePoint deadline);
  // The value, if the key exists.
  StoreResult<std::optional<std::string>> find(const std::string& name, const std::string& what,
                                               TimePoint deadline);

  // --- at any time, in any thread ---
  // Looks the key up without a request, if the store is in this process and not busy.
  bool find_now(const std::string& name, std::optional<std::string>& value) const {
    return local_ != nullptr && !is_broken() && local_->find(name, value);
  }
  StoreResult<LocalStore*> local() const;
  bool is_broken() const { return is_broken_ || is_interrupted_ || !owner_.is_this(); }
  void interrupt() noexcept {
    if (!owner_.is_this()) return;
    is_interrupted_ = true;
    transport_->interrupt();
  }

 private:
  // A reply that a call did not wait for, because its time was over.
  struct Owed {
    c10d::Expected expected;
    bool is_cancellation = false;  // the reply to the wait itself may come before it
  };

  // Lets one call at a time use the connection. A thread that waits here owns it, too, because a
  // fork must not destroy the condition variable with a waiter. Not a timed mutex, which thread
  // sanitizers do not know.
  struct Gate {
    std::mutex mutex;
    std::condition_variable opened;
    bool is_closed = false;
  };
  class Passage {
   public:
    explicit Passage(Gate& gate) : gate_(gate) {}
    ~Passage() {
      {
        const std::lock_guard lock(gate_.mutex);
        gate_.is_closed = false;
      }
      gate_.opened.notify_one();
    }
    Passage(const Passage&) = delete;
    Passage& operator=(const Passage&) = delete;

   private:
    Gate& gate_;
  };
  bool pass_gate(TimePoint deadline);
  StoreResult<std::optional<std::string>> look(const std::string& name, const std::string& what,
                                               TimePoint deadline);

  static tl::unexpected<StoreError> forked();
  StoreResult<void> prepare(TimePoint deadline);
  void drop_reply() { inbox_.drop_front(std::exchange(taken_, 0)); }
  StoreResult<void> queue(const c10d::Request& request);
  StoreResult<void> send(TimePoint deadline);
  StoreResult<void> receive(TimePoint deadline);
  StoreResult<c10d::Reply> reply_by(const c10d::Expected& expected, TimePoint deadline);
  StoreResult<c10d::Reply> reply_to(const c10d::Request& request, const std::string& what,
                                    TimePoint deadline);
  tl::unexpected<StoreError> fail(StoreError error);

  StoreClientOptions options_;
  std::unique_ptr<StoreTransport> transport_;
  LocalStore* const local_;
  const OwnerProcess owner_;
  std::atomic<bool> is_broken_ = false;
  std::atomic<bool> is_interrupted_ = false;

  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();

  // --- used by one call at a time ---
  StoreError broken_;  // if is_broken_
  ByteBuffer outbox_;
  ByteBuffer inbox_;
  std::size_t taken_ = 0;  // bytes of the last reply, which are dropped before the next
  std::deque<Owed> owed_;  // replies that come before those to later requests
  c10d::ReplyDecoder decoder_;
};

// The first failure of the connection is that of all later calls.
tl::unexpected<StoreError> StoreClient::Connection::fail(StoreError error) {
  if (!is_broken_) {
    broken_ = is_interrupted_ ? StoreError{{"the client was interrupted"}, Code::interrupted}
                              : std::move(error);
    is_broken_ = true;
    outbox_.clear();
  }
  return tl::unexpected(broken_);
}

tl::unexpected<StoreError> StoreClient::Connection::forked() {
  return failure(Code::forked,
                 "the parent process opened this connection before a fork; open another one in the "
                 "forked process");
}

StoreResult<LocalStore*> StoreClient::Connection::local() const {
  if (!owner_.is_this()) return forked();
  if (local_ != nullptr) return local_;
  return failure(Code::bad_argument, "the store of this client is not in this process");
}

bool StoreClient::Connection::pass_gate(TimePoint deadline) {
  const std::shared_ptr<Gate> gate = gate_;
  std::unique_lock lock(gate->mutex);
  if (!gate->opened.wait_until(lock, deadline, [&gate] { return !gate->is_closed; })) return false;
  gate->is_closed = true;
  return true;
}

template <class Body>
auto StoreClient::Connection::call(std::optional<Duration> timeout, Body body)
    -> std::invoke_result_t<Body, TimePoint> {
  // Checked first: a fork may have copied the gate while another thread used it.
  if (!owner_.is_this()) return forked();
  if (local_ != nullptr) {
    if (auto usable = local_->usable(); !usable) return tl::unexpected(std::move(usable.error()));
  }
  const TimePoint deadline = Clock::now() + timeout.value_or(options_.timeout);
  if (!pass_gate(deadline)) {
    return failure(Code::timeout, "another thread's call on this client took too long");
  }
  const Passage passage(*gate_);
  try {
    if (auto ready = prepare(deadline); !ready) return tl::unexpected(std::move(ready.error()));
    return body(deadline);
  } catch (...) {
    // Which replies are still to come is unknown. This text needs no memory.
    static_cast<void>(fail({{"out of memory"}, Code::no_memory}));
    throw;
  }
}

// Called before every request: sends and reads what earlier calls had no time for.
StoreResult<void> StoreClient::Connection::prepare(TimePoint deadline) {
  drop_reply();
  if (is_broken_) return tl::unexpected(broken_);
  if (is_interrupted_) return fail({});
  if (auto sent = send(deadline); !sent) return sent;
  while (!owed_.empty()) {
    const Owed owed = owed_.front();
    const auto reply = reply_by(owed.expected, deadline);
    if (!reply) return tl::unexpected(reply.error());
    if (owed.is_cancellation && !std::get<c10d::Waited>(*reply).cancelled) continue;
    owed_.pop_front();
  }
  drop_reply();
  if (inbox_.empty()) return {};
  return fail({{"unexpected data from the store"}, Code::protocol});
}

StoreResult<void> StoreClient::Connection::queue(const c10d::Request& request) {
  if (auto objection = objection_to(request)) return tl::unexpected(std::move(*objection));
  std::string bytes;
  (void)c10d::encode(request, c10d::Dialect::d, bytes);  // dialect D has all requests
  outbox_.append(bytes);
  return {};
}

// Writes all that is queued. `timeout`: not before the deadline; any other failure is final.
StoreResult<void> StoreClient::Connection::send(TimePoint deadline) {
  while (!outbox_.empty()) {
    const auto count = transport_->send(outbox_.view(), deadline);
    if (count) {
      outbox_.drop_front(*count);
    } else {
      if (count.error().code != Code::timeout) return fail(count.error());
      return tl::unexpected(count.error());
    }
  }
  return {};
}

// Reads what arrives next. Failures as above.
StoreResult<void> StoreClient::Connection::receive(TimePoint deadline) {
  char* const at = inbox_.tail(bounds::store_read_bytes);
  const auto count = transport_->receive({at, bounds::store_read_bytes}, deadline);
  if (count) {
    inbox_.grow_by(*count);
    return {};
  }
  if (count.error().code != Code::timeout) return fail(count.error());
  return tl::unexpected(count.error());
}

// The next reply; its views are valid until the next call. Failures as above.
StoreResult<c10d::Reply> StoreClient::Connection::reply_by(const c10d::Expected& expected,
                                                           TimePoint deadline) {
  drop_reply();
  std::size_t needed = 1;
  while (true) {
    StoreResult<void> moved = send(deadline);
    if (moved && inbox_.size() < needed) moved = receive(deadline);
    if (!moved) return tl::unexpected(std::move(moved.error()));
    if (inbox_.size() < needed) continue;
    const c10d::DecodedReply decoded = decoder_.decode(inbox_.view(), expected);
    if (const auto* const more = std::get_if<c10d::NeedMoreReply>(&decoded)) {
      needed = more->size;
    } else if (const auto* const malformed = std::get_if<c10d::MalformedReply>(&decoded)) {
      return fail({{"invalid reply from the store: " + malformed->reason}, Code::protocol});
    } else {
      const auto& complete = std::get<c10d::CompleteReply>(decoded);
      taken_ = complete.size;
      return complete.reply;
    }
  }
}

// At the deadline the reply is left to the next call.
StoreResult<c10d::Reply> StoreClient::Connection::reply_to(const c10d::Request& request,
                                                           const std::string& what,
                                                           TimePoint deadline) {
  const c10d::Expected expected = c10d::expected_of(request);
  auto reply = reply_by(expected, deadline);
  if (reply || is_broken_) return reply;
  owed_.push_back({expected});
  return failure(Code::timeout, "no response from the store to " + what);
}

// At the deadline the rest is left to the next call.
StoreResult<void> StoreClient::Connection::tell(const c10d::Request& request, TimePoint deadline) {
  if (auto queued = queue(request); !queued) return queued;
  auto sent = send(deadline);
  if (sent || is_broken_) return sent;
  return failure(Code::timeout, "the store does not read");
}

template <class Convert>
auto StoreClient::Connection::ask(const c10d::Request& request, const std::string& what,
                                  TimePoint deadline, Convert convert)
    -> StoreResult<decltype(convert(c10d::Reply{}))> {
  if (auto queued = queue(request); !queued) return tl::unexpected(std::move(queued.error()));
  const auto reply = reply_to(request, what, deadline);
  if (!reply) return tl::unexpected(reply.error());
  auto result = convert(*reply);
  drop_reply();
  return result;
}

// The reply to the cancellation is left to the next call.
StoreResult<void> StoreClient::Connection::wait(const c10d::Request& request,
                                                const std::string& what, TimePoint deadline) {
  if (auto queued = queue(request); !queued) return queued;
  const auto reply = reply_by(c10d::expected_of(request), deadline);
  if (reply) return {};
  if (is_broken_) return tl::unexpected(reply.error());
  owed_.push_back({.expected = c10d::expected_of(c10d::CancelWait{}), .is_cancellation = true});
  (void)queue(c10d::CancelWait{});
  (void)send(deadline);  // the next call sends what does not fit the kernel's buffer
  return failure(Code::timeout, what + " timed out");
}

// GET of a key that was deleted after the CHECK gets an empty value, too.
StoreResult<std::optional<std::string>> StoreClient::Connection::find(const std::string& name,
                                                                      const std::string& what,
                                                                      TimePoint deadline) {
  for (int looks = 1;; ++looks) {
    auto value = look(name, what, deadline);
    if (!value || !*value || !(*value)->empty() || looks == bounds::looks_at_empty_value) {
      return value;
    }
  }
}

// CHECK and GET leave in one write.
StoreResult<std::optional<std::string>> StoreClient::Connection::look(const std::string& name,
                                                                      const std::string& what,
                                                                      TimePoint deadline) {
  const c10d::Bytes names[] = {name};
  if (auto queued = queue(c10d::Check{names}); !queued) {
    return tl::unexpected(std::move(queued.error()));
  }
  (void)queue(c10d::Get{name});  // the same key
  const auto checked = reply_to(c10d::Check{names}, what, deadline);
  if (!checked) {
    owed_.push_back({c10d::expected_of(c10d::Get{name})});
    return tl::unexpected(checked.error());
  }
  const bool exists = to_flag(*checked);
  const auto got = reply_to(c10d::Get{name}, "GET of " + shown(name), deadline);
  if (!got) return tl::unexpected(got.error());
  auto value = exists ? std::optional(to_text(*got)) : std::nullopt;
  drop_reply();
  return value;
}

// --- the client ----------------------------------------------------------------------------------

StoreClient::StoreClient(std::unique_ptr<Connection> connection)
    : connection_(std::move(connection)) {}
StoreClient::~StoreClient() = default;
StoreClient::StoreClient(StoreClient&&) noexcept = default;
StoreClient& StoreClient::operator=(StoreClient&&) noexcept = default;

StoreResult<StoreClient> StoreClient::open(const StoreClientOptions& options) {
  auto transport =
      dial_store({options.host, options.port, options.make_cipher}, options.connect_timeout);
  if (!transport) return tl::unexpected(std::move(transport.error()));
  return over(std::move(*transport), options);
}

StoreClient StoreClient::over(std::unique_ptr<StoreTransport> transport,
                              const StoreClientOptions& options) {
  return StoreClient(std::make_unique<Connection>(options, std::move(transport)));
}

// What this client has sent before is decided first.
StoreResult<LocalStore*> StoreClient::local() {
  auto store = connection_->local();
  if (!store) return store;
  if (const auto keys = num_keys(); !keys) return tl::unexpected(keys.error());
  return store;
}

bool StoreClient::is_broken() const {
  return connection_->is_broken();
}

void StoreClient::interrupt() noexcept {
  connection_->interrupt();
}

StoreResult<void> StoreClient::set(std::string_view key, std::string_view value) {
  const std::string name = connection_->full(key);
  return connection_->call([&](TimePoint deadline) {
    return connection_->tell(c10d::Set{name, value}, deadline);
  });
}

StoreResult<void> StoreClient::append(std::string_view key, std::string_view data) {
  const std::string name = connection_->full(key);
  return connection_->call([&](TimePoint deadline) {
    return connection_->tell(c10d::Append{name, data}, deadline);
  });
}

StoreResult<void> StoreClient::multi_set(
    const std::vector<std::pair<std::string, std::string>>& entries) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : entries) keys.push_back(connection_->full(key));
  std::vector<c10d::KeyValue> pairs;
  for (std::size_t at = 0; at < entries.size(); ++at) {
    pairs.push_back({keys[at], entries[at].second});
  }
  return connection_->call(
      [&](TimePoint deadline) { return connection_->tell(c10d::MultiSet{pairs}, deadline); });
}

StoreResult<void> StoreClient::queue_push(std::string_view key, std::string_view value) {
  const std::string name = connection_->full(key);
  return connection_->call([&](TimePoint deadline) {
    return connection_->tell(c10d::QueuePush{name, value}, deadline);
  });
}

StoreResult<std::string> StoreClient::get(std::string_view key, std::optional<Duration> timeout) {
  const std::string name = connection_->full(key);
  if (std::optional<std::string> now; connection_->find_now(name, now) && now) {
    return *std::move(now);
  }
  return connection_->call(timeout, [&](TimePoint deadline) -> StoreResult<std::string> {
    const std::string what = "GET of " + shown(name);
    auto found = connection_->find(name, what, deadline);
    if (!found) return tl::unexpected(std::move(found.error()));
    if (*found) return **std::move(found);
    // No WAIT was sent before the first GET, because the GET would have cancelled it.
    const c10d::Bytes names[] = {name};
    auto waited = connection_->wait(c10d::Wait{names}, "wait for " + shown(name), deadline);
    if (!waited) return tl::unexpected(std::move(waited.error()));
    return connection_->ask(c10d::Get{name}, what, deadline, to_text);
  });
}

StoreResult<std::optional<std::string>> StoreClient::find(std::string_view key) {
  const std::string name = connection_->full(key);
  if (std::optional<std::string> now; connection_->find_now(name, now)) return now;
  return connection_->call([&](TimePoint deadline) {
    return connection_->find(name, "CHECK of " + shown(name), deadline);
  });
}

StoreResult<std::int64_t> StoreClient::add(std::string_view key, std::int64_t delta) {
  const std::string name = connection_->full(key);
  return connection_->call([&](TimePoint deadline) {
    return connection_->ask(c10d::Add{name, delta}, "ADD to " + shown(name), deadline, to_number);
  });
}

StoreResult<std::string> StoreClient::compare_set(std::string_view key, std::string_view expected,
                                                  std::string_view desired) {
  const std::string name = connection_->full(key);
  return connection_->call([&](TimePoint deadline) {
    return connection_->ask(c10d::CompareSet{name, expected, desired},
                            "COMPARE_SET of " + shown(name), deadline, to_text);
  });
}

StoreResult<bool> StoreClient::check(const std::vector<std::string>& keys) {
  const std::vector<std::string> names = connection_->full(keys);
  return connection_->call([&](TimePoint deadline) {
    return connection_->ask(c10d::Check{views(names)}, "CHECK of " + shown(names), deadline,
                            to_flag);
  });
}

StoreResult<void> StoreClient::wait(const std::vector<std::string>& keys,
                                    std::optional<Duration> timeout) {
  const std::vector<std::string> names = connection_->full(keys);
  return connection_->call(timeout, [&](TimePoint deadline) {
    return connection_->wait(c10d::Wait{views(names)}, "wait for " + shown(names), deadline);
  });
}

StoreResult<void> StoreClient::barrier(std::string_view key, std::int64_t world_size,
                                       std::optional<Duration> timeout) {
  const std::string name = connection_->full(key);
  return connection_->call(timeout, [&](TimePoint deadline) {
    return connection_->wait(c10d::Barrier{name, world_size}, "barrier " + shown(name), deadline);
  });
}

StoreResult<bool> StoreClient::delete_key(std::string_view key) {
  const std::string name = connection_->full(key);
  return connection_->call([&](TimePoint deadline) {
    return connection_->ask(c10d::DeleteKey{name}, "DELETE_KEY of " + shown(name), deadline,
                            [](const c10d::Reply& reply) { return to_number(reply) > 0; });
  });
}

StoreResult<std::int64_t> StoreClient::num_keys() {
  return connection_->call([&](TimePoint deadline) {
    return connection_->ask(c10d::GetNumKeys{}, "GETNUMKEYS", deadline, to_number);
  });
}

StoreResult<std::vector<std::string>> StoreClient::multi_get(const std::vector<std::string>& keys) {
  using Values = std::vector<std::string>;
  const std::vector<std::string> names = connection_->full(keys);
  return connection_->call([&](TimePoint deadline) -> StoreResult<Values> {
    if (names.empty()) return Values();  // its reply would be empty, too
    return connection_->ask(c10d::MultiGet{views(names)}, "MULTI_GET of " + shown(names), deadline,
                            [](const c10d::Reply& reply) {
                              const auto values = std::get<c10d::Values>(reply).values;
                              return Values(values.begin(), values.end());
                            });
  });
}

StoreResult<std::optional<std::string>> StoreClient::queue_pop(std::string_view key) {
  const std::string name = connection_->full(key);
  return connection_->call([&](TimePoint deadline) {
    return connection_->ask(
        c10d::QueuePop{name}, "QUEUE_POP of " + shown(name), deadline,
        [](const c10d::Reply& reply) {
          const auto& popped = std::get<c10d::Popped>(reply);
          return popped.length_before > 0 ? std::optional(std::string(popped.value)) : std::nullopt;
        });
  });
}

StoreResult<std::int64_t> StoreClient::queue_length(std::string_view key) {
  const std::string name = connection_->full(key);
  return connection_->call([&](TimePoint deadline) {
    return connection_->ask(c10d::QueueLen{name}, "QUEUE_LEN of " + shown(name), deadline,
                            to_number);
  });
}

StoreResult<std::vector<std::string>> StoreClient::list_keys() {
  const std::string& prefix = connection_->options().key_prefix;
  return connection_->call([&](TimePoint deadline) {
    return connection_->ask(c10d::ListKeys{}, "LIST_KEYS", deadline,
                            [&prefix](const c10d::Reply& reply) {
                              std::vector<std::string> keys;
                              for (const c10d::Bytes key : std::get<c10d::Keys>(reply).keys) {
                                if (!key.starts_with(prefix)) continue;
                                keys.emplace_back(key.substr(prefix.size()));
                              }
                              return keys;
                            });
  });
}

}  // namespace cpprun

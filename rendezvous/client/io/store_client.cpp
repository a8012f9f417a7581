// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/client/io/store_client.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "proto/c10d/codec.h"
#include "proto/c10d/request.h"
#include "proto/text.h"
#include "rendezvous/byte_buffer.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

// --- connecting ----------------------------------------------------------------------------------

namespace {

using Clock = std::chrono::steady_clock;
using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

int milliseconds_until(TimePoint deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000));
}

// Returns whether the descriptor is ready before the deadline.
bool await(int fd, short events, TimePoint deadline) {
  pollfd watched{fd, events, 0};
  while (true) {
    const int count = poll(&watched, 1, milliseconds_until(deadline));
    if (count > 0) return true;
    // A long wait takes several calls.
    if (count == 0 && Clock::now() >= deadline) return false;
    if (count < 0 && errno != EINTR) return false;
  }
}

Result<FileDescriptor> connect_to(const addrinfo& address, TimePoint deadline) {
  FileDescriptor fd(socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return failure(errno_text(errno));
  if (connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return failure(errno_text(errno));
    if (!await(fd.get(), POLLOUT, deadline)) return failure("no response");
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error != 0) return failure(errno_text(error));
  }
  const int on = 1;
  // Optional: without it everything works, but slower.
  (void)setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

// Sends VALIDATE and PING. Only a store sends the number back.
Result<void> shake_hands(int fd, TimePoint deadline) {
  const auto nonce = static_cast<std::uint32_t>(getpid());
  std::string hello;
  (void)c10d::encode(c10d::Validate{}, c10d::Dialect::d, hello);  // dialect D has both
  (void)c10d::encode(c10d::Ping{nonce}, c10d::Dialect::d, hello);
  if (::send(fd, hello.data(), hello.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(hello.size())) {
    return failure(errno_text(errno));
  }
  std::string expected;
  c10d::encode(c10d::Pong{nonce}, expected);
  std::string heard;
  while (heard.size() < expected.size()) {
    if (!await(fd, POLLIN, deadline)) return failure("the server is not a store");
    std::array<char, 4> bytes{};
    const ssize_t count = ::recv(fd, bytes.data(), expected.size() - heard.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count < 0) return failure(errno_text(errno));
    if (count == 0) return failure("connection closed");
    heard.append(bytes.data(), static_cast<std::size_t>(count));
  }
  if (heard != expected) return failure("the server is not a store");
  return {};
}

// Tries every address of the name once.
Result<FileDescriptor> try_once(const std::string& host, std::uint16_t port, TimePoint deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) return failure(gai_strerror(error));
  const AddressList list(found, &freeaddrinfo);
  Result<FileDescriptor> last = failure("the name has no address");
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    // An address that does not respond must not use up the time of the others.
    const TimePoint step_deadline =
        std::min(deadline, TimePoint(Clock::now() + bounds::store_client_attempt_max));
    last = connect_to(*at, step_deadline);
    if (!last) continue;
    if (Result<void> shaken = shake_hands(last->get(), step_deadline); !shaken) {
      last = failure(shaken.error().reason);
      continue;
    }
    return last;
  }
  return last;
}

// Connects to a store: resolves the name, tries every address until one responds or the timeout is
// over, and checks that the peer is a store. Blocks for at most `timeout`. Returns a connected,
// non-blocking socket on which the handshake of dialect D is done. A failure names the address, the
// time spent and the last error.
Result<FileDescriptor> dial_store(const std::string& host, std::uint16_t port, Duration timeout) {
  const TimePoint deadline = Clock::now() + timeout;
  Duration pause = bounds::store_client_pause_first;
  while (true) {
    Result<FileDescriptor> connected = try_once(host, port, deadline);
    if (connected) return connected;
    if (Clock::now() + pause >= deadline) {
      return failure(
          fmt::format("cannot reach a store at {}:{} within {} ms: {}", host, port,
                      std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count(),
                      connected.error().reason));
    }
    (void)poll(nullptr, 0, milliseconds_until(Clock::now() + pause));
    pause = std::min<Duration>(pause * 2, bounds::store_client_pause_max);
  }
}

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

// The connection: sends requests and reads their replies, in order. In a fork of the process that
// opened it every request fails, because the two processes would read each other's replies.
class StoreClient::Connection {
 public:
  Connection(const StoreClientOptions& options, FileDescriptor socket)
      : options_(options), socket_(std::move(socket)) {}

  // Why nothing works any longer. Empty while the connection works.
  const std::string& broken() const { return broken_; }
  std::string full(std::string_view key) const { return options_.key_prefix + std::string(key); }
  std::vector<std::string> full(const std::vector<std::string>& keys) const {
    std::vector<std::string> all;
    for (const std::string& key : keys) all.push_back(full(key));
    return all;
  }
  const StoreClientOptions& options() const { return options_; }

  // A request without a reply. Blocks only while the kernel's send buffer is full.
  Result<void> tell(const c10d::Request& request);
  // A request with a reply, which `convert` turns into the result. `what` is for the error: "no
  // response from the store to <what>".
  template <class Convert>
  auto ask(const c10d::Request& request, const std::string& what, Duration timeout, Convert convert)
      -> Result<decltype(convert(c10d::Reply{}))>;
  template <class Convert>
  auto ask(const c10d::Request& request, const std::string& what, Convert convert) {
    return ask(request, what, options_.timeout, convert);
  }
  // A request that may wait for its reply for long; it is cancelled after the timeout.
  Result<void> wait(const c10d::Request& request, const std::string& what, Duration timeout);
  // The value, if the key exists.
  Result<std::optional<std::string>> find(const std::string& name, const std::string& what,
                                          Duration timeout);

 private:
  bool is_usable();
  void drop_reply() { inbox_.drop_front(std::exchange(taken_, 0)); }
  void queue(const c10d::Request& request);
  bool send(TimePoint deadline);
  bool receive(TimePoint deadline);
  std::optional<c10d::Reply> reply_by(const c10d::Expected& expected, TimePoint deadline);
  Result<c10d::Reply> reply_to(const c10d::Request& request, const std::string& what,
                               TimePoint deadline);
  tl::unexpected<Error> fail(std::string reason);

  StoreClientOptions options_;
  FileDescriptor socket_;
  const pid_t owner_ = ::getpid();
  std::string broken_;
  ByteBuffer outbox_;
  ByteBuffer inbox_;
  std::size_t taken_ = 0;  // bytes of the last reply, which are dropped before the next
  c10d::ReplyDecoder decoder_;
};

tl::unexpected<Error> StoreClient::Connection::fail(std::string reason) {
  broken_ = std::move(reason);
  outbox_.clear();
  return failure(broken_);
}

// Called before every request: nothing is under way.
bool StoreClient::Connection::is_usable() {
  drop_reply();
  if (broken_.empty() && ::getpid() != owner_) {
    fail("process " + std::to_string(owner_) +
         " opened this connection before a fork; open another one in the forked process");
  }
  if (broken_.empty() && !inbox_.empty()) fail("unexpected data from the store");
  return broken_.empty();
}

void StoreClient::Connection::queue(const c10d::Request& request) {
  std::string bytes;
  (void)c10d::encode(request, c10d::Dialect::d, bytes);  // dialect D has all requests
  outbox_.append(bytes);
}

// Writes all that is queued. False: not before the deadline, or the connection has broken.
bool StoreClient::Connection::send(TimePoint deadline) {
  while (!outbox_.empty()) {
    const std::string_view bytes = outbox_.view();
    const ssize_t count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      outbox_.drop_front(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {
      if (!await(socket_.get(), POLLOUT, deadline)) return false;
    } else if (errno != EINTR) {
      fail("cannot write to the store: " + errno_text(errno));
      return false;
    }
  }
  return true;
}

// Reads what arrives next. False as above.
bool StoreClient::Connection::receive(TimePoint deadline) {
  while (true) {
    char* const at = inbox_.tail(bounds::store_read_bytes);
    const ssize_t count = ::recv(socket_.get(), at, bounds::store_read_bytes, 0);
    if (count > 0) {
      inbox_.grow_by(static_cast<std::size_t>(count));
      return true;
    }
    if (count == 0) {
      fail("the store closed the connection");
      return false;
    }
    if (errno != EAGAIN && errno != EINTR) {
      fail("cannot read from the store: " + errno_text(errno));
      return false;
    }
    if (!await(socket_.get(), POLLIN, deadline)) return false;
  }
}

// The next reply; its views are valid until the next call. None: not before the deadline, or the
// connection has broken.
std::optional<c10d::Reply> StoreClient::Connection::reply_by(const c10d::Expected& expected,
                                                             TimePoint deadline) {
  drop_reply();
  std::size_t needed = 1;
  while (send(deadline)) {
    if (inbox_.size() < needed) {
      if (!receive(deadline)) return std::nullopt;
      continue;
    }
    const c10d::DecodedReply decoded = decoder_.decode(inbox_.view(), expected);
    if (const auto* const more = std::get_if<c10d::NeedMoreReply>(&decoded)) {
      needed = more->size;
    } else if (const auto* const malformed = std::get_if<c10d::MalformedReply>(&decoded)) {
      fail("invalid reply from the store: " + malformed->reason);
      return std::nullopt;
    } else {
      const auto& complete = std::get<c10d::CompleteReply>(decoded);
      taken_ = complete.size;
      return complete.reply;
    }
  }
  return std::nullopt;
}

// After a timeout, replies can no longer be matched to requests.
Result<c10d::Reply> StoreClient::Connection::reply_to(const c10d::Request& request,
                                                      const std::string& what, TimePoint deadline) {
  auto reply = reply_by(c10d::expected_of(request), deadline);
  if (reply) return *std::move(reply);
  if (broken_.empty()) fail("no response from the store to " + what);
  return failure(broken_);
}

Result<void> StoreClient::Connection::tell(const c10d::Request& request) {
  if (!is_usable()) return failure(broken_);
  queue(request);
  if (send(Clock::now() + options_.timeout)) return {};
  return failure(broken_.empty() ? "the store does not read" : broken_);
}

template <class Convert>
auto StoreClient::Connection::ask(const c10d::Request& request, const std::string& what,
                                  Duration timeout, Convert convert)
    -> Result<decltype(convert(c10d::Reply{}))> {
  if (!is_usable()) return failure(broken_);
  queue(request);
  const auto reply = reply_to(request, what, Clock::now() + timeout);
  if (!reply) return tl::unexpected<Error>(reply.error());
  auto result = convert(*reply);
  drop_reply();
  return result;
}

Result<void> StoreClient::Connection::wait(const c10d::Request& request, const std::string& what,
                                           Duration timeout) {
  if (!is_usable()) return failure(broken_);
  queue(request);
  const c10d::Expected expected = c10d::expected_of(request);
  if (reply_by(expected, Clock::now() + timeout)) return {};
  if (!broken_.empty()) return failure(broken_);
  queue(c10d::CancelWait{});
  const auto reply = reply_to(request, what, Clock::now() + options_.timeout);
  if (!reply) return tl::unexpected<Error>(reply.error());
  if (std::get<c10d::Waited>(*reply).cancelled) return failure(what + " timed out");
  // The reply crossed with the cancellation, whose reply is still to come.
  (void)reply_to(request, "the cancellation of a wait", Clock::now() + options_.timeout);
  return {};
}

// CHECK and GET leave in one write.
Result<std::optional<std::string>> StoreClient::Connection::find(const std::string& name,
                                                                 const std::string& what,
                                                                 Duration timeout) {
  if (!is_usable()) return failure(broken_);
  const c10d::Bytes names[] = {name};
  const TimePoint deadline = Clock::now() + timeout;
  queue(c10d::Check{names});
  queue(c10d::Get{name});
  const auto checked = reply_to(c10d::Check{names}, what, deadline);
  if (!checked) return tl::unexpected<Error>(checked.error());
  const bool exists = to_flag(*checked);
  const auto got = reply_to(c10d::Get{name}, "GET of " + name, deadline);
  if (!got) return tl::unexpected<Error>(got.error());
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

Result<StoreClient> StoreClient::open(const StoreClientOptions& options) {
  Result<FileDescriptor> socket = dial_store(options.host, options.port, options.connect_timeout);
  if (!socket) return tl::unexpected<Error>(socket.error());
  return StoreClient(std::make_unique<Connection>(options, std::move(*socket)));
}

const std::string& StoreClient::broken() const {
  return connection_->broken();
}

Result<void> StoreClient::set(std::string_view key, std::string_view value) {
  return connection_->tell(c10d::Set{connection_->full(key), value});
}

Result<void> StoreClient::append(std::string_view key, std::string_view data) {
  return connection_->tell(c10d::Append{connection_->full(key), data});
}

Result<void> StoreClient::multi_set(
    const std::vector<std::pair<std::string, std::string>>& entries) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : entries) keys.push_back(connection_->full(key));
  std::vector<c10d::KeyValue> pairs;
  for (std::size_t at = 0; at < entries.size(); ++at) {
    pairs.push_back({keys[at], entries[at].second});
  }
  return connection_->tell(c10d::MultiSet{pairs});
}

Result<void> StoreClient::queue_push(std::string_view key, std::string_view value) {
  return connection_->tell(c10d::QueuePush{connection_->full(key), value});
}

Result<std::string> StoreClient::get(std::string_view key, std::optional<Duration> timeout) {
  const std::string name = connection_->full(key);
  const Duration each = timeout.value_or(connection_->options().timeout);
  auto found = connection_->find(name, "GET of " + name, each);
  if (!found) return tl::unexpected<Error>(found.error());
  if (*found) return **std::move(found);
  // No WAIT was sent before the first GET, because the GET would have cancelled it.
  const c10d::Bytes names[] = {name};
  if (auto waited = connection_->wait(c10d::Wait{names}, "wait for " + name, each); !waited) {
    return tl::unexpected<Error>(waited.error());
  }
  return connection_->ask(c10d::Get{name}, "GET of " + name, each, to_text);
}

Result<std::optional<std::string>> StoreClient::find(std::string_view key) {
  const std::string name = connection_->full(key);
  return connection_->find(name, "CHECK of " + name, connection_->options().timeout);
}

Result<std::int64_t> StoreClient::add(std::string_view key, std::int64_t delta) {
  const std::string name = connection_->full(key);
  return connection_->ask(c10d::Add{name, delta}, "ADD to " + name, to_number);
}

Result<std::string> StoreClient::compare_set(std::string_view key, std::string_view expected,
                                             std::string_view desired) {
  const std::string name = connection_->full(key);
  return connection_->ask(c10d::CompareSet{name, expected, desired}, "COMPARE_SET of " + name,
                          to_text);
}

Result<bool> StoreClient::check(const std::vector<std::string>& keys) {
  const std::vector<std::string> names = connection_->full(keys);
  return connection_->ask(c10d::Check{views(names)}, "CHECK of " + names_of(names), to_flag);
}

Result<void> StoreClient::wait(const std::vector<std::string>& keys,
                               std::optional<Duration> timeout) {
  const std::vector<std::string> names = connection_->full(keys);
  return connection_->wait(c10d::Wait{views(names)}, "wait for " + names_of(names),
                           timeout.value_or(connection_->options().timeout));
}

Result<void> StoreClient::barrier(std::string_view key, std::int64_t world_size,
                                  std::optional<Duration> timeout) {
  const std::string name = connection_->full(key);
  return connection_->wait(c10d::Barrier{name, world_size}, "barrier " + name,
                           timeout.value_or(connection_->options().timeout));
}

Result<bool> StoreClient::delete_key(std::string_view key) {
  const std::string name = connection_->full(key);
  return connection_->ask(c10d::DeleteKey{name}, "DELETE_KEY of " + name,
                          [](const c10d::Reply& reply) { return to_number(reply) > 0; });
}

Result<std::int64_t> StoreClient::num_keys() {
  return connection_->ask(c10d::GetNumKeys{}, "GETNUMKEYS", to_number);
}

Result<std::vector<std::string>> StoreClient::multi_get(const std::vector<std::string>& keys) {
  const std::vector<std::string> names = connection_->full(keys);
  return connection_->ask(c10d::MultiGet{views(names)}, "MULTI_GET of " + names_of(names),
                          [](const c10d::Reply& reply) {
                            const auto values = std::get<c10d::Values>(reply).values;
                            return std::vector<std::string>(values.begin(), values.end());
                          });
}

Result<std::optional<std::string>> StoreClient::queue_pop(std::string_view key) {
  const std::string name = connection_->full(key);
  return connection_->ask(
      c10d::QueuePop{name}, "QUEUE_POP of " + name, [](const c10d::Reply& reply) {
        const auto& popped = std::get<c10d::Popped>(reply);
        return popped.length_before > 0 ? std::optional(std::string(popped.value)) : std::nullopt;
      });
}

Result<std::int64_t> StoreClient::queue_length(std::string_view key) {
  const std::string name = connection_->full(key);
  return connection_->ask(c10d::QueueLen{name}, "QUEUE_LEN of " + name, to_number);
}

Result<std::vector<std::string>> StoreClient::list_keys() {
  const std::string& prefix = connection_->options().key_prefix;
  return connection_->ask(c10d::ListKeys{}, "LIST_KEYS", [&prefix](const c10d::Reply& reply) {
    std::vector<std::string> keys;
    for (const c10d::Bytes key : std::get<c10d::Keys>(reply).keys) {
      if (key.starts_with(prefix)) keys.emplace_back(key.substr(prefix.size()));
    }
    return keys;
  });
}

}  // namespace cpprun

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
#include <deque>
#include <iterator>

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
    if (count == 0 || errno != EINTR) return false;
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

}  // namespace

// --- requests and replies of a connection --------------------------------------------------------

// Sends requests and reads replies, in order, over one connection; AsyncStoreClient is built on it.
// Only one wait may be in flight, as the last request. Requests made after it are held back. In a
// fork of the process that opened the connection every request fails, because the two processes
// would read each other's replies.
class StoreExchange {
 public:
  // The views in the reply are valid until the function returns.
  using Answered = std::function<void(Result<c10d::Reply>)>;

  StoreExchange(const StoreClientOptions& options, FileDescriptor socket)
      : options_(options), socket_(std::move(socket)) {}

  const StoreClientOptions& options() const { return options_; }
  int descriptor() const { return socket_.get(); }
  bool has_unwritten() const { return !outbox_.empty(); }
  // Why nothing works any longer. Empty while the connection works.
  const std::string& broken() const { return broken_; }

  // `what` is for the error: "no answer from the store to <what>".
  void ask(const c10d::Request& request, std::string what, Duration timeout, Answered answered);
  int next_wait_ms() const;
  void serve();
  // Only the writing part of serve().
  void write();

 private:
  struct Asked {
    std::string bytes;  // empty once sent
    c10d::Expected expected;
    std::string what;
    Duration timeout{};  // counts from when it is sent
    TimePoint deadline;
    Answered answered;
    bool is_wait = false;
    bool is_cancelled = false;  // CANCEL_WAIT was sent after it
  };

  void release_held();
  void read();
  void take_replies();
  void finish(Asked& asked, const c10d::Reply& reply);
  void expire();
  void fail(std::string reason);
  bool is_of_this_process();

  StoreClientOptions options_;
  FileDescriptor socket_;
  const pid_t owner_ = ::getpid();
  std::string broken_;
  // Sent and not answered, in order. Invariant: only the last may be a wait. Any further request
  // would cancel it, and the last can be cancelled without affecting others.
  std::deque<Asked> under_way_;
  std::deque<Asked> held_;  // not sent, because a wait is in flight
  ByteBuffer outbox_;
  ByteBuffer inbox_;
  std::size_t needed_ = 0;  // bytes until the next reply is complete
  c10d::ReplyDecoder decoder_;
};

void StoreExchange::ask(const c10d::Request& request, std::string what, Duration timeout,
                        Answered answered) {
  if (!is_of_this_process()) return answered(failure(broken_));
  Asked asked;
  (void)c10d::encode(request, c10d::Dialect::d, asked.bytes);  // dialect D has all requests
  asked.expected = c10d::expected_of(request);
  asked.what = std::move(what);
  asked.timeout = timeout;
  asked.answered = std::move(answered);
  asked.is_wait = asked.expected.kind == c10d::ReplyKind::waited;
  held_.push_back(std::move(asked));
  release_held();
}

bool StoreExchange::is_of_this_process() {
  if (broken_.empty() && ::getpid() != owner_) {
    fail("process " + std::to_string(owner_) +
         " opened this connection before a fork; open another one in the forked process");
  }
  return broken_.empty();
}

int StoreExchange::next_wait_ms() const {
  std::optional<TimePoint> next;
  for (const Asked& asked : under_way_) {
    next = next ? std::min(*next, asked.deadline) : asked.deadline;
  }
  if (!next) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

void StoreExchange::serve() {
  if (!is_of_this_process()) return;
  write();
  read();
  expire();
  write();
}

void StoreExchange::write() {
  if (!is_of_this_process()) return;
  while (broken_.empty() && !outbox_.empty()) {
    const std::string_view bytes = outbox_.view();
    const ssize_t count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0) {
      if (errno == EAGAIN || errno == EINTR) return;
      return fail("cannot write to the store: " + errno_text(errno));
    }
    outbox_.drop_front(static_cast<std::size_t>(count));
  }
}

// Sends everything up to and including the next wait.
void StoreExchange::release_held() {
  while (!held_.empty() && (under_way_.empty() || !under_way_.back().is_wait)) {
    Asked asked = std::move(held_.front());
    held_.pop_front();
    outbox_.append(asked.bytes);
    asked.deadline = Clock::now() + asked.timeout;
    asked.bytes.clear();
    if (asked.expected.kind == c10d::ReplyKind::none) {
      asked.answered(c10d::Reply{});
    } else {
      under_way_.push_back(std::move(asked));
    }
  }
}

void StoreExchange::read() {
  while (broken_.empty()) {
    char* const at = inbox_.tail(bounds::store_read_bytes);
    const ssize_t count = ::recv(socket_.get(), at, bounds::store_read_bytes, 0);
    if (count == 0) return fail("the store closed the connection");
    if (count < 0) {
      if (errno == EAGAIN || errno == EINTR) break;
      return fail("cannot read from the store: " + errno_text(errno));
    }
    inbox_.grow_by(static_cast<std::size_t>(count));
    take_replies();
    if (static_cast<std::size_t>(count) < bounds::store_read_bytes) break;
  }
  if (inbox_.empty()) inbox_.clear();
}

void StoreExchange::take_replies() {
  while (broken_.empty() && !inbox_.empty() && inbox_.size() >= needed_) {
    if (under_way_.empty()) return fail("unexpected data from the store");
    const c10d::DecodedReply decoded = decoder_.decode(inbox_.view(), under_way_.front().expected);
    if (const auto* more = std::get_if<c10d::NeedMoreReply>(&decoded)) {
      needed_ = more->size;
      return;
    }
    if (const auto* malformed = std::get_if<c10d::MalformedReply>(&decoded)) {
      return fail("invalid reply from the store: " + malformed->reason);
    }
    needed_ = 0;
    const auto& complete = std::get<c10d::CompleteReply>(decoded);
    Asked asked = std::move(under_way_.front());
    under_way_.pop_front();
    finish(asked, complete.reply);
    inbox_.drop_front(complete.size);
    release_held();
  }
}

void StoreExchange::finish(Asked& asked, const c10d::Reply& reply) {
  const auto* waited = std::get_if<c10d::Waited>(&reply);
  if (waited == nullptr) return asked.answered(reply);
  if (waited->cancelled) return asked.answered(failure(asked.what + " timed out"));
  // The reply crossed with the cancellation, whose reply is still to come.
  if (asked.is_cancelled) {
    Asked leftover;
    leftover.expected = asked.expected;
    leftover.deadline = Clock::now() + options_.timeout;
    leftover.what = "the cancellation of a wait";
    leftover.answered = [](const Result<c10d::Reply>&) {};
    leftover.is_wait = true;
    under_way_.push_front(std::move(leftover));
  }
  asked.answered(reply);
}

void StoreExchange::expire() {
  const TimePoint now = Clock::now();
  if (under_way_.empty() || !broken_.empty()) return;
  // A wait is always the last in flight, so cancelling it does not affect others.
  Asked& last = under_way_.back();
  if (last.is_wait && !last.is_cancelled && last.deadline <= now) {
    std::string cancel;
    (void)c10d::encode(c10d::CancelWait{}, c10d::Dialect::d, cancel);  // dialect D has it
    outbox_.append(cancel);
    last.is_cancelled = true;
    last.deadline = now + options_.timeout;
  }
  // After any other timeout, replies can no longer be matched to requests.
  if (under_way_.front().deadline <= now) {
    fail("no response from the store to " + under_way_.front().what);
  }
}

void StoreExchange::fail(std::string reason) {
  broken_ = std::move(reason);
  std::deque<Asked> lost = std::move(under_way_);
  std::move(held_.begin(), held_.end(), std::back_inserter(lost));
  under_way_.clear();
  held_.clear();
  outbox_.clear();
  inbox_.clear();
  for (Asked& asked : lost) asked.answered(failure(broken_));
}

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
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(timeout_).count();
    const int count = poll(&watched, 1, static_cast<int>(milliseconds));
    if (count == 0) return failure("the store does not read");
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

// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/client/io/store_connection.h"

#include <fmt/format.h>
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
#include <iterator>
#include <memory>
#include <optional>

#include "proto/bounds.h"
#include "proto/c10d/codec.h"
#include "proto/text.h"
#include "rendezvous/io/socket_address.h"

namespace cpprun {

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
    if (!await(fd.get(), POLLOUT, deadline)) return failure("no answer");
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
    if (!await(fd, POLLIN, deadline)) return failure("it answers, but not as a store");
    std::array<char, 4> bytes{};
    const ssize_t count = ::recv(fd, bytes.data(), expected.size() - heard.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count < 0) return failure(errno_text(errno));
    if (count == 0) return failure("it closed the connection");
    heard.append(bytes.data(), static_cast<std::size_t>(count));
  }
  if (heard != expected) return failure("it answers, but not as a store");
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
    const TimePoint patience =
        std::min(deadline, TimePoint(Clock::now() + bounds::store_client_attempt_max));
    last = connect_to(*at, patience);
    if (!last) continue;
    if (Result<void> shaken = shake_hands(last->get(), patience); !shaken) {
      last = failure(shaken.error().reason);
      continue;
    }
    return last;
  }
  return last;
}

}  // namespace

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
         " opened this connection before a fork: open another one in the forked process");
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
    if (under_way_.empty()) return fail("the store sent something that was not asked for");
    const c10d::DecodedReply decoded = decoder_.decode(inbox_.view(), under_way_.front().expected);
    if (const auto* more = std::get_if<c10d::NeedMoreReply>(&decoded)) {
      needed_ = more->size;
      return;
    }
    if (const auto* malformed = std::get_if<c10d::MalformedReply>(&decoded)) {
      return fail("the store answered with " + malformed->reason);
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
    leftover.what = "the cancelling of a wait";
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
    fail("no answer from the store to " + under_way_.front().what);
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

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/client/io/store_dialler.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <utility>

#include "proto/c10d/codec.h"
#include "proto/text.h"
#include "rendezvous/io/quiet_thread.h"
#include "rendezvous/io/socket_address.h"

namespace cpprun {

namespace {

using Clock = std::chrono::steady_clock;
using Code = StoreErrorCode;

StoreError error_of(Code code, std::string reason) {
  return {{std::move(reason)}, code};
}

bool is_ready(int fd, short events) {
  pollfd watched{fd, events, 0};
  return poll(&watched, 1, 0) > 0;
}

}  // namespace

// A query to a name server cannot be cancelled, and may take half a minute. It has a thread of its
// own, which is left alone when the time is over.
struct StoreDialler::Lookup {
  std::string host;
  std::uint16_t port = 0;
  FileDescriptor done{};  // an eventfd
  std::mutex mutex{};
  std::optional<Found> found{};
};

StoreDialler::StoreDialler(StoreAddress address, Duration timeout)
    : where_(std::move(address)),
      timeout_(timeout),
      deadline_(Clock::now() + timeout),
      awaited_{.until = Clock::now()} {}

StoreDialler::~StoreDialler() = default;

void StoreDialler::await(Phase phase, Awaited awaited) {
  phase_ = phase;
  awaited_ = awaited;
}

std::optional<StoreDialler::Outcome> StoreDialler::advance() {
  std::optional<Outcome> outcome;
  while (!outcome) {
    const bool has_news =
        awaited_.descriptor >= 0 && is_ready(awaited_.descriptor, awaited_.events);
    const bool is_over = !has_news && Clock::now() >= awaited_.until;
    if (!has_news && !is_over) return std::nullopt;
    std::optional<StoreError> error;
    switch (phase_) {
      case Phase::pausing:
        error = resolve();
        break;
      case Phase::resolving:
        if (is_over) {
          error = error_of(Code::timeout, "the name server did not respond");
        } else {
          const std::lock_guard lock(lookup_->mutex);
          error = take_addresses(std::move(*lookup_->found));
        }
        break;
      case Phase::connecting:
        error = is_over ? error_of(Code::timeout, "no response") : finish_connecting();
        break;
      case Phase::greeting:
        error = is_over ? error_of(Code::timeout,
                                   "connected, but the server does not answer as a store")
                        : hear(outcome);
        break;
    }
    if (error) outcome = fail(std::move(*error));
  }
  return outcome;
}

// --- names ---------------------------------------------------------------------------------------

StoreDialler::Found StoreDialler::look_up(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* list = nullptr;
  Found found{.error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list)};
  if (found.error != 0) return found;
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    Address& address = found.addresses.emplace_back();
    std::memcpy(&address.bytes, at->ai_addr, at->ai_addrlen);
    address.size = at->ai_addrlen;
  }
  freeaddrinfo(list);
  return found;
}

std::optional<StoreError> StoreDialler::resolve() {
  if (where_.host.starts_with(unix_prefix)) {
    Address address;
    const Result<socklen_t> size = fill_unix_address(unix_path(where_.host), address.bytes);
    if (!size) return error_of(Code::bad_argument, size.error().reason);
    address.size = *size;
    return take_addresses({.addresses = {address}});
  }
  Found found = look_up(where_.host, where_.port, AI_NUMERICHOST);
  if (found.error == 0) return take_addresses(std::move(found));
  lookup_ = std::make_shared<Lookup>();
  lookup_->host = where_.host;
  lookup_->port = where_.port;
  lookup_->done = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!lookup_->done) return error_of(Code::system, errno_text(errno));
  const int error = start_quiet_thread([lookup = lookup_] {
    Found result = look_up(lookup->host, lookup->port, 0);
    const std::lock_guard lock(lookup->mutex);
    lookup->found = std::move(result);
    (void)eventfd_write(lookup->done.get(), 1);  // it is 0 before
  });
  if (error != 0) return error_of(Code::system, "cannot start a thread: " + errno_text(error));
  await(Phase::resolving, {lookup_->done.get(), POLLIN, deadline_});
  return std::nullopt;
}

std::optional<StoreError> StoreDialler::take_addresses(Found found) {
  if (found.error != 0) return error_of(Code::unreachable, gai_strerror(found.error));
  addresses_ = std::move(found.addresses);
  next_address_ = 0;
  if (addresses_.empty()) return error_of(Code::unreachable, "the name has no address");
  return connect();
}

// --- connecting ----------------------------------------------------------------------------------

std::optional<StoreError> StoreDialler::connect() {
  const Address& address = addresses_[next_address_++];
  // An address that does not respond must not use up the time of the others.
  step_deadline_ = std::min(deadline_, TimePoint(Clock::now() + bounds::store_client_attempt_max));
  socket_.reset(socket(address.bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket_) return error_of(store_error_code_of(errno), errno_text(errno));
  const auto* const name = reinterpret_cast<const sockaddr*>(&address.bytes);
  if (::connect(socket_.get(), name, address.size) == 0) return greet();
  if (errno == EINPROGRESS) {
    await(Phase::connecting, {socket_.get(), POLLOUT, step_deadline_});
    return std::nullopt;
  }
  // EAGAIN: the queue of a Unix socket is full.
  return error_of(errno == EAGAIN ? Code::refused : store_error_code_of(errno), errno_text(errno));
}

std::optional<StoreError> StoreDialler::finish_connecting() {
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) return error_of(store_error_code_of(error), errno_text(error));
  return greet();
}

// Sends VALIDATE and PING. Only a store sends the number back.
std::optional<StoreError> StoreDialler::greet() {
  const int on = 1;
  // Optional: without it everything works, but slower. A Unix socket has no such option.
  (void)setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const auto nonce = static_cast<std::uint32_t>(getpid());
  std::string hello;
  (void)c10d::encode(c10d::Validate{}, c10d::Dialect::d, hello);  // dialect D has both
  (void)c10d::encode(c10d::Ping{nonce}, c10d::Dialect::d, hello);
  expected_.clear();
  c10d::encode(c10d::Pong{nonce}, expected_);
  received_.clear();
  if (where_.make_cipher) {
    cipher_ = where_.make_cipher();
    if (!cipher_->say(hello)) return error_of(Code::refused, cipher_->reason());
    hello = cipher_->take_outgoing();  // the handshake begins
  }
  if (auto error = send(hello)) return error;
  await(Phase::greeting, {socket_.get(), POLLIN, step_deadline_});
  return std::nullopt;
}

// So few bytes fit the buffer of a new connection.
std::optional<StoreError> StoreDialler::send(std::string_view bytes) {
  const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(bytes.size())) return std::nullopt;
  return error_of(store_error_code_of(errno), "cannot write to the store: " + errno_text(errno));
}

std::optional<StoreError> StoreDialler::hear(std::optional<Outcome>& outcome) {
  std::array<char, 4096> bytes{};
  // Without TLS, later bytes are the transport's.
  const std::size_t wanted = cipher_ ? bytes.size() : expected_.size() - received_.size();
  const ssize_t count = ::recv(socket_.get(), bytes.data(), wanted, 0);
  if (count == 0) return error_of(Code::refused, "connection closed");
  if (count < 0) {
    if (errno == EAGAIN || errno == EINTR) return std::nullopt;
    if (store_error_code_of(errno) == Code::closed) {
      return error_of(Code::refused, "connection closed");
    }
    return error_of(store_error_code_of(errno), "cannot read from the store: " + errno_text(errno));
  }
  const std::string_view heard(bytes.data(), static_cast<std::size_t>(count));
  if (cipher_) {
    const bool goes_on = cipher_->hear(heard);
    const std::string outgoing = cipher_->take_outgoing();
    if (auto error = outgoing.empty() ? std::nullopt : send(outgoing); error && goes_on) {
      return error;
    }
    if (!goes_on) return error_of(Code::refused, cipher_->reason());
    received_.append(cipher_->take_heard());
  } else {
    received_.append(heard);
  }
  if (received_.size() < expected_.size()) return std::nullopt;
  if (received_ != expected_) return error_of(Code::protocol, "the server is not a store");
  outcome = cipher_ ? store_transport_over(std::move(socket_), std::move(cipher_))
                    : store_transport_over(std::move(socket_));
  return std::nullopt;
}

// --- failures ------------------------------------------------------------------------------------

std::optional<StoreDialler::Outcome> StoreDialler::fail(StoreError error) {
  socket_.reset();
  cipher_.reset();
  if (error.code == Code::bad_argument) return tl::unexpected(std::move(error));
  if (next_address_ < addresses_.size() && Clock::now() < deadline_) {
    // A failure at once is followed by the next address, or ends here again.
    std::optional<StoreError> next = connect();
    if (next) return fail(std::move(*next));
    return std::nullopt;
  }
  addresses_.clear();
  next_address_ = 0;
  lookup_.reset();
  // That the time was over says less than an earlier failure.
  if (error.code != Code::timeout || !earlier_) earlier_ = std::move(error);
  const TimePoint next = Clock::now() + pause_;
  if (next >= deadline_) return give_up(*earlier_);
  await(Phase::pausing, {.until = next});
  pause_ = std::min<Duration>(pause_ * 2, bounds::store_client_pause_max);
  return std::nullopt;
}

StoreDialler::Outcome StoreDialler::give_up(const StoreError& error) const {
  const std::string address = where_.host.starts_with(unix_prefix)
                                  ? where_.host
                                  : fmt::format("{}:{}", where_.host, where_.port);
  return failure(
      error.code,
      fmt::format("cannot reach a store at {} within {} ms: {}", address,
                  std::chrono::duration_cast<std::chrono::milliseconds>(timeout_).count(),
                  error.reason));
}

}  // namespace cpprun

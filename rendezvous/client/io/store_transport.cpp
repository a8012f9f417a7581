// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/client/io/store_transport.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "proto/text.h"
#include "rendezvous/byte_buffer.h"
#include "rendezvous/client/bounds.h"
#include "rendezvous/client/io/store_dialler.h"

namespace cpprun {

namespace {

using Clock = std::chrono::steady_clock;
using Code = StoreErrorCode;

// --- waiting -------------------------------------------------------------------------------------

int milliseconds_until(TimePoint deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000));
}

// Until the descriptor is ready. Signals neither end the wait nor make it longer.
StoreResult<void> await(int fd, short events, TimePoint deadline) {
  pollfd watched{fd, events, 0};
  while (true) {
    const int count = poll(&watched, 1, milliseconds_until(deadline));
    if (count > 0) return {};
    if (count < 0 && errno != EINTR) return failure(Code::system, errno_text(errno));
    // A long wait takes several calls.
    if (Clock::now() >= deadline) return failure(Code::timeout, "no response");
  }
}

class SocketTransport : public StoreTransport {
 public:
  explicit SocketTransport(FileDescriptor socket) : socket_(std::move(socket)) {}

  StoreResult<std::size_t> send(std::string_view bytes, TimePoint deadline) override {
    while (true) {
      const ssize_t count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count >= 0) return static_cast<std::size_t>(count);
      if (auto again = may_retry(errno, POLLOUT, deadline, "write to"); !again) {
        return tl::unexpected(std::move(again.error()));
      }
    }
  }

  StoreResult<std::size_t> receive(std::span<char> into, TimePoint deadline) override {
    while (true) {
      const ssize_t count = ::recv(socket_.get(), into.data(), into.size(), 0);
      if (count > 0) return static_cast<std::size_t>(count);
      if (count == 0) return failure(Code::closed, "the store closed the connection");
      if (auto again = may_retry(errno, POLLIN, deadline, "read from"); !again) {
        return tl::unexpected(std::move(again.error()));
      }
    }
  }

  StoreResult<int> descriptor() override { return socket_.get(); }

  // Also in a signal handler.
  void interrupt() noexcept override {
    const int error = errno;
    ::shutdown(socket_.get(), SHUT_RDWR);
    errno = error;
  }

 private:
  StoreResult<void> may_retry(int error, short events, TimePoint deadline, const char* action) {
    if (error == EINTR) return {};
    if (error == EAGAIN) return await(socket_.get(), events, deadline);
    return failure(store_error_code_of(error),
                   fmt::format("cannot {} the store: {}", action, errno_text(error)));
  }

  FileDescriptor socket_;
};

class SecureTransport : public StoreTransport {
 public:
  SecureTransport(FileDescriptor socket, std::unique_ptr<StoreCipher> cipher)
      : socket_(std::move(socket)), cipher_(std::move(cipher)) {}

  // What was accepted by an earlier call leaves first.
  StoreResult<std::size_t> send(std::string_view bytes, TimePoint deadline) override {
    if (auto flushed = flush(deadline); !flushed) {
      return tl::unexpected(std::move(flushed.error()));
    }
    const std::string_view piece = bytes.substr(0, bounds::store_read_bytes);
    if (!cipher_->say(piece)) return failed();
    // The piece is accepted, also if there is no time to send all of it.
    if (auto flushed = flush(deadline); !flushed && flushed.error().code != Code::timeout) {
      return tl::unexpected(std::move(flushed.error()));
    }
    return piece.size();
  }

  StoreResult<std::size_t> receive(std::span<char> into, TimePoint deadline) override {
    while (heard_.empty()) {
      if (cipher_->is_finished()) return failure(Code::closed, "the store closed the connection");
      // What cannot be sent now must not keep the replies from being read.
      if (auto flushed = flush({}); !flushed && flushed.error().code != Code::timeout) {
        return tl::unexpected(std::move(flushed.error()));
      }
      const StoreResult<std::size_t> count = socket_.receive(buffer_, deadline);
      if (!count) return count;
      if (!cipher_->hear({buffer_.data(), *count})) return failed();
      heard_.append(cipher_->take_heard());
    }
    const std::size_t count = std::min(into.size(), heard_.size());
    std::memcpy(into.data(), heard_.view().data(), count);
    heard_.drop_front(count);
    return count;
  }

  StoreResult<bool> flush(TimePoint deadline) override {
    outgoing_.append(cipher_->take_outgoing());
    while (!outgoing_.empty()) {
      const auto count = socket_.send(outgoing_.view(), deadline);
      if (!count) return tl::unexpected(count.error());
      outgoing_.drop_front(*count);
    }
    return true;
  }

  StoreResult<int> descriptor() override { return socket_.descriptor(); }
  void interrupt() noexcept override { socket_.interrupt(); }

 private:
  tl::unexpected<StoreError> failed() const {
    return failure(Code::protocol, "cannot read from the store: " + cipher_->reason());
  }

  SocketTransport socket_;
  std::unique_ptr<StoreCipher> cipher_;
  ByteBuffer heard_;
  ByteBuffer outgoing_;
  // Smaller than the buffers of callers, so that the descriptor shows whether something is left.
  std::array<char, 16 * 1024> buffer_{};
};

}  // namespace

StoreErrorCode store_error_code_of(int error) {
  switch (error) {
    case ECONNREFUSED:
    case ENOENT:  // a Unix socket
    case EACCES:
      return Code::refused;
    case ETIMEDOUT:
      return Code::timeout;
    case ENETUNREACH:
    case EHOSTUNREACH:
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
      return Code::unreachable;
    case ECONNRESET:
    case EPIPE:
      return Code::closed;
    default:
      return Code::system;
  }
}

std::unique_ptr<StoreTransport> store_transport_over(FileDescriptor socket) {
  return std::make_unique<SocketTransport>(std::move(socket));
}

std::unique_ptr<StoreTransport> store_transport_over(FileDescriptor socket,
                                                     std::unique_ptr<StoreCipher> cipher) {
  return std::make_unique<SecureTransport>(std::move(socket), std::move(cipher));
}

StoreResult<std::unique_ptr<StoreTransport>> dial_store(const StoreAddress& address,
                                                        Duration timeout) {
  StoreDialler dialler(address, timeout);
  while (true) {
    if (auto outcome = dialler.advance()) return std::move(*outcome);
    const StoreDialler::Awaited& awaited = dialler.awaited();
    // poll() ignores a descriptor of -1. Signals only make it look again.
    pollfd watched{awaited.descriptor, awaited.events, 0};
    if (poll(&watched, 1, milliseconds_until(awaited.until)) < 0 && errno != EINTR) {
      return failure(Code::system, errno_text(errno));
    }
  }
}

}  // namespace cpprun

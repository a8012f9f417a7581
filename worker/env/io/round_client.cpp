// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/round_client.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "proto/text.h"
#include "worker/env/io/blocked_signals.h"
#include "worker/env/io/round_connections.h"

namespace cpprun {

namespace {

constexpr std::size_t message_bytes_max = 4096;
// A thread may just be making another connection when the round breaks.
constexpr std::chrono::milliseconds next_closing{50};

int connect_to(const std::string& path) {
  const auto fail = [&path](const std::string& why) {
    throw std::runtime_error(fmt::format("cannot connect to cpprun at \"{}\": {}", path, why));
  };
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) fail("the path is too long");
  std::memcpy(address.sun_path, path.data(), path.size());
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (socket < 0) fail(errno_text(errno));
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int error = errno;
    ::close(socket);
    fail(errno_text(error));
  }
  return socket;
}

}  // namespace

RoundClient::RoundClient(const std::string& path, LocalRank local_rank)
    : local_rank_(local_rank), socket_(connect_to(path)) {
  const BlockedSignals blocked;
  listener_ = std::thread([this] { listen(); });
}

RoundClient::~RoundClient() {
  {
    const std::scoped_lock lock(mutex_);
    is_inside_ = false;
  }
  changed_.notify_all();
  ::shutdown(socket_, SHUT_RDWR);
  listener_.join();
  ::close(socket_);
  RoundConnections::end();
}

RoundClient::Place RoundClient::await_place() {
  for (;;) {
    send_waits();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return next_ || !error_.empty(); });
    if (!next_) throw std::runtime_error(error_);
    Place place = *std::exchange(next_, std::nullopt);
    round_ = place.round;
    if (broken_ >= round_) continue;
    RoundConnections::begin();
    is_inside_ = true;
    return place;
  }
}

bool RoundClient::await_broken(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, wait, [this] { return broken_ >= round_; });
}

void RoundClient::send_waits() {
  std::string message;
  {
    const std::scoped_lock lock(mutex_);
    is_inside_ = false;
    message = fmt::format("waits local_rank={} round={}", local_rank_.value, round_);
  }
  changed_.notify_all();
  // If it cannot be sent, the listener finds out why.
  static_cast<void>(::send(socket_, message.data(), message.size(), MSG_NOSIGNAL));
  RoundConnections::end();
}

void RoundClient::listen() {
  std::array<char, message_bytes_max> bytes{};
  for (;;) {
    const auto got = ::recv(socket_, bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    std::string error = got < 0    ? "cannot read from cpprun: " + errno_text(errno)
                        : got == 0 ? "cpprun has closed the connection"
                                   : hear({bytes.data(), static_cast<std::size_t>(got)});
    if (error.empty()) continue;
    const std::scoped_lock lock(mutex_);
    error_ = std::move(error);
    changed_.notify_all();
    return;
  }
}

std::string RoundClient::hear(const std::string& message) {
  const auto words = split(message, ' ');
  Place place;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const auto equals = words[i].find('=');
    if (equals == std::string_view::npos) continue;
    place.variables[std::string(words[i].substr(0, equals))] = words[i].substr(equals + 1);
  }
  const auto round = exact_number<std::uint32_t>(place.variables["round"]);
  if (!round || (words.front() != "place" && words.front() != "broken")) {
    return fmt::format("cpprun has sent an unknown message: \"{}\"", plain_line(message, 80));
  }
  std::unique_lock lock(mutex_);
  if (words.front() == "place") {
    place.round = *round;
    place.variables.erase("round");
    place.variables.erase("uuid");  // for PyTorch's process groups
    next_ = std::move(place);
    changed_.notify_all();
  } else {
    broken_ = *round;
    changed_.notify_all();
    close_connections(lock);
  }
  return {};
}

void RoundClient::close_connections(std::unique_lock<std::mutex>& lock) {
  const auto has_left = [this] { return !is_inside_ || round_ != broken_; };
  do {
    if (has_left()) return;
    RoundConnections::shut_down();
  } while (!changed_.wait_for(lock, next_closing, has_left));
}

}  // namespace cpprun

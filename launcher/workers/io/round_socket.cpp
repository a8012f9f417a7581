// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/io/round_socket.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "launcher/workers/bounds.h"
#include "launcher/workers/round_messages.h"
#include "proto/text.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

namespace {

constexpr std::size_t round_message_bytes_max = 256;
constexpr int round_backlog = 64;

}  // namespace

RoundSocket::RoundSocket(asio::io_context& context, Callbacks callbacks)
    : context_(context), callbacks_(std::move(callbacks)), listener_(context) {}

Result<void> RoundSocket::open(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return failure(fmt::format("\"{}\" is too long for the path of a socket", path));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto* const plain = reinterpret_cast<const sockaddr*>(&address);
  // Its directory is private, and before it listens no client can connect.
  if (!socket || ::bind(socket.get(), plain, sizeof address) != 0 ||
      ::listen(socket.get(), round_backlog) != 0) {
    return failure(fmt::format("cannot listen at \"{}\": {}", path, errno_text(errno)));
  }
  listener_.assign(socket.release());
  path_ = path;
  accept();
  return {};
}

bool RoundSocket::place(LocalRank local_rank, std::string message) {
  const auto client = client_of(local_rank);
  const bool is_sent = client && send_to(*client, message);
  if (client && !is_sent) drop(client);
  places_[local_rank] = std::move(message);
  return is_sent;
}

bool RoundSocket::send(LocalRank local_rank, const std::string& message) {
  const auto client = client_of(local_rank);
  return client && send_to(*client, message);
}

void RoundSocket::accept() {
  listener_.async_wait(
      asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
        if (error) return;
        const int socket =
            ::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (socket >= 0 && clients_.size() < bounds::round_clients_max) {
          const auto client = std::make_shared<Client>(context_);
          client->socket.assign(socket);
          clients_.push_back(client);
          await(client);
        } else if (socket >= 0) {
          ::close(socket);
          callbacks_.rejected(fmt::format("there are {} already", bounds::round_clients_max));
        }
        accept();
      });
}

void RoundSocket::await(const SharedClient& client) {
  client->socket.async_wait(asio::posix::stream_descriptor::wait_read,
                            [this, client](const asio::error_code& error) {
                              if (error || !client->socket.is_open()) return;
                              if (!receive(client)) return drop(client);
                              await(client);
                            });
}

bool RoundSocket::receive(const SharedClient& client) {
  std::array<char, round_message_bytes_max> bytes{};
  const auto got = ::recv(client->socket.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  return got > 0 && hear(client, std::string(bytes.data(), static_cast<std::size_t>(got)));
}

bool RoundSocket::hear(const SharedClient& client, const std::string& message) {
  const auto waits = parse_waits(message);
  if (!waits) {
    callbacks_.rejected(waits.error().reason);
    return false;
  }
  if (!is_of_worker(*client, waits->local_rank)) {
    callbacks_.rejected(
        fmt::format("it is not a process of the worker of local rank {}", waits->local_rank.value));
    return false;
  }
  const bool is_new = !client->local_rank;
  if (is_new) {
    // A worker may close its connection and make another one.
    if (const auto before = client_of(waits->local_rank)) drop(before);
    client->local_rank = waits->local_rank;
  }
  callbacks_.rejoins(*waits);
  const auto place = places_.find(waits->local_rank);
  return !is_new || place == places_.end() || send_to(*client, place->second);
}

// Each worker is the leader of its session.
bool RoundSocket::is_of_worker(Client& client, LocalRank local_rank) const {
  ucred peer{};
  socklen_t size = sizeof peer;
  const int worker = callbacks_.pid_of(local_rank);
  // A connection belongs to a single worker.
  if (client.local_rank && *client.local_rank != local_rank) return false;
  return worker != 0 &&
         ::getsockopt(client.socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         ::getsid(peer.pid) == worker;
}

RoundSocket::SharedClient RoundSocket::client_of(LocalRank local_rank) const {
  const auto found = std::ranges::find_if(
      clients_, [local_rank](const SharedClient& each) { return each->local_rank == local_rank; });
  return found == clients_.end() ? nullptr : *found;
}

void RoundSocket::drop(const SharedClient& client) {
  client->socket.close();
  std::erase(clients_, client);
}

// The messages are short and few: a worker to which one cannot be sent reads nothing.
bool RoundSocket::send_to(Client& client, const std::string& message) {
  const auto sent = ::send(client.socket.native_handle(), message.data(), message.size(),
                           MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent == static_cast<ssize_t>(message.size());
}

}  // namespace cpprun::io

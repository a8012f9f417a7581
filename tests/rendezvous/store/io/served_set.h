// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A ConnectionSet with one store, driven by the test itself: the server works only while the test
// waits for something, in one thread, over real sockets on loopback.

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <netinet/in.h>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "rendezvous/store/io/connection_set.h"

namespace cpprun {

// A client that sends exactly the bytes of the test.
class RawClient {
 public:
  RawClient() = default;
  explicit RawClient(std::uint16_t port) : RawClient(new_socket()) { dial(port); }
  explicit RawClient(FileDescriptor socket) : socket_(std::move(socket)) {}

  static FileDescriptor new_socket() {
    return FileDescriptor(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  }

  void dial(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    const int result =
        connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
    REQUIRE((result == 0 || errno == EINPROGRESS));
  }

  // Sends what the kernel accepts and returns its size.
  std::size_t offer(std::string_view bytes) const {
    const ssize_t count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return count > 0 ? static_cast<std::size_t>(count) : 0;
  }

  // Reads what has arrived.
  void listen_now() {
    char bytes[65536];
    while (true) {
      const ssize_t count = ::recv(socket_.get(), bytes, sizeof bytes, 0);
      if (count > 0) {
        heard.append(bytes, static_cast<std::size_t>(count));
        continue;
      }
      if (count == 0 || (errno != EAGAIN && errno != EINTR)) was_closed = true;
      return;
    }
  }

  int fd() const { return socket_.get(); }
  void close() { socket_.reset(); }

  std::string heard;
  bool was_closed = false;

 private:
  FileDescriptor socket_;
};

class ServedSet : public StoreHost {
 public:
  explicit ServedSet(ConnectionLimits limits = {}, const std::string& host = "127.0.0.1",
                     c10d::Dialect dialect = c10d::Dialect::undecided)
      : set(limits) {
    const Result<Listening> result =
        set.listen(*this, {.host = host, .port = 0, .dialect = dialect});
    REQUIRE(result);
    listening = *result;
  }

  Result<void> admit(const PeerAddress& peer) override {
    admitted.push_back(peer);
    return refusal.empty() ? Result<void>{} : failure(refusal);
  }
  Store& store() override { return the_store; }
  void adopt_link(FileDescriptor socket, PeerAddress /*peer*/, std::string first_bytes) override {
    links.emplace_back(std::move(socket));
    links.back().heard = std::move(first_bytes);
  }
  void note(Note note) override { notes.push_back(std::move(note)); }

  // Serves until the condition holds; a test that waits longer than ten seconds has failed.
  void until(const std::function<bool()>& condition) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!condition()) {
      REQUIRE(std::chrono::steady_clock::now() < give_up);
      const bool has_more = set.serve(std::chrono::steady_clock::now());
      pollfd watched{set.descriptor(), POLLIN, 0};
      poll(&watched, 1, has_more ? 0 : 1);
    }
  }

  void say(RawClient& client, std::string_view bytes) {
    until([&] {
      bytes.remove_prefix(client.offer(bytes));
      return bytes.empty();
    });
  }
  // The bytes the client has received once that many have arrived.
  std::string hear(RawClient& client, std::size_t count) {
    until([&] {
      client.listen_now();
      return client.heard.size() >= count || client.was_closed;
    });
    std::string heard = client.heard.substr(0, count);
    client.heard.erase(0, count);
    return heard;
  }
  std::string ask(RawClient& client, std::string_view bytes, std::size_t answer_size) {
    say(client, bytes);
    return hear(client, answer_size);
  }
  void until_closed(RawClient& client) {
    until([&] {
      client.listen_now();
      return client.was_closed;
    });
  }
  bool has_note(std::string_view text) const {
    return std::ranges::any_of(notes, [&](const Note& note) { return note.text == text; });
  }

  ConnectionSet set;
  Listening listening;
  Store the_store;
  std::string refusal;
  std::vector<PeerAddress> admitted;
  std::vector<RawClient> links;
  std::vector<Note> notes;
};

}  // namespace cpprun

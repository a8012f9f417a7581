// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/io/status_server.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <functional>
#include <string>
#include <vector>

#include "launcher/control/io/jobs.h"
#include "rendezvous/daemon/bounds.h"
#include "rendezvous/io/socket_address.h"
#include "rendezvous/status/bounds.h"

namespace status_server_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

const std::string get_short = "GET /short HTTP/1.1\r\nHost: localhost\r\n\r\n";
const std::string get_long = "GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n";
constexpr std::size_t long_bytes = 16 * 1024 * 1024;  // more than any socket accepts at once

// The client's end of a connection: it reads only when it is asked to.
struct Client {
  FileDescriptor socket;
  std::string heard;
  bool closed = false;

  void say(std::string_view text) const {
    REQUIRE(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(text.size()));
  }
  void listen() {
    static std::array<char, 256 * 1024> chunk;
    while (!closed) {
      const ssize_t count = ::recv(socket.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
      if (count < 0 && errno == EAGAIN) return;
      if (count <= 0) {
        closed = true;
      } else {
        heard.append(chunk.data(), static_cast<std::size_t>(count));
      }
    }
  }
};

struct Stage {
  using CredentialOf = std::function<Result<Credential>(const http::Request&)>;

  explicit Stage(StatusAccess access = StatusAccess::user, const StatusLimits& limits = {},
                 CredentialOf credential = nullptr)
      : server(io, access,
               {.answer =
                    [this](const http::Request& request, const StatusClient& client) {
                      ++asked;
                      if (while_asked) while_asked();
                      clients.push_back(client);
                      if (request.target == "/later") return http::Response{.ticket = 7};
                      return http::Response{
                          .body = request.target == "/long" ? std::string(long_bytes, 'x') : "ok"};
                    },
                .refused = [this](std::string line) { lines.push_back(std::move(line)); },
                .credential = std::move(credential)},
               limits) {}

  // A client that has connected over loopback, or seems to, and has sent these bytes already.
  Client client(const std::string& first_bytes, const char* from = nullptr) {
    const FileDescriptor door(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const name = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(::bind(door.get(), name, size) == 0);
    REQUIRE(::listen(door.get(), 1) == 0);
    REQUIRE(::getsockname(door.get(), name, &size) == 0);
    Client client{FileDescriptor(::socket(AF_INET, SOCK_STREAM, 0))};
    REQUIRE(::connect(client.socket.get(), name, size) == 0);
    sockaddr_storage peer{};
    size = sizeof peer;
    FileDescriptor accepted(::accept(door.get(), reinterpret_cast<sockaddr*>(&peer), &size));
    if (from != nullptr) {
      auto& seen = reinterpret_cast<sockaddr_in&>(peer);
      REQUIRE(::inet_pton(AF_INET, from, &seen.sin_addr) == 1);
    }
    server.adopt(std::move(accepted), peer_of(peer), first_bytes);
    return client;
  }

  // Runs until that holds, or for ten seconds.
  template <class Holds>
  void until(Holds&& holds) {
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (!holds() && std::chrono::steady_clock::now() < end) io.run_one_for(20ms);
    CHECK(holds());
  }
  void until_closed(Client& client) {
    until([&] {
      client.listen();
      return client.closed;
    });
  }
  void until_heard(Client& client, std::string_view text) {
    until([&] {
      client.listen();
      return client.heard.find(text) != std::string::npos;
    });
  }

  asio::io_context io;
  int asked = 0;
  std::function<void()> while_asked;
  std::vector<StatusClient> clients;  // by request
  std::vector<std::string> lines;
  StatusServer server;
};

}  // namespace

TEST_CASE("a message waits for at most one status answer, however many clients ask") {
  Stage stage(StatusAccess::host);
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const FileDescriptor agent(ends[0]);
  asio::posix::stream_descriptor link(stage.io, ends[1]);
  int answers_before = 0;
  link.async_wait(asio::posix::stream_descriptor::wait_read,
                  [&](const asio::error_code&) { answers_before = stage.asked; });
  // A heartbeat arrives while the first request is being answered.
  stage.while_asked = [&] {
    if (stage.asked == 1) REQUIRE(::send(agent.get(), "x", 1, 0) == 1);
  };
  std::vector<Client> crowd;
  for (int at = 0; at < 10; ++at) crowd.push_back(stage.client(get_short));
  for (Client& each : crowd) stage.until_heard(each, "ok");
  CHECK(stage.asked == 10);
  CHECK(answers_before == 1);
}

TEST_CASE("a client is answered, again and again, and leaves nothing behind") {
  Stage stage;
  Client client = stage.client(get_short);
  stage.until_heard(client, "\r\n\r\nok");
  client.heard.clear();
  client.say(get_short + get_short);
  stage.until([&] {
    client.listen();
    return stage.asked == 3;
  });
  client.socket.reset();
  stage.until([&] { return stage.server.size() == 0; });
  CHECK(stage.lines.empty());
}

TEST_CASE("an answer that takes time is sent when it is ready, and the connection continues") {
  Stage stage;
  Client client = stage.client("GET /later HTTP/1.1\r\nHost: localhost\r\n\r\n");
  stage.until([&] { return stage.asked == 1; });
  client.say(get_short);  // its turn comes after that
  stage.server.answer(8, {.body = "of another client"});
  stage.server.answer(7, {.body = "at last"});
  stage.until_heard(client, "\r\n\r\nat lastHTTP/1.1 200 OK\r\n");
  stage.until_heard(client, "\r\n\r\nok");
  stage.server.answer(7, {.body = "twice"});
  CHECK(client.heard.find("twice") == std::string::npos);
  CHECK(client.heard.find("another") == std::string::npos);
}

TEST_CASE("a command without a result in time is answered as unknown") {
  Stage stage(StatusAccess::user, {.outcome = {}});
  Client client = stage.client("GET /later HTTP/1.1\r\nHost: localhost\r\n\r\n");
  stage.until_heard(client, "HTTP/1.1 503 ");
  stage.until_heard(client, "{\"error\":\"the result is not known yet");
  static_assert(bounds::outcome_timeout < bounds::ask_timeout);
  static_assert(bounds::outcome_timeout > bounds::hand_over_answer);
}

TEST_CASE("the sender of a command is identified, even if all users have read access") {
  Stage stage(StatusAccess::network);
  Client client = stage.client(get_short);
  stage.until_heard(client, "ok");
  client.heard.clear();
  client.say("POST /stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
  stage.until_heard(client, "ok");
  REQUIRE(stage.clients.size() == 2);
  CHECK_FALSE(stage.clients[0].user);
  CHECK(stage.clients[1].by_loopback);
  REQUIRE(stage.clients[1].user);
  CHECK(*stage.clients[1].user == ::geteuid());
}

TEST_CASE("a client without access receives the reason, and its request is not processed") {
  Stage stage(StatusAccess::none);
  Client client = stage.client(get_short);
  stage.until_closed(client);
  CHECK(client.heard.starts_with("HTTP/1.1 403 Forbidden\r\n"));
  CHECK(client.heard.ends_with("read access is disabled (--status-access=none)\n"));
  CHECK(stage.asked == 0);
  REQUIRE(stage.lines.size() == 1);
  CHECK(stage.lines[0].find("no read access: read access is disabled") != std::string::npos);
}

TEST_CASE("an invalid request is rejected, and the connection closed") {
  Stage stage;
  Client client = stage.client("GET nothing\r\n\r\n");
  stage.until_closed(client);
  CHECK(client.heard.starts_with("HTTP/1.1 "));
  CHECK(client.heard.find("Connection: close\r\n") != std::string::npos);
  client.socket.reset();
  stage.until([&] { return stage.server.size() == 0; });
}

TEST_CASE("a slowly sent request has the same timeout as an incomplete one") {
  Stage stage(StatusAccess::user, {.request = 200ms});
  Client client = stage.client("GET / HT");
  std::size_t said = 0;
  stage.until([&] {
    client.listen();
    // One byte per turn, as a slow loris sends them; the last ones find a closed connection.
    if (!client.closed) said += ::send(client.socket.get(), "x", 1, MSG_NOSIGNAL) == 1 ? 1 : 0;
    return client.closed;
  });
  CHECK(said > 0);
  CHECK(stage.asked == 0);
  // A fast trickle is answered with an error, and the client has to hang up as well.
  client.socket.reset();
  stage.until([&] { return stage.server.size() == 0; });
}

TEST_CASE("an idle connection is closed after a while") {
  Stage stage(StatusAccess::user, {.idle = 100ms});
  Client client = stage.client(get_short);
  stage.until_closed(client);
  CHECK(client.heard.ends_with("ok"));
}

TEST_CASE("a watcher that never reads is dropped, and others are answered meanwhile") {
  Stage stage(StatusAccess::user, {.answer = 300ms});
  Client lazy = stage.client(get_long);
  stage.until([&] { return stage.asked == 1; });
  Client other = stage.client(get_short);
  stage.until_heard(other, "ok");
  CHECK(stage.server.size() == 2);
  stage.until([&] { return stage.server.size() == 1; });
  lazy.listen();
  CHECK(lazy.heard.size() < long_bytes);
}

TEST_CASE("a long answer arrives complete") {
  Stage stage;
  Client client = stage.client(get_long);
  stage.until([&] {
    client.listen();
    return client.heard.size() > long_bytes;
  });
  CHECK(client.heard.ends_with("\r\n\r\n" + std::string(long_bytes, 'x')));
}

TEST_CASE("without room, the longest idle connection is closed") {
  Stage stage(StatusAccess::user, {.connections = 2});
  Client first = stage.client(get_short);
  stage.until_heard(first, "ok");
  Client second = stage.client(get_short);
  stage.until_heard(second, "ok");
  Client third = stage.client(get_short);
  stage.until_heard(third, "ok");
  stage.until_closed(first);
  second.listen();
  CHECK_FALSE(second.closed);
  CHECK(stage.server.size() == 2);
}

TEST_CASE("a client without access is rejected once, and its connection is closed") {
  Stage stage(StatusAccess::user, {},
              [](const http::Request&) -> Result<Credential> { return failure("invalid token"); });
  Client none = stage.client(get_short + get_short, "10.0.0.9");
  stage.until_closed(none);
  const auto first = none.heard.find("401 Unauthorized");
  CHECK(first != std::string::npos);
  CHECK(none.heard.find("401 Unauthorized", first + 1) == std::string::npos);
  CHECK(stage.asked == 0);
}

TEST_CASE("unauthenticated clients do not block a client with access, and the watcher stays") {
  Stage stage(StatusAccess::user, {.connections = 3});
  Client own = stage.client(get_short);
  stage.until_heard(own, "ok");
  std::vector<Client> unidentified_connections;
  for (int at = 0; at < 50; ++at)
    unidentified_connections.push_back(stage.client("GET /", "10.0.0.9"));
  own.heard.clear();
  own.say(get_short);
  stage.until_heard(own, "ok");
  Client next = stage.client(get_short);
  stage.until_heard(next, "ok");
  CHECK_FALSE(own.closed);
}

TEST_CASE("the number of watchers is limited") {
  Stage stage(StatusAccess::user, {.connections = 4});
  std::vector<Client> crowd;
  for (int at = 0; at < 200; ++at) {
    crowd.push_back(stage.client("GET / "));
    CHECK(stage.server.size() <= 4);
  }
  Client last = stage.client(get_short);
  stage.until_heard(last, "ok");
}

TEST_CASE("while all connections are being answered, the next one is rejected, with a log line") {
  Stage stage(StatusAccess::user, {.connections = 1});
  Client lazy = stage.client(get_long);
  stage.until([&] { return stage.asked == 1; });
  Client next = stage.client(get_short);
  stage.until_closed(next);
  CHECK(next.heard.empty());
  REQUIRE(stage.lines.size() == 1);
  CHECK(stage.lines[0].find("rejected, because") != std::string::npos);
}

TEST_CASE("a server that ends closes its connections") {
  Client client;
  {
    Stage stage;
    client = stage.client("GET /");
  }
  client.listen();
  CHECK(client.closed);
}

}  // namespace status_server_test

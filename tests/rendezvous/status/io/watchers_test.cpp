// SPDX-License-Identifier: BSD-3-Clause
// Requests for a streamed answer, over the control socket.

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <asio/io_context.hpp>
#include <string>
#include <vector>

#include "rendezvous/status/io/status_server.h"

namespace watchers_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

const std::string watch = "GET /watch HTTP/1.1\r\nHost: localhost\r\n\r\n";

struct Watcher {
  FileDescriptor socket;
  std::string heard;
  bool closed = false;

  void listen() {
    static std::array<char, 64 * 1024> chunk;
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
  explicit Stage(const StatusLimits& limits = {})
      : server(io, StatusAccess::user,
               {.answer =
                    [](const http::Request& request, const StatusClient&) {
                      return http::Response{.body = "first\n",
                                            .goes_on = request.target == "/watch"};
                    },
                .refused = [this](std::string line) { lines.push_back(std::move(line)); }},
               limits) {}

  Watcher come(const std::string& request = watch, std::uint32_t user = ::geteuid()) {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    Watcher watcher{FileDescriptor(ends[0])};
    server.adopt_local(FileDescriptor(ends[1]), user);
    REQUIRE(::send(ends[0], request.data(), request.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(request.size()));
    return watcher;
  }
  template <class Holds>
  void until(Holds&& holds) {
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (!holds() && std::chrono::steady_clock::now() < end) io.run_one_for(20ms);
    CHECK(holds());
  }
  void until_heard(Watcher& watcher, std::string_view text) {
    until([&] {
      watcher.listen();
      return watcher.heard.find(text) != std::string::npos;
    });
  }

  asio::io_context io;
  std::vector<std::string> lines;
  StatusServer server;
};

}  // namespace

TEST_CASE("a watcher receives the current state, and then every event") {
  Stage stage;
  Watcher watcher = stage.come();
  stage.until_heard(watcher, "\r\n\r\nfirst\n");
  CHECK(watcher.heard.find("Content-Length") == std::string::npos);
  CHECK(stage.server.watchers() == 1);
  stage.server.tell_watchers("one\n");
  stage.server.tell_watchers("two\n");
  stage.until_heard(watcher, "first\none\ntwo\n");
  watcher.socket.reset();
  stage.until([&] { return stage.server.size() == 0; });
  CHECK(stage.server.watchers() == 0);
}

TEST_CASE("other requests are answered meanwhile, and only watchers receive events") {
  Stage stage;
  Watcher watcher = stage.come();
  stage.until_heard(watcher, "first");
  Watcher other = stage.come("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  stage.until_heard(other, "Content-Length: 6\r\n\r\nfirst\n");
  other.heard.clear();
  stage.server.tell_watchers("one\n");
  stage.until_heard(watcher, "one\n");
  other.listen();
  CHECK(other.heard.empty());
}

TEST_CASE("a watcher that never reads is dropped before it exceeds its memory limit") {
  Stage stage({.watcher_bytes = 100'000});
  Watcher lazy = stage.come();
  Watcher busy = stage.come();
  stage.until_heard(lazy, "first");
  stage.until_heard(busy, "first");
  const std::string much(50'000, 'x');
  std::size_t sent_bytes = 0;
  stage.until([&] {
    stage.server.tell_watchers(much);
    sent_bytes += much.size();
    busy.listen();
    return stage.server.watchers() == 1;
  });
  CHECK(sent_bytes < 10'000'000);
  stage.server.tell_watchers("last\n");
  stage.until_heard(busy, "last\n");
}

TEST_CASE("the number of watchers is limited, and the next one is rejected") {
  Stage stage({.connections = 4, .watchers = 2});
  Watcher first = stage.come();
  Watcher second = stage.come();
  stage.until_heard(first, "first");
  stage.until_heard(second, "first");
  Watcher third = stage.come();
  stage.until_heard(third, "2 clients already follow the events");
  CHECK(third.heard.starts_with("HTTP/1.1 503 "));
  CHECK(stage.server.watchers() == 2);
}

TEST_CASE("a keep-alive is sent while there is a watcher, and there are no wakeups otherwise") {
  Stage stage({.keep_alive = 20ms});
  Watcher watcher = stage.come();
  stage.until_heard(watcher, "first\n:\n\n:\n\n");
  watcher.socket.reset();
  stage.until([&] { return stage.server.size() == 0; });
  // Work in progress ends, and nothing follows.
  while (stage.io.run_one_for(200ms) > 0) continue;
  CHECK(stage.io.stopped());
}

TEST_CASE("another user is rejected at the socket, too") {
  Stage stage;
  Watcher none = stage.come(watch, ::geteuid() + 1);
  stage.until([&] {
    none.listen();
    return none.closed;
  });
  CHECK(none.heard.starts_with("HTTP/1.1 403 "));
  REQUIRE(stage.lines.size() == 1);
  CHECK(stage.lines[0].find("no read access: only root and the user that runs this") !=
        std::string::npos);
}

TEST_CASE("a HEAD request for a streamed answer ends after the header") {
  Stage stage;
  Watcher watcher = stage.come("HEAD /watch HTTP/1.1\r\nHost: localhost\r\n\r\n");
  stage.until([&] {
    watcher.listen();
    return watcher.closed;
  });
  CHECK(watcher.heard.ends_with("\r\n\r\n"));
  CHECK(stage.server.watchers() == 0);
}

}  // namespace watchers_test

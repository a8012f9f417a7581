// SPDX-License-Identifier: BSD-3-Clause
// The daemon's log: the daemon keeps serving whatever happens to its log, and the log records every
// job.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "proto/link/codec.h"
#include "rendezvous/client/io/store_client.h"
#include "tests/rendezvous/daemon/cpprund_program.h"
#include "tests/rendezvous/store/io/served_set.h"

namespace cpprund_log_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

// The flags of every daemon in this file.
const std::vector<std::string> on_loopback{"--host", "127.0.0.1", "--port", "0"};

struct Pipe {
  Pipe() {
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    reader = FileDescriptor(ends[0]);
    writer = FileDescriptor(ends[1]);
  }

  // Fills the pipe, which has no active reader.
  void fill() {
    REQUIRE(fcntl(writer.get(), F_SETFL, O_NONBLOCK) == 0);
    const std::string some(4096, '.');
    while (write(writer.get(), some.data(), some.size()) > 0) continue;
    while (write(writer.get(), ".", 1) > 0) continue;
    REQUIRE(fcntl(writer.get(), F_SETFL, 0) == 0);
  }

  // Reads up to and including `words`.
  std::string read_up_to(std::string_view words) {
    std::string text;
    char bytes[4096];
    pollfd watched{reader.get(), POLLIN, 0};
    while (text.find(words) == std::string::npos && poll(&watched, 1, 10'000) == 1) {
      const auto count = read(reader.get(), bytes, sizeof bytes);
      if (count <= 0) break;
      text.append(bytes, static_cast<std::size_t>(count));
    }
    return text;
  }

  FileDescriptor reader;
  FileDescriptor writer;
};

void wait_for(int fd, short events) {
  pollfd watched{fd, events, 0};
  REQUIRE(poll(&watched, 1, 10'000) == 1);
}

// A client that causes a log line, which is written before the client sees its connection close.
void be_unidentified(std::uint16_t port) {
  RawClient scanner(port);
  wait_for(scanner.fd(), POLLOUT);
  REQUIRE(scanner.offer("SSH-2.0-scanner\r\n") > 0);
  while (!scanner.was_closed) {
    wait_for(scanner.fd(), POLLIN);
    scanner.listen_now();
  }
}

void check_still_serves(Program& daemon, std::uint16_t port) {
  for (int at = 0; at < 3; ++at) be_unidentified(port);
  StoreResult<StoreClient> client = StoreClient::open({.host = "127.0.0.1", .port = port});
  REQUIRE(client);
  CHECK(client->add("n", 3) == 3);
  CHECK(daemon.end_with(SIGTERM) == 0);
}

// A job of one node, from start to finish.
void run_a_job(std::uint16_t port, const std::string& name) {
  RawClient agent(port);
  wait_for(agent.fd(), POLLOUT);
  const link::Join join{.job = name, .host = "alpha", .pid = 1, .nodes_min = 1, .nodes_max = 1};
  const std::string words = std::string(link::preamble) + link::encode(join);
  REQUIRE(agent.offer(words) == words.size());
  while (agent.heard.find("sealed") == std::string::npos && !agent.was_closed) {
    wait_for(agent.fd(), POLLIN);
    agent.listen_now();
  }
  const std::string end = link::encode(link::Succeeded{.round = RoundNumber{1}});
  REQUIRE(agent.offer(end) == end.size());
  while (agent.heard.find("finish") == std::string::npos && !agent.was_closed) {
    wait_for(agent.fd(), POLLIN);
    agent.listen_now();
  }
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t times = 0;
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) {
    ++times;
  }
  return times;
}

}  // namespace

TEST_CASE("a full log disk does not stop the daemon") {
  const FileDescriptor full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  if (!full) {
    std::puts("skipped: there is no /dev/full here");
    return;
  }
  Program daemon(on_loopback, full.get());
  check_still_serves(daemon, daemon.port());
}

TEST_CASE("a closed log reader does not stop the daemon") {
  Pipe log;
  Program daemon(on_loopback, log.writer.get());
  const auto port = daemon.port();
  log.reader.reset();
  check_still_serves(daemon, port);
}

TEST_CASE("a daemon without stderr serves and writes no log line into a connection") {
  Program daemon(on_loopback, Program::closed);
  check_still_serves(daemon, daemon.port());
}

TEST_CASE("an unread log does not block the daemon and is complete once it is read") {
  Pipe log;
  log.fill();
  Program daemon(on_loopback, log.writer.get());
  const auto port = daemon.port();
  for (int at = 0; at < 3; ++at) be_unidentified(port);
  run_a_job(port, "unread");
  log.writer.reset();
  const std::string text = log.read_up_to("job \"unread\" is over\n");
  CHECK(count(text, "closed: an SSH client") == 3);
  CHECK(count(text, "job \"unread\" begins") == 1);
  CHECK(daemon.end_with(SIGTERM) == 0);
}

TEST_CASE("every job is logged with a timestamp, even with --quiet") {
  for (const char* flag : {"--quiet", "--log-level=info"}) {
    Pipe log;
    auto arguments = on_loopback;
    arguments.emplace_back(flag);
    Program daemon(arguments, log.writer.get());
    const auto port = daemon.port();
    be_unidentified(port);
    for (int at = 0; at < 20; ++at) run_a_job(port, "job" + std::to_string(at));
    const std::string text = log.read_up_to("job \"job19\" is over\n");
    CHECK(count(text, "begins; its store is on port") == 20);
    CHECK(count(text, "\" is over\n") == 20);
    CHECK(count(text, "more line") == 0);
    CHECK(count(text, "SSH") == (std::string_view(flag) == "--quiet" ? 0 : 1));
    // 2026-01-05T03:04:05.067Z cpprund: …
    CHECK(count(text, "\n") == count(text, "Z cpprund: "));
    CHECK(text.substr(10, 1) == "T");
    CHECK(daemon.end_with(SIGTERM) == 0);
  }
}

TEST_CASE("repeated log lines about the same failure are counted") {
  Pipe log;
  Program daemon(on_loopback, log.writer.get());
  const auto port = daemon.port();
  for (int at = 0; at < 100; ++at) be_unidentified(port);
  run_a_job(port, "mine");
  const std::string text = log.read_up_to("job \"mine\" is over\n");
  CHECK(count(text, "closed: an SSH client") == 5);
  CHECK(daemon.end_with(SIGTERM) == 0);
  CHECK(count(log.read_up_to("more lines"), "Z cpprund: 95 more lines") == 1);
}

TEST_CASE("a client cannot inject a log line") {
  Pipe log;
  Program daemon(on_loopback, log.writer.get());
  const auto port = daemon.port();
  StoreResult<StoreClient> client = StoreClient::open({.host = "127.0.0.1", .port = port});
  REQUIRE(client);
  const std::string key = "k\nZ cpprund: job \"mine\" is over\u009b2J\u202e";
  REQUIRE(client->set(key, "no number"));
  CHECK_FALSE(client->add(key, 1));
  const std::string text = log.read_up_to("is not a number\n");
  CHECK(count(text, "\n") == 3);  // the first are about its secret and the sandbox
  CHECK(text.find("\u009b") == std::string::npos);
  CHECK(text.find("\u202e") == std::string::npos);
  CHECK(daemon.end_with(SIGTERM) == 0);
}

}  // namespace cpprund_log_test

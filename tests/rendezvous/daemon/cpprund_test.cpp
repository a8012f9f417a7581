// SPDX-License-Identifier: BSD-3-Clause
// cpprund from the outside: the line it prints, its exit codes, its log.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <poll.h>
#include <algorithm>
#include <cstdio>
#include <fstream>

#include <csignal>
#include <string>
#include <string_view>
#include <vector>

#include "proto/c10d/codec.h"
#include "proto/link/codec.h"
#include "rendezvous/client/io/store_client.h"
#include "tests/rendezvous/daemon/cpprund_program.h"
#include "tests/rendezvous/store/io/served_set.h"

namespace cpprund_test {

using namespace cpprun;
using namespace std::chrono_literals;

TEST_CASE("cpprund prints its port, serves, and exits cleanly on SIGTERM and SIGINT") {
  for (const int signal : {SIGTERM, SIGINT}) {
    Program daemon({"--port", "0"});
    StoreResult<StoreClient> client =
        StoreClient::open({.host = "127.0.0.1", .port = daemon.port()});
    REQUIRE(client);
    CHECK(client->add("n", 3) == 3);
    CHECK(daemon.end_with(signal) == 0);
  }
}

TEST_CASE("cpprund accepts IPv6 clients") {
  Program daemon({"--port=0"});
  const StoreResult<StoreClient> client =
      StoreClient::open({.host = "::1", .port = daemon.port(), .connect_timeout = 2s});
  if (!client) {
    MESSAGE("skipped, this machine has no IPv6 loopback: " << client.error().reason);
    return;
  }
  CHECK(daemon.end_with(SIGTERM) == 0);
}

TEST_CASE("cpprund names the port that it cannot bind") {
  Program first({"--host", "127.0.0.1", "--port", "0"});
  const std::string port = std::to_string(first.port());
  Program second({"--host", "127.0.0.1", "--port", port});
  CHECK(second.err_line().ends_with("Z cpprund: error: cannot listen on 127.0.0.1:" + port +
                                    ": Address already in use"));
  CHECK(second.exit_code() == 1);
}

TEST_CASE("cpprund rejects an invalid command line") {
  Program unknown({"--prot", "1"});
  CHECK(unknown.exit_code() == 2);
  Program no_number({"--port", "http"});
  CHECK(no_number.err_line().starts_with("cpprund: "));
  CHECK(no_number.exit_code() == 2);
  Program contradiction({"--quiet", "--verbose"});
  CHECK(contradiction.exit_code() == 2);
}

TEST_CASE("cpprund says why it has no password for etcd") {
  const auto error_with = [](const std::string& file) {
    Program daemon({"--port=0", "--no-secret", "--etcd=http://127.0.0.1:1", "--etcd-user=me",
                    "--etcd-password-file=" + file});
    const std::string line = daemon.err_line();
    CHECK(daemon.exit_code() == 1);
    return line;
  };
  CHECK(error_with("/dev/null/password")
            .ends_with("error: --etcd-password-file: \"/dev/null/password\" cannot be read: Not a "
                       "directory"));
  CHECK(
      error_with("/").ends_with("error: --etcd-password-file: \"/\" cannot be read: Is a "
                                "directory"));
  CHECK(error_with("/dev/null")
            .ends_with("error: --etcd-password-file: \"/dev/null\" has an empty first line"));
}

TEST_CASE("cpprund logs which client it closed and why") {
  Program daemon({"--host", "127.0.0.1", "--port", "0"});
  RawClient scanner(daemon.port());
  pollfd connected{scanner.fd(), POLLOUT, 0};
  REQUIRE(poll(&connected, 1, 10'000) == 1);
  CHECK(scanner.offer("SSH-2.0-scanner\r\n") > 0);
  const std::string line = daemon.err_line();
  CHECK(line.find("Z cpprund: 127.0.0.1:") != std::string::npos);
  CHECK(line.ends_with("closed: an SSH client on a port for store clients and agents"));
  CHECK(daemon.end_with(SIGTERM) == 0);
}

TEST_CASE("cpprund closes a client that exceeds its memory limit and serves the others") {
  Program daemon({"--host", "127.0.0.1", "--port", "0", "--max-memory", "64MiB"});
  const std::uint16_t port = daemon.port();
  StoreResult<StoreClient> modest = StoreClient::open({.host = "127.0.0.1", .port = port});
  StoreResult<StoreClient> greedy = StoreClient::open({.host = "127.0.0.1", .port = port});
  REQUIRE(modest);
  REQUIRE(greedy);
  CHECK(modest->set("k", "v"));
  // One address may use half of it.
  (void)greedy->set("k", std::string(40 << 20, 'v'));
  const std::string line = daemon.err_line();
  CHECK(line.find("closed: its address holds ") != std::string::npos);
  CHECK(line.ends_with(" of at most 32.0 MiB"));
  CHECK(modest->get("k", 10s) == "v");
  CHECK(daemon.end_with(SIGTERM) == 0);
}

TEST_CASE("cpprund closes the client when an allocation fails and keeps running") {
#ifdef __SANITIZE_ADDRESS__
  std::puts("skipped: a sanitizer needs address space of its own");
#else
  Program daemon({"--host", "127.0.0.1", "--port", "0", "--max-memory", "4GiB"});
  const std::uint16_t port = daemon.port();
  StoreResult<StoreClient> modest = StoreClient::open({.host = "127.0.0.1", .port = port});
  StoreResult<StoreClient> greedy = StoreClient::open({.host = "127.0.0.1", .port = port});
  REQUIRE(modest);
  REQUIRE(greedy);
  CHECK(modest->set("k", "v"));
  daemon.limit_memory(rlim_t{100} << 20);
  (void)greedy->set("k", std::string(200 << 20, 'v'));
  CHECK(daemon.err_line().ends_with("closed: out of memory"));
  CHECK(modest->get("k", 10s) == "v");
  CHECK(daemon.end_with(SIGTERM) == 0);
#endif
}

TEST_CASE("cpprund handles signals that its parent has blocked or ignored") {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  REQUIRE(::pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
  Program daemon({"--host", "127.0.0.1", "--port", "0"},
                 Program::Setting{.words = "trap '' CHLD TERM INT; exec"});
  REQUIRE(::pthread_sigmask(SIG_SETMASK, &before, nullptr) == 0);
  StoreResult<StoreClient> client = StoreClient::open({.host = "127.0.0.1", .port = daemon.port()});
  REQUIRE(client);
  CHECK(client->add("n", 3) == 3);
  std::ifstream status(fmt::format("/proc/{}/status", daemon.pid()));
  constexpr std::uint64_t child_ended = std::uint64_t{1} << (SIGCHLD - 1);
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigBlk:")) CHECK(std::stoull(line.substr(7), nullptr, 16) == 0);
    if (line.starts_with("SigIgn:")) {
      CHECK((std::stoull(line.substr(7), nullptr, 16) & child_ended) == 0);
    }
  }
  CHECK(daemon.end_with(SIGTERM) == 0);
}

TEST_CASE("a start without enough descriptors fails with an error and exit code 1") {
#ifdef __SANITIZE_ADDRESS__
  std::puts("skipped: a sanitizer needs address space and descriptors of its own");
#else
  for (const char* const words : {"ulimit -n 7 && exec", "ulimit -n 9 && exec"}) {
    CAPTURE(words);
    Program daemon({"--host", "127.0.0.1", "--port", "0"}, Program::Setting{.words = words});
    std::string line = daemon.err_line();
    while (!line.empty() && line.find("oo many open files") == std::string::npos) {
      line = daemon.err_line();
    }
    CHECK(line.find("cpprund: ") != std::string::npos);
    CHECK(daemon.exit_code() == 1);
  }
#endif
}

TEST_CASE("cpprund starts without stdin and stderr") {
  Program daemon({"--host", "127.0.0.1", "--port", "0", "--status-access", "none"},
                 Program::Setting{.words = "exec 0<&- 2>&-; exec"});
  StoreResult<StoreClient> client = StoreClient::open({.host = "127.0.0.1", .port = daemon.port()});
  REQUIRE(client);
  CHECK(client->add("n", 3) == 3);
  CHECK(daemon.end_with(SIGTERM) == 0);
}

TEST_CASE("a daemon answers only to its advertised names") {
  Program daemon({"--host", "127.0.0.1", "--port", "0", "--advertise", "Head.Example.org:29400",
                  "--status-access", "network"});
  const std::uint16_t port = daemon.port();
  const auto status_for = [port](const std::string& host) {
    RawClient client(port);
    pollfd watched{client.fd(), POLLOUT, 0};
    REQUIRE(poll(&watched, 1, 10'000) == 1);
    (void)client.offer("GET /healthz HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n");
    watched.events = POLLIN;
    while (!client.was_closed && poll(&watched, 1, 10'000) == 1) client.listen_now();
    return client.heard.substr(0, client.heard.find('\r'));
  };
  CHECK(status_for("head.example.org:29400") == "HTTP/1.1 200 OK");
  CHECK(status_for("head.example.org.") == "HTTP/1.1 200 OK");
  CHECK(status_for("evil.example.org").starts_with("HTTP/1.1 421"));
  CHECK(daemon.end_with(SIGTERM) == 0);
}

TEST_CASE("a daemon with --no-plain-store closes a store client and logs why") {
  Program daemon({"--host", "127.0.0.1", "--port", "0", "--no-plain-store"});
  RawClient client(daemon.port());
  pollfd watched{client.fd(), POLLOUT, 0};
  REQUIRE(poll(&watched, 1, 10'000) == 1);
  // The first bytes of a client of PyTorch 2.2 or later.
  CHECK(client.offer(std::string_view("\0\xCE\xF7\x85\x3C", 5)) == 5);
  CHECK(daemon.err_line().ends_with("closed: this daemon serves jobs only (--no-plain-store)"));
  CHECK(daemon.end_with(SIGTERM) == 0);
}

namespace {

// The first bytes of a client of PyTorch 2.2 or later.
constexpr std::string_view validation("\0\xCE\xF7\x85\x3C", 5);

std::vector<RawClient> crowd_of(std::size_t count, std::uint16_t port, std::string_view words) {
  std::vector<RawClient> crowd;
  for (std::size_t at = 0; at < count; ++at) {
    RawClient& each = crowd.emplace_back(port);
    pollfd watched{each.fd(), POLLOUT, 0};
    REQUIRE(poll(&watched, 1, 10'000) == 1);
    if (!words.empty()) (void)each.offer(words);
  }
  return crowd;
}

// An agent that joins a job of its own and reads the replies.
RawClient agent_of(std::uint16_t port, const std::string& job) {
  RawClient agent(port);
  pollfd watched{agent.fd(), POLLOUT, 0};
  REQUIRE(poll(&watched, 1, 10'000) == 1);
  const link::Join join{
      .job = job, .host = "alpha", .pid = 1, .nodes_min = 1, .nodes_max = 1, .lease = 120s};
  (void)agent.offer(std::string(link::preamble) + link::encode(join));
  watched.events = POLLIN;
  while (!agent.was_closed && agent.heard.find("sealed") == std::string::npos &&
         poll(&watched, 1, 10'000) == 1) {
    agent.listen_now();
  }
  return agent;
}

bool has_seat(const RawClient& agent) {
  return agent.heard.find("sealed") != std::string::npos;
}

bool seats_an_agent(std::uint16_t port) {
  return has_seat(agent_of(port, "j"));
}

}  // namespace

namespace {

[[maybe_unused]] std::size_t resident_kib(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoul(line.substr(6));
  }
  return 0;
}

// Opens a link and sends a message without its last byte.
[[maybe_unused]] void begin_torn_message(RawClient& link) {
  constexpr std::size_t length = 31 * 1024;
  std::string bytes(link::preamble);
  bytes += {0, static_cast<char>(length >> 8), 0, 0};
  bytes.append(length - 1, ' ');
  pollfd watched{link.fd(), POLLOUT, 0};
  for (std::string_view left = bytes; !left.empty() && poll(&watched, 1, 10'000) == 1;) {
    const std::size_t taken = link.offer(left);
    if (taken == 0) return;
    left.remove_prefix(taken);
  }
}

}  // namespace

TEST_CASE("incomplete messages on many links stay within the memory limit") {
#ifdef __SANITIZE_ADDRESS__
  std::puts("skipped: a sanitizer keeps freed memory");
#else
  rlimit files{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &files) == 0);
  files.rlim_cur = files.rlim_max;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &files) == 0);
  Program daemon({"--host", "127.0.0.1", "--port", "0", "--max-memory", "8MiB"});
  const std::uint16_t port = daemon.port();
  StoreResult<StoreClient> modest = StoreClient::open({.host = "127.0.0.1", .port = port});
  REQUIRE(modest);
  CHECK(modest->set("k", "v"));
  const std::size_t before = resident_kib(daemon.pid());
  std::vector<RawClient> links;
  for (int at = 0; at < 1500; ++at) begin_torn_message(links.emplace_back(port));
  // When the last links are answered, the daemon has read all bytes of the first ones.
  for (RawClient& each : links) {
    pollfd watched{each.fd(), POLLIN, 0};
    REQUIRE(poll(&watched, 1, 10'000) == 1);
    each.listen_now();
  }
  const std::string line = daemon.err_line();
  CHECK(line.find("Z cpprund: 127.0.0.1:") != std::string::npos);
  CHECK(line.find(" closed: its address holds ") != std::string::npos);
  CHECK(line.ends_with(" of at most 4.0 MiB"));
  CHECK(modest->get("k", 10s) == "v");
  CHECK(resident_kib(daemon.pid()) < before + 16 * 1024);
  // An agent still gets a seat: small messages have a reserve.
  CHECK(seats_an_agent(port));
  CHECK(daemon.end_with(SIGTERM) == 0);
#endif
}

TEST_CASE("a full daemon drops a job without connected nodes for a new job") {
  Program daemon({"--host", "127.0.0.1", "--port", "0", "--max-jobs", "2"});
  const auto port = daemon.port();
  const RawClient stays = agent_of(port, "stays");
  REQUIRE(has_seat(stays));
  REQUIRE(has_seat(agent_of(port, "gone")));
  std::string line = daemon.err_line();
  while (!line.empty() && line.find("\"gone\": lost contact with") == std::string::npos) {
    line = daemon.err_line();
  }
  const RawClient next = agent_of(port, "next");
  CHECK(has_seat(next));
  CHECK(daemon.err_line().ends_with(
      "Z cpprund: warning: job \"gone\" was dropped for a new job: all 2 slots are taken "
      "(--max-jobs), and none of its nodes is connected"));
  // A job with connected nodes keeps its slot.
  const RawClient refused = agent_of(port, "refused");
  CHECK(refused.heard.find("this daemon runs 2 jobs, the maximum") != std::string::npos);
  CHECK(daemon.end_with(SIGTERM) == 0);
}

TEST_CASE("cpprund closes clients when many small waits exhaust memory and keeps running") {
#ifdef __SANITIZE_ADDRESS__
  std::puts("skipped: a sanitizer needs address space of its own");
#else
  Program daemon({"--host", "127.0.0.1", "--port", "0", "--max-memory", "4GiB", "--quiet"});
  const auto port = daemon.port();
  StoreResult<StoreClient> modest = StoreClient::open({.host = "127.0.0.1", .port = port});
  REQUIRE(modest);
  CHECK(modest->set("k", "v"));
  daemon.limit_memory(rlim_t{60} << 20);
  std::vector<RawClient> crowd;
  bool any_was_closed = false;
  for (int client = 0; client < 1000 && !any_was_closed; ++client) {
    std::vector<std::string> keys;
    for (int key = 0; key < 500; ++key) {
      keys.push_back(fmt::format("{:60}", fmt::format("{}.{}", client, key)));
    }
    const std::vector<c10d::Bytes> names(keys.begin(), keys.end());
    std::string bytes(validation);
    REQUIRE(c10d::encode(c10d::Wait{names}, c10d::Dialect::d, bytes));
    RawClient& each = crowd.emplace_back(port);
    pollfd watched{each.fd(), POLLOUT, 0};
    for (std::string_view left = bytes; !left.empty() && poll(&watched, 1, 10'000) == 1;) {
      const std::size_t taken = each.offer(left);
      if (taken == 0) break;
      left.remove_prefix(taken);
    }
    // The client is answered or closed before the next one connects.
    CHECK(modest->get("k", 10s) == "v");
    for (RawClient& other : crowd) other.listen_now();
    any_was_closed = std::ranges::any_of(crowd, &RawClient::was_closed);
  }
  CHECK(any_was_closed);
  CHECK(modest->get("k", 10s) == "v");
  CHECK(daemon.end_with(SIGTERM) == 0);
#endif
}

TEST_CASE("a log file at its size limit does not stop the daemon") {
  const FileDescriptor log(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  REQUIRE(log);
  // The process that writes the log inherits the limit.
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit small{256, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  Program daemon({"--host", "127.0.0.1", "--port", "0"}, log.get());
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto port = daemon.port();
  const auto unidentified_connections = crowd_of(10, port, "SSH-2.0-scanner\r\n");
  StoreResult<StoreClient> client = StoreClient::open({.host = "127.0.0.1", .port = port});
  REQUIRE(client);
  CHECK(client->add("n", 3) == 3);
  CHECK(daemon.end_with(SIGTERM) == 0);
  CHECK(::lseek(log.get(), 0, SEEK_END) == 256);
}

TEST_CASE("an agent gets a seat even if silent connections exhaust the descriptors") {
#ifdef __SANITIZE_ADDRESS__
  std::puts("skipped: a sanitizer needs descriptors of its own");
#else
  Program daemon({"--host", "127.0.0.1", "--port", "0"}, Program::read_here, true);
  const auto port = daemon.port();
  const auto crowd = crowd_of(400, port, "");
  CHECK(seats_an_agent(port));
  CHECK(daemon.err_line().ends_with(
      "closed: idle, and its file descriptor is needed for others (raise ulimit -Hn)"));
  StoreResult<StoreClient> client = StoreClient::open({.host = "127.0.0.1", .port = port});
  REQUIRE(client);
  CHECK(client->add("n", 3) == 3);
  CHECK(daemon.end_with(SIGTERM) == 0);
#endif
}

TEST_CASE("an agent gets a seat even if store clients exhaust the descriptors") {
  Program daemon({"--host", "127.0.0.1", "--port", "0"}, Program::read_here, true);
  const auto port = daemon.port();
  const auto crowd = crowd_of(400, port, validation);
  CHECK(seats_an_agent(port));
  // Connects clients until the last slot that is not reserved for agents is taken.
  const std::string ping = std::string(validation) + std::string("\x0D\1\2\3\4", 5);
  std::vector<RawClient> others;
  while (others.empty() || !others.back().was_closed) {
    REQUIRE(others.size() < 300);
    auto one = crowd_of(1, port, ping);
    pollfd watched{one.front().fd(), POLLIN, 0};
    REQUIRE(poll(&watched, 1, 10'000) == 1);
    one.front().listen_now();
    others.push_back(std::move(one.front()));
  }
  std::string line = daemon.err_line();
  while (!line.empty() && !line.ends_with("are reserved for agents; raise the limit of open "
                                          "files (ulimit -Hn)")) {
    line = daemon.err_line();
  }
  CHECK_FALSE(line.empty());
  CHECK(seats_an_agent(port));
  CHECK(daemon.end_with(SIGTERM) == 0);
}

}  // namespace cpprund_test

// SPDX-License-Identifier: BSD-3-Clause
// A running job as seen from outside: every address, a worker that dies, requests of unidentified
// connections, and read access. With the finished programs.

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/integration/command.h"
#include "tests/integration/sockets.h"

namespace status_test {

using namespace cpprun::integration;
using nlohmann::json;

namespace {

constexpr int other_uid = 65534;

// Everything that arrives until the other side closes.
std::string read_all(const cpprun::FileDescriptor& socket) {
  std::string text;
  char chunk[4096];
  pollfd watched{socket.get(), POLLIN, 0};
  while (::poll(&watched, 1, 60'000) == 1) {
    const ssize_t count = ::read(socket.get(), chunk, sizeof chunk);
    if (count <= 0) break;
    text.append(chunk, static_cast<std::size_t>(count));
  }
  return text;
}

std::string ask(int port, const std::string& request) {
  return read_all(speak(port, request));
}

std::string get(int port, const std::string& target, const std::string& method = "GET") {
  return ask(port, method + " " + target + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) +
                       "\r\nConnection: close\r\n\r\n");
}

std::string body_of(const std::string& answer) {
  REQUIRE(answer.starts_with("HTTP/1.1 200 OK\r\n"));
  return answer.substr(answer.find("\r\n\r\n") + 4);
}

json look(int port, const std::string& target) {
  return json::parse(body_of(get(port, target)));
}

// Two workers that hang, each of which prints its rank and its pid.
Words job(int port, const Words& options = {}) {
  Words words = {"--nnodes=1", "--nproc-per-node=2", "--rdzv-id=seen", "--master-addr=127.0.0.1",
                 "--master-port=" + std::to_string(port)};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--no-python", worker(), "pid", "hang"});
  return with_cpprun(words);
}

// The pid that the worker of that rank has printed.
pid_t pid_of(const Command& command, int rank) {
  const std::string begin = "pid of rank " + std::to_string(rank) + ": ";
  const auto at = command.out().rfind(begin);
  REQUIRE(at != std::string::npos);
  return static_cast<pid_t>(std::stol(command.out().substr(at + begin.size())));
}

// Polls the job until its status satisfies the condition or the timeout passes; returns the last
// status.
template <class Shows>
json look_until(int port, Shows&& shows) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    json seen = look(port, "/api/v1/jobs/seen");
    if (shows(seen) || std::chrono::steady_clock::now() > end) return seen;
    std::this_thread::yield();
  }
}

bool runs_in_round(const json& seen, int round) {
  return seen["state"] == "running" && seen["round"] == round;
}

}  // namespace

TEST_CASE("a job is visible while it runs, and a killed worker is shown with its cause") {
  const int port = free_port();
  Command command(job(port, {"--max-restarts=3"}));
  command.expect_out("\n", 2);
  CHECK(get(port, "/").find("Content-Security-Policy: default-src 'none'") != std::string::npos);
  CHECK(body_of(get(port, "/")).find("<title>cpprun</title>") != std::string::npos);
  CHECK(body_of(get(port, "/healthz")) == "ok\n");
  CHECK(body_of(get(port, "/readyz")) == "ok\n");
  CHECK(body_of(get(port, "/", "HEAD")).empty());
  const json jobs = look(port, "/api/v1/jobs");
  REQUIRE(jobs["jobs"].size() == 1);
  CHECK(jobs["jobs"][0]["job"] == "seen");
  const json first = look(port, "/api/v1/jobs/seen");
  CHECK(runs_in_round(first, 1));
  CHECK(first["restarts_left"] == 3);
  CHECK(first["world_size"] == 2);
  const json nodes = look(port, "/api/v1/jobs/seen/nodes");
  REQUIRE(nodes["nodes"].size() == 1);
  CHECK(nodes["nodes"][0]["pid"] == command.pid());
  CHECK(nodes["nodes"][0]["hosts_coordinator"] == true);

  ::kill(pid_of(command, 1), SIGKILL);
  const json again = look_until(port, [](const json& seen) { return runs_in_round(seen, 2); });
  REQUIRE(runs_in_round(again, 2));
  CHECK(again["restarts"] == 1);
  CHECK(again["restarts_left"] == 2);
  const json& failure = again["rounds"][0]["failure"];
  CHECK(failure["rank"] == 1);
  CHECK(failure["signal"] == "SIGKILL");
  CHECK(failure["exit_code"] == 137);
  const std::string metrics = body_of(get(port, "/metrics"));
  CHECK(contains(metrics, "cpprun_rounds_total{run_id=\"seen\"} 2\n"));
  CHECK(contains(metrics, "cpprun_restarts_left{run_id=\"seen\"} 2\n"));
  CHECK(contains(metrics, "cpprun_workers{run_id=\"seen\"} 2\n"));

  command.signal(SIGTERM);
  CHECK(command.wait().code == 128 + SIGTERM);
  command.expect_no_worker_left();
}

TEST_CASE("a daemon shows the jobs that meet at it") {
  const int port = free_port();
  Command daemon({from_build("CPPRUND"), "--host=127.0.0.1", "--port=" + std::to_string(port)});
  daemon.expect_out("listening");
  CHECK(look(port, "/api/v1/jobs")["jobs"].empty());
  Command command(with_cpprun({"--nnodes=1:2", "--rdzv-backend=c10d", "--rdzv-id=seen",
                               "--rdzv-endpoint=127.0.0.1:" + std::to_string(port),
                               "--rdzv-conf=last_call_timeout=0.1", "--store=direct", "--no-python",
                               worker(), "pid", "hang"}));
  command.expect_out("\n");
  daemon.expect_err("its store is on port ");
  const json seen = look(port, "/api/v1/jobs/seen");
  CHECK(runs_in_round(seen, 1));
  CHECK(seen["nodes_max"] == 2);
  CHECK_FALSE(look(port, "/api/v1/jobs/seen/nodes")["nodes"][0]["silence"].is_null());
  // The port of its store shows nothing.
  const auto at = daemon.err().find("its store is on port ");
  REQUIRE(at != std::string::npos);
  CHECK(get(std::stoi(daemon.err().substr(at + 21)), "/").empty());
  command.signal(SIGTERM);
  command.wait();
  daemon.signal(SIGTERM);
  CHECK(daemon.wait().code == 0);
}

TEST_CASE("an event id of an earlier cpprund brings all events, with a remark") {
  const int port = free_port();
  const auto place = "127.0.0.1:" + std::to_string(port);
  const auto with_job = [&](const Words& headers) {
    Command daemon({from_build("CPPRUND"), "--host=127.0.0.1", "--port=" + std::to_string(port)});
    daemon.expect_out("listening");
    Command command(with_cpprun({"--nnodes=1:2", "--rdzv-backend=c10d", "--rdzv-id=seen",
                                 "--rdzv-endpoint=" + place, "--rdzv-conf=last_call_timeout=0.1",
                                 "--no-python", worker(), "pid", "hang"}));
    command.expect_out("\n");
    Words words{"curl", "-sN", "http://" + place + "/api/v1/events"};
    words.insert(words.end(), headers.begin(), headers.end());
    Command watch(words);
    watch.expect_out("round_sealed");
    std::string seen = watch.out();
    for (Command* const each : {&watch, &command, &daemon}) {
      each->signal(SIGTERM);
      each->wait();
    }
    return seen;
  };
  const std::string first = with_job({});
  const auto at = first.rfind("\nid: ");
  REQUIRE_MESSAGE(at != std::string::npos, first);
  const std::string id = first.substr(at + 5, first.find('\n', at + 1) - at - 5);
  const std::string second = with_job({"-H", "Last-Event-ID: " + id});
  CHECK_MESSAGE(contains(second, "Last-Event-ID is from another run"), second);
  CHECK_MESSAGE(contains(second, "node_joined"), second);  // the first event of this run
}

TEST_CASE("hostile requests get a status and a closed connection, and the job is not affected") {
  const int port = free_port();
  Command command(job(port));
  command.expect_out("\n", 2);
  const std::string own = "Host: 127.0.0.1\r\n";
  const auto status = [&](const std::string& request) { return ask(port, request).substr(9, 3); };
  CHECK(status("GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n") == "421");
  CHECK(status("POST /api/v1/jobs/seen HTTP/1.1\r\n" + own + "Connection: close\r\n\r\n") == "405");
  CHECK(status("DELETE / HTTP/1.1\r\n" + own + "\r\n") == "405");
  CHECK(status("GET / HTTP/1.1\r\n\r\n") == "400");
  CHECK(status("GET / HTTP/1.1\r\n" + own + "X: " + std::string(9000, 'x') + "\r\n\r\n") == "431");
  CHECK(status("POST / HTTP/1.1\r\n" + own + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n") ==
        "501");
  CHECK(status("POST / HTTP/1.1\r\n" + own + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx") ==
        "400");
  CHECK(status("GET /etc/passwd HTTP/1.1\r\n" + own + "Connection: close\r\n\r\n") == "404");
  CHECK(status("GET /api/v1/jobs/%ff HTTP/1.0\r\n\r\n") == "404");
  // Many clients send half a request and stay: later clients still get a place.
  std::vector<cpprun::FileDescriptor> crowd;
  for (int at = 0; at < 100; ++at) crowd.push_back(speak(port, "GET / HTT"));
  CHECK(runs_in_round(look(port, "/api/v1/jobs/seen"), 1));
  CHECK(look(port, "/api/v1/jobs/seen")["rounds"][0]["failure"].is_null());
  command.signal(SIGTERM);
  CHECK(command.wait().code == 128 + SIGTERM);
}

TEST_CASE("another user of the machine has no access unless it is granted") {
  if (::geteuid() != 0) return skip("only root can act as another user");
  for (const auto* access : {"user", "host"}) {
    const int port = free_port();
    Command command(job(port, {std::string("--status-access=") + access}));
    command.expect_out("\n", 2);
    CHECK(runs_in_round(look(port, "/api/v1/jobs/seen"), 1));
    int pipe[2];
    REQUIRE(::pipe(pipe) == 0);
    const cpprun::FileDescriptor reader(pipe[0]);
    cpprun::FileDescriptor writer(pipe[1]);
    const pid_t other = ::fork();
    if (other == 0) {
      if (::setresuid(other_uid, other_uid, other_uid) != 0) ::_exit(1);
      const std::string answer = get(port, "/api/v1/jobs/seen");
      ::_exit(::write(writer.get(), answer.data(), answer.size()) > 0 ? 0 : 1);
    }
    writer.reset();
    const std::string answer = read_all(reader);
    int ended = 0;
    REQUIRE(::waitpid(other, &ended, 0) == other);
    CHECK(ended == 0);
    if (std::string_view(access) == "user") {
      // With a secret a token would help.
      CHECK(answer.starts_with(has_secret() ? "HTTP/1.1 401 Unauthorized\r\n"
                                            : "HTTP/1.1 403 Forbidden\r\n"));
      CHECK(contains(answer,
                     "only root and the user that runs this program (uid 0) have read access"));
      CHECK_FALSE(contains(answer, "seen"));
      command.expect_err(has_secret() ? "no access to /api/v1/jobs/seen: only root and the user"
                                      : "no read access: only root and the user that runs this");
    } else {
      CHECK(answer.starts_with("HTTP/1.1 200 OK\r\n"));
    }
    command.signal(SIGTERM);
    command.wait();
  }
}

TEST_CASE("with --status-access=none an HTTP request is treated as an unidentified connection") {
  const int port = free_port();
  Command command(job(port, {"--status-access=none"}));
  command.expect_out("\n", 2);
  CHECK(get(port, "/").empty());
  command.expect_err("closed: an HTTP request on a port for store clients and agents");
  command.signal(SIGTERM);
  command.wait();
}

}  // namespace status_test

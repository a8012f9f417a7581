// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/probe_server.h"

#include <doctest/doctest.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

#include "tests/worker/temporary_directory.h"
#include "worker/env/io/fatal_signals.h"
#include "worker/env/io/thread_stacks.h"

using namespace cpprun;

// Visible in the backtrace of a thread that waits here until the gate opens.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_open = false;
  int waiting = 0;
};
void wait_at_gate(Gate& gate);
[[gnu::noinline]] void wait_at_gate(Gate& gate) {
  std::unique_lock lock(gate.mutex);
  ++gate.waiting;
  gate.changed.notify_all();
  gate.changed.wait(lock, [&] { return gate.is_open; });
}

namespace {

// Threads that wait at a gate, one of which blocks all signals.
class WaitingThreads {
 public:
  WaitingThreads() {
    std::unique_lock lock(gate_.mutex);
    gate_.changed.wait(lock, [this] { return gate_.waiting == 2; });
  }
  ~WaitingThreads() {
    {
      const std::lock_guard lock(gate_.mutex);
      gate_.is_open = true;
    }
    gate_.changed.notify_all();
    plain_.join();
    blocking_.join();
  }
  WaitingThreads(const WaitingThreads&) = delete;
  WaitingThreads& operator=(const WaitingThreads&) = delete;

 private:
  void run(const char* name, bool blocks) {
    ::pthread_setname_np(::pthread_self(), name);
    sigset_t all;
    sigfillset(&all);
    if (blocks) ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
    wait_at_gate(gate_);
  }

  Gate gate_;
  std::thread plain_{[this] { run("plain", false); }};
  std::thread blocking_{[this] { run("blocking", true); }};
};

std::string ask(const std::string& path, const std::string& request) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int client = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(::connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  ::send(client, request.data(), request.size(), MSG_NOSIGNAL);
  ::shutdown(client, SHUT_WR);
  std::string reply;
  char some[4096];
  for (ssize_t got = 0; (got = ::recv(client, some, sizeof some, 0)) > 0;) {
    reply.append(some, static_cast<std::size_t>(got));
  }
  ::close(client);
  return reply;
}

std::string post(const std::string& path, const std::string& handler) {
  const auto reply = ask(path, "POST /handler/" + handler + " HTTP/1.1\r\nHost: x\r\n\r\n");
  return reply.substr(0, 13) + reply.substr(reply.find("\r\n\r\n") + 4);
}

}  // namespace

TEST_CASE("the stacks of all threads, the main thread last") {
  prepare_backtrace();
  const WaitingThreads threads;
  const auto text = native_traceback("left out");
  CHECK(text.starts_with("native\nThread 0x"));
  const auto plain = text.find("[plain] (most recent call first):\n  File \"");
  const auto here = text.find("in wait_at_gate(Gate&)\n");
  const auto blocking = text.find("[blocking] (most recent call first):\n  <no frames: blocks");
  const auto main = text.find("[main] (most recent call first):\n  File \"");
  REQUIRE(main != std::string::npos);
  CHECK(plain < here);
  CHECK(here < main);
  CHECK(blocking < main);
}

TEST_CASE("a C++ worker answers as PyTorch's server does") {
  const testing::TemporaryDirectory directory;
  const auto path = directory.file("w0");
  start_probe_server(path);
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  CHECK(post(path, "ping") == "HTTP/1.1 200 pong");
  const WaitingThreads threads;
  const auto text = post(path, "dump_traceback");
  CHECK(text.starts_with("HTTP/1.1 200 native\n"));
  CHECK(text.find("in wait_at_gate(Gate&)") != std::string::npos);
  CHECK(text.find("cpprun_probe") == std::string::npos);
  CHECK(post(path, "fr_trace_json") == "HTTP/1.1 404 Handler fr_trace_json not found");
  set_probe_handlers([](std::string_view name) -> std::optional<std::string> {
    if (name != "fr_trace_json") throw name;
    return "{}";
  });
  CHECK(post(path, "fr_trace_json") == "HTTP/1.1 200 {}");
  CHECK(post(path, "other") == "HTTP/1.1 500 the handler has failed");
  CHECK(ask(path, std::string(100'000, 'x')).starts_with("HTTP/1.1 404 "));
  // The first server stays: a second process, or call, does not replace it.
  start_probe_server(path);
  set_probe_handlers(nullptr);
  CHECK(post(path, "ping") == "HTTP/1.1 200 pong");
}

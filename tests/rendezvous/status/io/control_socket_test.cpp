// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/io/control_socket.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <filesystem>
#include <optional>

#include "rendezvous/status/io/door.h"
#include "tests/integration/directory.h"

namespace control_socket_test {

using namespace cpprun;
using namespace std::chrono_literals;
using cpprun::integration::Directory;

namespace {

struct Stage {
  explicit Stage(const std::string& parent, Duration after = {}) {
    door.emplace(io, side,
                 DoorPlan{.directories = {{.parent = parent, .name = "cpprun-x"}},
                          .after = after,
                          .timeout = 60s},
                 ControlSocket::Callbacks{
                     .client =
                         [this](FileDescriptor socket, std::uint32_t user) {
                           client = std::move(socket);
                           who = user;
                         },
                     .trouble = [this](std::string line) { trouble = std::move(line); }});
  }
  template <class Holds>
  void until(Holds&& holds) {
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (!holds() && std::chrono::steady_clock::now() < end) io.run_one_for(20ms);
    CHECK(holds());
  }

  asio::io_context io;
  HelperProcesses side;
  FileDescriptor client;
  std::optional<std::uint32_t> who;
  std::string trouble;
  std::optional<ControlSocket> door;
};

}  // namespace

TEST_CASE("a client is admitted as the user that the kernel names") {
  const Directory directory;
  Stage stage(directory.path());
  stage.until([&] { return !stage.door->path().empty(); });
  CHECK(stage.side.pids().empty());
  const SocketProbe tool = probe_socket(stage.door->path());
  REQUIRE(tool.socket);
  stage.until([&] { return stage.who.has_value(); });
  CHECK(stage.who == ::geteuid());
  CHECK(::write(tool.socket.get(), "x", 1) == 1);
  char byte = 0;
  CHECK(::read(stage.client.get(), &byte, 1) == 1);
}

TEST_CASE("the socket and its directory are removed when the program ends") {
  const Directory directory;
  {
    Stage stage(directory.path());
    stage.until([&] { return !stage.door->path().empty(); });
    CHECK(std::filesystem::exists(stage.door->path()));
  }
  CHECK(std::filesystem::is_empty(directory.path()));
}

TEST_CASE("the socket is removed if its program ends during its creation and signals arrive") {
  // As for each child that ends. None of the signals may end the wait for the process that creates
  // the socket, which continues after three.
  static volatile sig_atomic_t maker = 0;
  static volatile sig_atomic_t signals = 0;
  signals = 0;
  struct sigaction before {};
  struct sigaction counts {};
  counts.sa_handler = [](int) {
    signals = signals + 1;
    if (signals == 3) ::kill(static_cast<pid_t>(maker), SIGCONT);
  };
  REQUIRE(::sigaction(SIGALRM, &counts, &before) == 0);
  const Directory directory;
  {
    Stage stage(directory.path());
    stage.until([&] { return !stage.side.pids().empty(); });
    maker = stage.side.pids().front();
    REQUIRE(::kill(static_cast<pid_t>(maker), SIGSTOP) == 0);
    const itimerval often{.it_interval = {0, 1000}, .it_value = {0, 1000}};
    REQUIRE(::setitimer(ITIMER_REAL, &often, nullptr) == 0);
    stage.door.reset();
    const itimerval never{};
    ::setitimer(ITIMER_REAL, &never, nullptr);
    ::kill(static_cast<pid_t>(maker), SIGCONT);
  }
  ::sigaction(SIGALRM, &before, nullptr);
  while (::wait(nullptr) > 0) continue;  // for a process that may still create one
  CHECK(std::filesystem::is_empty(directory.path()));
}

TEST_CASE("a program that ends before the socket is needed has not created it") {
  const Directory directory;
  { const Stage stage(directory.path(), 3600s); }
  CHECK(std::filesystem::is_empty(directory.path()));
}

TEST_CASE("a socket that cannot be created is reported with the reason") {
  Stage stage("/proc/not-there");
  stage.until([&] { return !stage.trouble.empty(); });
  CHECK(
      stage.trouble.starts_with("no control socket, so cpprunctl needs --address: the directory"));
  CHECK(stage.door->path().empty());
}

}  // namespace control_socket_test

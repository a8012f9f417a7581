// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/io/worker_runtime.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>

namespace world_look_test {

using namespace cpprun;

namespace {

// A listening port of this process.
struct Served {
  Served() : fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(fd, 1) == 0);
    REQUIRE(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port = ntohs(address.sin_port);
  }
  ~Served() { ::close(fd); }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  int fd;
  int port = 0;
};

}  // namespace

TEST_CASE("a port that a process listens on is found, until it is closed") {
  std::string line;
  {
    const Served served;
    line = "pid " + std::to_string(::getpid()) + " listens on port " + std::to_string(served.port);
    const auto look = io::probe_world(::getpid());
    CHECK(std::count(look.listeners.begin(), look.listeners.end(), line) == 1);
    CHECK(look.spawned.empty());
  }
  const auto after = io::probe_world(::getpid());
  CHECK(std::count(after.listeners.begin(), after.listeners.end(), line) == 0);
}

TEST_CASE("used CPU time is counted") {
  const auto before = io::probe_world(::getpid()).processor_time;
  // A tick of the kernel's count is 10 ms; the bound is on this count, not on a clock.
  volatile unsigned sum = 0;
  while (io::probe_world(::getpid()).processor_time == before) {
    for (unsigned i = 0; i < 1'000'000; ++i) sum = sum + i;
  }
  CHECK(io::probe_world(::getpid()).processor_time > before);
}

TEST_CASE("a process that has exited has no listeners and no CPU time") {
  CHECK(io::probe_world(0x3FFFFFFF) == WorldProbe{});
}

}  // namespace world_look_test

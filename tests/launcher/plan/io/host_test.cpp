// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/io/host.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "rendezvous/io/program.h"

namespace host_test {

using namespace cpprun;

TEST_CASE("the loopback interface is found, up, with its address") {
  const auto interfaces = io::network_interfaces();
  REQUIRE(interfaces.has_value());
  const auto found = std::find_if(interfaces->begin(), interfaces->end(),
                                  [](const auto& each) { return each.loopback; });
  REQUIRE(found != interfaces->end());
  CHECK(found->up);
  CHECK(std::count(found->addresses.begin(), found->addresses.end(), "127.0.0.1") == 1);
  CHECK(std::count(found->networks.begin(), found->networks.end(), "127.0.0.1/8") == 1);
}

TEST_CASE("the route to a literal address is found without a name server") {
  CHECK(io::local_address_towards("127.0.0.1", 29500) == "127.0.0.1");
  CHECK(io::local_address_towards("node0.example", 29500)
            .error()
            .reason.starts_with("cannot find the route to node0.example: "));
}

TEST_CASE("file kinds are distinguished") {
  CHECK(io::probe_file("/bin/sh") == FileKind::executable);
  CHECK(io::probe_file("/etc/passwd") == FileKind::plain);
  CHECK(io::probe_file("/tmp") == FileKind::directory);
  CHECK(io::probe_file("/nowhere") == FileKind::missing);
}

TEST_CASE("a text file is read whole, or an error is returned") {
  CHECK(io::read_text_file("/proc/sys/kernel/ostype", 6) == "Linux\n");
  CHECK(io::read_text_file("/proc/sys/kernel/ostype", 5).error().reason ==
        "the file has more than 5 bytes");
  CHECK(io::read_text_file("/nowhere", 6).error().reason == "No such file or directory");
  CHECK(io::read_text_file("/tmp", 6).error().reason == "Is a directory");
}

TEST_CASE("tokens are random, hexadecimal, and of the requested length") {
  CHECK(io::random_token(8).size() == 16);
  CHECK(io::random_token(8) != io::random_token(8));
  CHECK(io::random_token(8).find_first_not_of("0123456789abcdef") == std::string::npos);
}

TEST_CASE("the machine has a name and processors") {
  char name[256] = {};
  REQUIRE(::gethostname(name, sizeof name) == 0);
  CHECK(machine_name() == name);
  CHECK(io::cpu_count() >= 1);
  CHECK(io::device_count({{"CUDA_VISIBLE_DEVICES", ""}}) == 0);
}

TEST_CASE("only the processors of the affinity mask count, as in torchrun") {
  cpu_set_t own;
  REQUIRE(::sched_getaffinity(0, sizeof own, &own) == 0);
  CHECK(io::cpu_count() == CPU_COUNT(&own));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &own)) CPU_SET(cpu, &one);
  }
  REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
  CHECK(io::cpu_count() == 1);
  CHECK(::sched_setaffinity(0, sizeof own, &own) == 0);
}

}  // namespace host_test

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/doctor/findings.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace findings_test {

using namespace cpprun;
using namespace cpprun::doctor;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t gibibyte = 1ULL << 30;

HostFacts sound(const std::string& name) {
  return {.host = name,
          .version = "1",
          .cpprun = "cpprun 1",
          .network = name,
          .gpus = {8, 8, 8},
          .limits = {.open_files = 1 << 20, .locked_bytes = {}, .processes = 60'000},
          .shared_memory = {"/dev/shm", 64 * gibibyte, 60 * gibibyte, ""},
          .temporary = {"/tmp", 99 * gibibyte, 50 * gibibyte, ""},
          .port = 4000};
}

ExaminedHost host(int number) {
  const std::string name = "h" + std::to_string(number);
  return {.member = {number, name, 0}, .facts = sound(name), .clock = ClockOffset{}};
}

// Three hosts, each of which reaches the others.
std::vector<ExaminedHost> three() {
  std::vector<ExaminedHost> hosts = {host(0), host(1), host(2)};
  for (auto& from : hosts) {
    for (const auto& to : hosts) {
      if (from.member.number == to.member.number) continue;
      from.dialed.push_back({.number = to.member.number,
                             .addresses = {"10.0.0." + std::to_string(to.member.number)},
                             .reached = Reached::yes,
                             .where = "10.0.0.9:4000"});
    }
  }
  return hosts;
}

std::vector<Finding> judge(const std::vector<ExaminedHost>& hosts, bool is_shipped = false) {
  return findings_of(hosts, {.version = "1", .is_shipped = is_shipped});
}

// The only finding after one host was changed.
template <class Change>
Finding only(const Change& change) {
  auto hosts = three();
  change(hosts[1]);
  const auto findings = judge(hosts);
  REQUIRE(findings.size() == 1);
  CHECK(findings.front().host == "h1");
  CHECK_FALSE(findings.front().hint.empty());
  return findings.front();
}

Dialed& look(ExaminedHost& host, int number) {
  return *std::ranges::find(host.dialed, number, &Dialed::number);
}

}  // namespace

TEST_CASE("sound hosts have no findings") {
  CHECK(judge(three()).empty());
}

TEST_CASE("a host that cannot be examined is a finding") {
  CHECK(only([](ExaminedHost& h) {
          h.gone = "Connection refused";
          h.facts = {};
        }).what == "examination failed: Connection refused");
}

TEST_CASE("another cpprun is a finding, and so is none, unless cpprun is shipped") {
  CHECK(only([](ExaminedHost& h) { h.facts->cpprun = "cpprun 0.9"; }).what ==
        "cpprun 0.9 is installed, but this machine has cpprun 1");
  const auto none = [](ExaminedHost& h) { h.facts->cpprun = ""; };
  CHECK(only(none).what.starts_with("found no cpprun"));
  auto hosts = three();
  none(hosts[0]);
  CHECK(judge(hosts, true).empty());
}

TEST_CASE("a clock is compared with the other hosts, within its measurement error") {
  const auto late = [](Duration offset, Duration error) {
    return [=](ExaminedHost& h) { h.clock = ClockOffset{offset, error}; };
  };
  CHECK(only(late(3s, 1ms)).what == "clock is 3.0 s ahead of the other hosts");
  CHECK(only(late(-3s, 1ms)).what == "clock is 3.0 s behind the other hosts");
  auto hosts = three();
  late(3s, 2500ms)(hosts[1]);
  CHECK(judge(hosts).empty());
  for (auto& each : hosts)
    each.clock = ClockOffset{60s, 1ms};  // the clock of this machine is wrong
  CHECK(judge(hosts).empty());
}

TEST_CASE("missing GPUs are found by the machine itself or by comparison") {
  CHECK(only([](ExaminedHost& h) {
          h.facts->gpus = {8, 7, 7};
          h.facts->missing_gpus = "7 of 8 GPUs can be used: lost\n  hint: reset it";
        }) == Finding{"h1", "7 of 8 GPUs can be used: lost", "reset it"});
  CHECK(only([](ExaminedHost& h) { h.facts->gpus = {7, 7, 7}; }).what == "7 GPUs, but h0 has 8");
  CHECK(only([](ExaminedHost& h) {
          h.facts->gpus = {8, 0, 0};
        }).what == "PCI bus has 8 NVIDIA GPUs, but no driver is loaded");
}

TEST_CASE("limits that are too low for a large job are findings") {
  CHECK(only([](ExaminedHost& h) { h.facts->limits.open_files = 1024; }).what ==
        "open files are limited to 1024 per process");
  CHECK(only([](ExaminedHost& h) {
          h.facts->limits.processes = 1024;
        }).what.starts_with("this user is limited to 1024 processes"));
  CHECK(only([](ExaminedHost& h) {
          h.facts->limits.locked_bytes = 65536;
          h.facts->has_infiniband = true;
        }).what ==
        "locked memory is limited to 64.0 KiB per process, but RDMA locks all its buffers");
  auto hosts = three();
  hosts[0].facts->limits.locked_bytes = 65536;  // this host has no InfiniBand
  CHECK(judge(hosts).empty());
}

TEST_CASE("shared memory and disks without free space are findings") {
  CHECK(only([](ExaminedHost& h) {
          h.facts->shared_memory.size = 64 << 20;
        }).what.starts_with("/dev/shm has a size of only 64.0 MiB, "));
  CHECK(only([](ExaminedHost& h) { h.facts->shared_memory.free = 1 << 20; }).what ==
        "/dev/shm has only 1.0 MiB free");
  CHECK(only([](ExaminedHost& h) { h.facts->shared_memory.refusal = "not there"; }).what ==
        "/dev/shm cannot be used: not there");
  CHECK(only([](ExaminedHost& h) { h.facts->temporary.free = 0; }).what ==
        "/tmp has only 0 B free");
  CHECK(only([](ExaminedHost& h) { h.facts->temporary.refusal = "denied"; }).what ==
        "cannot write to /tmp: denied");
}

TEST_CASE("a port in use is a finding") {
  CHECK(only([](ExaminedHost& h) { h.facts->why_no_port = "port 5: in use"; }).what ==
        "cannot listen: port 5: in use");
}

TEST_CASE("a name that is not resolved is one finding, with the hosts that cannot resolve it") {
  auto hosts = three();
  for (auto* const each : {&hosts[0], &hosts[2]}) {
    look(*each, 1) = {
        .number = 1, .why_unresolved = "Host not found", .reached = Reached::unresolved};
  }
  const auto findings = judge(hosts);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].host == "h1");
  CHECK(findings[0].what == "name cannot be resolved on h0, h2: Host not found");
}

TEST_CASE("a name that resolves to loopback is a finding, but not on one machine") {
  auto hosts = three();
  look(hosts[0], 1).addresses = {"127.0.1.1"};
  REQUIRE(judge(hosts).size() == 1);
  CHECK(judge(hosts)[0].what == "name resolves to the loopback address 127.0.1.1 on h0");
  hosts[0].facts->network = "h1";
  CHECK(judge(hosts).empty());
}

TEST_CASE("an unreachable host is one finding, with the hosts that cannot reach it") {
  auto hosts = three();
  look(hosts[0], 1).reached = Reached::silent;
  look(hosts[0], 1).why = "no response within 3 s";
  REQUIRE(judge(hosts).size() == 1);
  CHECK(judge(hosts)[0].what == "unreachable at 10.0.0.9:4000 from h0: no response within 3 s");
  CHECK(judge(hosts)[0].hint.starts_with("check the address and the firewall"));
  look(hosts[2], 1) = look(hosts[0], 1);
  CHECK(judge(hosts)[0].what ==
        "unreachable at 10.0.0.9:4000 from every host that tried: no response within 3 s");
}

TEST_CASE("each connection failure has its hint") {
  const auto hint_for = [](Reached how) {
    auto hosts = three();
    look(hosts[0], 1).reached = how;
    return judge(hosts).at(0).hint;
  };
  CHECK(hint_for(Reached::refused).find("rejects") != std::string::npos);
  CHECK(hint_for(Reached::unrelated).find("two hosts have this address") != std::string::npos);
  CHECK(hint_for(Reached::unresolved).find("DNS") != std::string::npos);
  CHECK(hint_for(Reached::failed).find("ip route get") != std::string::npos);
}

TEST_CASE("a long list of names is cut") {
  std::vector<ExaminedHost> hosts;
  for (int number = 0; number < 12; ++number) hosts.push_back(host(number));
  for (int number = 1; number < 11; ++number) {
    hosts[static_cast<std::size_t>(number)].dialed = {
        {.number = 0, .reached = Reached::silent, .where = "x:1", .why = "no answer"}};
  }
  hosts[11].dialed = {{.number = 0, .reached = Reached::yes}};
  CHECK(judge(hosts).at(0).what ==
        "unreachable at x:1 from h1, h2, h3, h4, h5, h6, h7, h8 and 2 others: no answer");
}

TEST_CASE("the hosts that a host can resolve and reach are counted") {
  auto hosts = three();
  look(hosts[0], 1).reached = Reached::refused;
  look(hosts[0], 2).why_unresolved = "no";
  CHECK(sight_of(hosts[0]) == Sight{.looked_for = 2, .resolved = 1, .reached = 1});
}

TEST_CASE("a single machine has its own host name") {
  ExaminedHost alone;
  alone.facts = sound("box");
  alone.facts->temporary.free = 0;
  REQUIRE(judge({alone}).size() == 1);
  CHECK(judge({alone})[0].host == "box");
}

}  // namespace findings_test

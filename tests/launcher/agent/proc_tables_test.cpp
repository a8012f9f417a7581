// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/misconfiguration.h"

#include <doctest/doctest.h>

namespace proc_tables_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

// As Linux 6.18 prints it, without the padding at the end.
constexpr const char* tcp =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n"
    "   0: 0100007F:3043 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 "
    "4711 1 0000000000000000 100 0 0 10 0\n"
    "   1: 0100007F:3043 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 "
    "4712 1 0000000000000000 20 4 30 10 -1\n";
constexpr const char* tcp6 =
    "   0: 00000000000000000000000000000000:7350 00000000000000000000000000000000:0000 0A "
    "00000000:00000000 00:00000000 00000000     0        0 4713 1 0000000000000000 100 0 0 10 0\n";

constexpr const char* stat =
    "812 (a (b) c) S 1 812 812 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 1 0 99 8192 2 "
    "18446744073709551615 1 2 140736 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0\n";

}  // namespace

TEST_CASE("listening ports are found by the inodes of their sockets, connections are not") {
  std::map<std::string, int> ports;
  add_listening(tcp, ports);
  add_listening(tcp6, ports);
  CHECK(ports == std::map<std::string, int>{{"4711", 0x3043}, {"4713", 29520}});
}

TEST_CASE("an incomplete or malformed line lists no port") {
  std::map<std::string, int> ports;
  add_listening("", ports);
  add_listening("0: 0100007F 0 0A\n1: 0100007F:xyz 0 0A 0 0 0 0 0 1\n2: 0100", ports);
  CHECK(ports.empty());
}

TEST_CASE("a process name may contain brackets, and its CPU time is counted in ticks") {
  const auto use = process_use(stat, 100);
  CHECK(use.name == "a (b) c");
  CHECK(use.processor_time == 2s);
  CHECK(use.stack == "140736");
  CHECK(process_use("", 100).name.empty());
  CHECK(process_use("812 (a", 100).name.empty());
}

TEST_CASE("a Python that was executed again is a spawned one, a forked one is not") {
  const ProcessUse worker{.name = "python3", .processor_time = {}, .stack = "1"};
  CHECK(is_spawned({.name = "python3.11", .processor_time = {}, .stack = "2"}, worker));
  CHECK(is_spawned({.name = "pt_main_thread", .processor_time = {}, .stack = "2"}, worker));
  CHECK_FALSE(is_spawned({.name = "python3", .processor_time = {}, .stack = "1"}, worker));
  CHECK_FALSE(is_spawned({.name = "tensorboard", .processor_time = {}, .stack = "2"}, worker));
}

}  // namespace proc_tables_test

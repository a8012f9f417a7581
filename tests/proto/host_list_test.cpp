// SPDX-License-Identifier: BSD-3-Clause
#include "proto/host_list.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "proto/text.h"

namespace cpprun::host_list_test {
namespace {

// In one line, or the error.
std::string expanded(std::string_view list) {
  const auto hosts = expand_hosts(list);
  return hosts ? fmt::format("{}", fmt::join(*hosts, " ")) : hosts.error().reason;
}

TEST_CASE("a host list is expanded in every notation of Slurm") {
  CHECK(expanded("login") == "login");
  CHECK(expanded("a,b") == "a b");
  CHECK(expanded("n[1-3,07]") == "n1 n2 n3 n07");
  CHECK(expanded("gpu[07-09,12],login") == "gpu07 gpu08 gpu09 gpu12 login");
  CHECK(expanded("n[8-11]") == "n8 n9 n10 n11");
  CHECK(expanded("n[098-101]") == "n098 n099 n100 n101");
  CHECK(expanded("gpu-a[0-1]x") == "gpu-a0x gpu-a1x");
  CHECK(expanded("n[1-2]-ib,m1") == "n1-ib n2-ib m1");
  CHECK(expanded("r[0-1]n[1-2]") == "r0n1 r0n2 r1n1 r1n2");
  CHECK(expanded("n[3]") == "n3");
  CHECK(expanded("b,a,b") == "b a b");
}

TEST_CASE("an invalid host list is rejected with the error and the correct notation") {
  CHECK(expanded("") == "host list \"\" has an empty name; write hosts as n[01-16],login");
  CHECK(expanded("a,,b").find("has an empty name") != std::string::npos);
  for (const auto* broken : {"n[1", "n1]", "n[1-[2]]"}) {
    CAPTURE(broken);
    CHECK(expanded(broken).find("an unmatched bracket") != std::string::npos);
  }
  for (const auto* broken :
       {"n[]", "n[a-b]", "n[3-1]", "n[1-]", "n[-1]", "n[1,]", "n[99999999999]"}) {
    CAPTURE(broken);
    CHECK(expanded(broken).find("is not a list of numbers and ranges") != std::string::npos);
  }
}

TEST_CASE("a short text that means very many hosts costs nothing") {
  for (const auto* huge : {"n[0-4294967295]", "n[0-99999]m[0-99999]", "a[1-131072],b"}) {
    CAPTURE(huge);
    CHECK(expanded(huge).find("names more than 131072 hosts") != std::string::npos);
  }
  CHECK(expand_hosts("n[1-131072]")->size() == host_list_max);
}

TEST_CASE("a node's tasks are read from Slurm's run-length notation") {
  CHECK(tasks_of_node("4(x2),1", 0) == 4);
  CHECK(tasks_of_node("4(x2),1", 1) == 4);
  CHECK(tasks_of_node("4(x2),1", 2) == 1);
  CHECK(tasks_of_node("4(x2),1", 3) == 0);
  for (const auto* broken : {"", "4(y2)", "4(x", "4(x2", "(x2)", "0", "-1", "4(x0)"}) {
    CAPTURE(broken);
    CHECK(tasks_of_node(broken, 0) == 0);
  }
}

}  // namespace
}  // namespace cpprun::host_list_test

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/io/addresses.h"

#include <doctest/doctest.h>

using namespace cpprun;
using namespace cpprun::io;

namespace {

const std::vector<NetworkInterface> interfaces{
    {.name = "eth0", .up = true, .addresses = {"10.1.2.3", "fd00::3"}},
    {.name = "eth1", .up = true, .addresses = {"10.9.9.9"}}};

}  // namespace

bool means(const std::string& host) {
  Config config;
  config.endpoint.host = host;
  return *means_this_machine(config, "alpha", interfaces);
}

TEST_CASE("a machine is meant by loopback, its own name, and every address it has") {
  CHECK(means("127.0.0.1"));
  CHECK(means("localhost"));
  CHECK(means("alpha"));
  CHECK(means("10.1.2.3"));
  CHECK(means("10.9.9.9"));
  CHECK(means("fd00:0::3"));
  CHECK_FALSE(means("10.1.2.4"));
}

TEST_CASE("a name is looked up from the loop, and a literal address is told from there as well") {
  asio::io_context context;
  std::vector<std::string> told;
  look_up(context, "FD00:0:0::3", [&](const auto& found) { told = *found; });
  CHECK(told.empty());
  context.run();
  CHECK(told == std::vector<std::string>{"fd00::3"});
  context.restart();
  std::string why;
  // No resolver takes a name with an empty label to a server.
  look_up(context, "no..such..name", [&](const auto& found) { why = found.error().reason; });
  context.run();
  CHECK_FALSE(why.empty());
}

TEST_CASE("a literal address stands for itself, in its usual spelling") {
  CHECK(addresses_of("10.1.2.3") == std::vector<std::string>{"10.1.2.3"});
  CHECK(addresses_of("FD00:0:0::3") == std::vector<std::string>{"fd00::3"});
}

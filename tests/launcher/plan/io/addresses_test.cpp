// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/io/host.h"

#include <doctest/doctest.h>

namespace addresses_test {

using namespace cpprun;
using namespace cpprun::io;

TEST_CASE("a lookup calls back from the event loop, for a literal address too") {
  asio::io_context context;
  std::vector<std::string> addresses;
  look_up(context, "FD00:0:0::3", [&](const auto& found) { addresses = *found; });
  CHECK(addresses.empty());
  context.run();
  CHECK(addresses == std::vector<std::string>{"fd00::3"});
  context.restart();
  std::string why;
  // No resolver sends a name with an empty label to a server.
  look_up(context, "no..such..name", [&](const auto& found) { why = found.error().reason; });
  context.run();
  CHECK_FALSE(why.empty());
}

TEST_CASE("a literal address is returned in its usual spelling") {
  CHECK(addresses_of("10.1.2.3") == std::vector<std::string>{"10.1.2.3"});
  CHECK(addresses_of("FD00:0:0::3") == std::vector<std::string>{"fd00::3"});
}

}  // namespace addresses_test

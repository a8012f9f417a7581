#include "launcher/io/addresses.h"

#include <doctest/doctest.h>

using namespace cpprun;
using namespace cpprun::io;

namespace {

const std::vector<NetworkInterface> interfaces{
    {.name = "eth0", .up = true, .addresses = {"10.1.2.3", "fd00::3"}},
    {.name = "eth1", .up = true, .addresses = {"10.9.9.9"}}};

}  // namespace

TEST_CASE("a machine is meant by loopback, its own name, and every address it has") {
  CHECK(means_this_machine("127.0.0.1", "alpha", interfaces));
  CHECK(means_this_machine("localhost", "alpha", interfaces));
  CHECK(means_this_machine("alpha", "alpha", interfaces));
  CHECK(means_this_machine("10.1.2.3", "alpha", interfaces));
  CHECK(means_this_machine("10.9.9.9", "alpha", interfaces));
  CHECK(means_this_machine("fd00:0::3", "alpha", interfaces));
  CHECK_FALSE(means_this_machine("10.1.2.4", "alpha", interfaces));
}

TEST_CASE("a literal address stands for itself, in its usual spelling") {
  CHECK(addresses_of("10.1.2.3") == std::vector<std::string>{"10.1.2.3"});
  CHECK(addresses_of("FD00:0:0::3") == std::vector<std::string>{"fd00::3"});
}

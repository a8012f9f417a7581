// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/service.h"

#include <doctest/doctest.h>

namespace notification_test {

using namespace cpprun;

namespace {

Result<std::string> address_of(const std::string& said) {
  return notify_address({{"NOTIFY_SOCKET", said}});
}

}  // namespace

TEST_CASE("a missing or empty NOTIFY_SOCKET disables notifications") {
  CHECK(notify_address({})->empty());
  CHECK(address_of("")->empty());
}

TEST_CASE("a path stays a path, and a leading @ means an abstract name") {
  CHECK(*address_of("/run/systemd/notify") == "/run/systemd/notify");
  CHECK(*address_of("@manager") == std::string("\0manager", 8));
}

TEST_CASE("an invalid socket name is rejected with the reason") {
  CHECK(address_of("vsock:2:1").error().reason ==
        "NOTIFY_SOCKET=vsock:2:1 is neither a path nor an abstract name such as @NAME");
  CHECK_FALSE(address_of("@").has_value());
  CHECK_FALSE(address_of("/").has_value());
  CHECK_FALSE(address_of("relative").has_value());
  CHECK(address_of("/" + std::string(106, 'n')).has_value());
  CHECK(address_of("/" + std::string(199, 'n')).error().reason ==
        "NOTIFY_SOCKET has 200 bytes, and the maximum is 107");
}

TEST_CASE("a message has one line per variable") {
  CHECK(ready_message("[::]:29400") == "READY=1\nSTATUS=listening on [::]:29400\n");
  CHECK(stopping_message() == "STOPPING=1\n");
}

}  // namespace notification_test

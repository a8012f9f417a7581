// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/status_access.h"

#include <doctest/doctest.h>

namespace status_access_test {

using namespace cpprun;

namespace {

constexpr std::uint32_t own = 1000;
const StatusClient mine{.by_loopback = true, .user = own};
const StatusClient root{.by_loopback = true, .user = 0};
const StatusClient other{.by_loopback = true, .user = 1001};
const StatusClient unknown{.by_loopback = true, .user = failure("no netlink")};
const StatusClient remote{.by_loopback = false, .user = own};

std::string refusal(StatusAccess access, const StatusClient& client) {
  const auto may = may_look(access, client, own);
  return may ? "" : may.error().reason;
}

}  // namespace

TEST_CASE(
    "a client with a credential has read access from anywhere, and control access if granted") {
  StatusClient holder{.by_loopback = false, .user = failure("from the network")};
  CHECK_FALSE(may_look(StatusAccess::user, holder, 1000));
  CHECK_FALSE(may_control(holder, 1000));
  holder.credential = Credential{.holder = "a token", .may_control = false};
  CHECK(may_look(StatusAccess::user, holder, 1000));
  CHECK_FALSE(may_look(StatusAccess::none, holder, 1000));
  CHECK(may_control(holder, 1000).error().reason ==
        "this token gives read access only; create one with cpprunctl token --order");
  holder.credential->may_control = true;
  CHECK(may_control(holder, 1000));
}

TEST_CASE("by default the user that runs cpprun and root have read access from this machine") {
  CHECK(may_look(StatusAccess::user, mine, own));
  CHECK(may_look(StatusAccess::user, root, own));
  CHECK(refusal(StatusAccess::user, other) ==
        "only root and the user that runs this program (uid 1000) have read access, and this is a "
        "connection of uid 1001; to give all users of this machine read access, start with "
        "--status-access=host");
  CHECK(refusal(StatusAccess::user, remote).find("ssh -L") != std::string::npos);
}

TEST_CASE("a client that cannot be identified is rejected with the reason") {
  CHECK(refusal(StatusAccess::user, unknown).find("no netlink") != std::string::npos);
  CHECK(may_look(StatusAccess::host, unknown, own));
}

TEST_CASE("read access can be opened to the machine and to the network, or closed") {
  CHECK(may_look(StatusAccess::host, other, own));
  CHECK_FALSE(may_look(StatusAccess::host, remote, own));
  CHECK(may_look(StatusAccess::network, remote, own));
  CHECK_FALSE(may_look(StatusAccess::none, mine, own));
}

TEST_CASE("only the user that runs cpprun and root have control access, from this machine") {
  const auto objection = [](const StatusClient& client) {
    const auto may = may_control(client, own);
    return may ? "" : may.error().reason;
  };
  CHECK(may_control(mine, own));
  CHECK(may_control(root, own));
  CHECK(objection(other) ==
        "only root and the user that runs this program (uid 1000) have control access, and this is "
        "a connection of uid 1001");
  CHECK(objection(remote).find("ssh -L") != std::string::npos);
  CHECK(objection(unknown).find("no netlink") != std::string::npos);
}

TEST_CASE("the kernel is asked for a connection's owner only if the answer matters") {
  CHECK(asks_whose(StatusAccess::user, true));
  CHECK_FALSE(asks_whose(StatusAccess::user, false));
  CHECK_FALSE(asks_whose(StatusAccess::host, true));
  CHECK_FALSE(asks_whose(StatusAccess::network, true));
}

TEST_CASE("the flag accepts only these values") {
  CHECK(status_access("none") == StatusAccess::none);
  CHECK(status_access("user") == StatusAccess::user);
  CHECK(status_access("host") == StatusAccess::host);
  CHECK(status_access("network") == StatusAccess::network);
  CHECK_FALSE(status_access("USER"));
  CHECK_FALSE(status_access(""));
}

}  // namespace status_access_test

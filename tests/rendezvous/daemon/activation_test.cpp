// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/service.h"

#include <doctest/doctest.h>

namespace activation_test {

using namespace cpprun;

namespace {

using Kind = PassedFacts::Kind;

Result<Activation> said(const std::string& pid, const std::string& fds) {
  return activation_of({{"LISTEN_PID", pid}, {"LISTEN_FDS", fds}}, 77);
}

std::string refusal(const PassedFacts& facts) {
  const auto judged = judge_passed(1, {facts});
  return judged ? "" : judged.error().reason;
}

}  // namespace

TEST_CASE("no sockets are passed unless both variables are set") {
  CHECK(activation_of({}, 77)->count == 0);
  CHECK(activation_of({{"LISTEN_FDS", "1"}}, 77)->count == 0);
  CHECK(activation_of({{"LISTEN_PID", "77"}}, 77)->count == 0);
  CHECK(activation_of({}, 77)->remark.empty());
}

TEST_CASE("only sockets that were passed to this process are used") {
  CHECK(said("77", "1")->count == 1);
  CHECK(said("77", "0")->count == 0);
  CHECK(said("77", "999999")->count == 999999);
  CHECK(said("78", "1")->count == 0);
  CHECK(said("78", "1")->remark ==
        "ignoring LISTEN_FDS: the sockets were passed to process 78, and this is process 77; start "
        "cpprund without a shell, or with exec");
  CHECK(said("77", "1")->remark.empty());
}

TEST_CASE("an invalid variable is rejected by name") {
  CHECK(said("me", "1").error().reason ==
        "cannot tell which sockets were passed: LISTEN_PID=me is not a process id; unset "
        "LISTEN_FDS and LISTEN_PID, or start cpprund with a .socket unit");
  CHECK_FALSE(said("0", "1").has_value());
  CHECK_FALSE(said("-77", "1").has_value());
  CHECK_FALSE(said("", "1").has_value());
  CHECK_FALSE(said("99999999999999999999", "1").has_value());
  for (const std::string fds : {"", "one", "-1", "1 ", "99999999999"}) {
    CHECK_FALSE(said("77", fds).has_value());
  }
  CHECK(said("77", "a\nb").error().reason.find("LISTEN_FDS=a?b is not a count") !=
        std::string::npos);
}

TEST_CASE("one listening TCP socket is accepted") {
  CHECK(judge_passed(1, {{.kind = Kind::tcp, .listens = true, .address = "[::]:29400"}}));
}

TEST_CASE("any other socket is rejected with its type and a hint") {
  CHECK(refusal({.kind = Kind::udp, .address = "[::]:29400"}) ==
        "cannot serve on the passed socket: descriptor 3 is a UDP socket on [::]:29400; write "
        "ListenStream= instead of ListenDatagram= in its .socket unit");
  CHECK(refusal({.kind = Kind::unix_socket}) ==
        "cannot serve on the passed socket: descriptor 3 is a Unix socket; set ListenStream= in "
        "its .socket unit to a TCP port, such as 29400");
  CHECK(refusal({.kind = Kind::tcp, .address = "127.0.0.1:7"}) ==
        "cannot serve on the passed socket: descriptor 3 is a TCP socket that does not listen on "
        "127.0.0.1:7; set Accept=no in its .socket unit");
  CHECK(refusal({.kind = Kind::no_socket}).find("is not a socket; start cpprund with a .socket") !=
        std::string::npos);
  CHECK(refusal({.kind = Kind::not_open}).find("is not open; start cpprund with a .socket unit") !=
        std::string::npos);
  CHECK(refusal({.kind = Kind::other_socket}).find("a socket of another protocol; set") !=
        std::string::npos);
}

TEST_CASE("more than one socket is rejected with a list of the sockets") {
  const PassedFacts tcp{.kind = Kind::tcp, .listens = true, .address = "0.0.0.0:29400"};
  CHECK(judge_passed(2, {tcp, {.kind = Kind::unix_socket}}).error().reason ==
        "cannot serve on 2 passed sockets (descriptor 3 is a listening TCP socket on "
        "0.0.0.0:29400, descriptor 4 is a Unix socket): cpprund needs exactly one; keep one "
        "ListenStream= in its .socket unit");
  CHECK(judge_passed(999999, {tcp, tcp}).error().reason.find(", ...): cpprund") !=
        std::string::npos);
}

}  // namespace activation_test

// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/round.h"

#include <doctest/doctest.h>

namespace admission_test {

using namespace cpprun;

TEST_CASE("only machines with a link in the running round may use the store") {
  Round round;
  round.enter(LinkId{1}, {.join = {.host = "a"}, .peer = "10.0.0.1"});
  round.enter(LinkId{2}, {.join = {.host = "b"}, .peer = "10.0.0.2"});
  Admission admission;
  CHECK_FALSE(admission.check("10.0.0.1").has_value());
  round.seal(1, {});
  admission.follow(round);
  CHECK(admission.check("10.0.0.1").has_value());
  CHECK(
      admission.check("10.0.0.2").error().reason ==
      "it does not come from the address of a node in the current round; use the same IP address, "
      "not a name, for the master on every node");
}

TEST_CASE("a claimed address does not admit a client, except for the coordinator's own machine") {
  Round round;
  round.enter(LinkId{1}, {.join = {.host = "far", .addresses = {"fd00::1"}}, .peer = "10.0.0.1"});
  Admission admission;
  round.seal(1, {});
  admission.follow(round);
  CHECK_FALSE(admission.check("fd00::1").has_value());
  // No node of this round runs on this machine.
  CHECK_FALSE(admission.check("127.0.0.1").has_value());
  CHECK_FALSE(admission.check("::1").has_value());
  Round hosted;
  hosted.enter(
      LinkId{1},
      {.join = {.host = "here", .addresses = {"10.0.0.9"}}, .peer = "127.0.0.1", .local = true});
  hosted.seal(1, {});
  admission.follow(hosted);
  CHECK(admission.check("10.0.0.9").has_value());
  CHECK(admission.check("127.0.0.1").has_value());
  CHECK(admission.check("::1").has_value());
}

TEST_CASE("a node that connects over loopback admits workers on the daemon's own machine") {
  Round round;
  round.enter(LinkId{1}, {.join = {.host = "here"}, .peer = "127.0.0.1"});
  round.seal(1, {});
  Admission admission;
  admission.follow(round);
  CHECK(admission.check("127.0.0.1").has_value());
}

TEST_CASE("a node of an earlier round is not admitted in the next round") {
  Round round;
  round.enter(LinkId{1}, {.join = {.host = "a"}, .peer = "10.0.0.1"});
  round.seal(1, {});
  Admission admission;
  admission.follow(round);
  round.leave(LinkId{1});
  round.enter(LinkId{2}, {.join = {.host = "b"}, .peer = "10.0.0.2"});
  round.break_up();
  round.gather_again({});
  round.seal(1, {});
  admission.follow(round);
  CHECK_FALSE(admission.check("10.0.0.1").has_value());
  CHECK(admission.check("10.0.0.2").has_value());
}

}  // namespace admission_test

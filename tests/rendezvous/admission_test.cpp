#include "rendezvous/admission.h"

#include <doctest/doctest.h>

using namespace cpprun;

TEST_CASE("a store is for the machines of the round that runs, and for the keeper's own") {
  Round round;
  round.enter(LinkId{1}, {.join = {.host = "a", .addresses = {"fd00::1"}}, .peer = "10.0.0.1"});
  round.enter(LinkId{2}, {.join = {.host = "b"}, .peer = "10.0.0.2"});
  Admission admission;
  CHECK_FALSE(admission.check("10.0.0.1").has_value());
  round.seal(1);
  admission.follow(round);
  CHECK(admission.check("10.0.0.1").has_value());
  CHECK(admission.check("fd00::1").has_value());
  CHECK(admission.check("127.0.0.1").has_value());
  CHECK(admission.check("::1").has_value());
  CHECK(admission.check("10.0.0.2").error().reason == "no node of this job has that address");
}

TEST_CASE("who was of an earlier round only is a stranger in the next") {
  Round round;
  round.enter(LinkId{1}, {.join = {.host = "a"}, .peer = "10.0.0.1"});
  round.seal(1);
  Admission admission;
  admission.follow(round);
  round.leave(LinkId{1});
  round.enter(LinkId{2}, {.join = {.host = "b"}, .peer = "10.0.0.2"});
  round.break_up();
  round.gather_again();
  round.seal(1);
  admission.follow(round);
  CHECK_FALSE(admission.check("10.0.0.1").has_value());
  CHECK(admission.check("10.0.0.2").has_value());
}

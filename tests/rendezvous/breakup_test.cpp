#include "rendezvous/breakup.h"

#include <doctest/doctest.h>

using namespace cpprun;

TEST_CASE("a job ends with the code of what failed first, whoever was asked to stop later") {
  Breakup breakup{.reason = "rank 3 failed", .root = link::Failure{.status = {true, 11}}};
  CHECK(finish_of(breakup).exit_code == 139);
  breakup.stop = link::Leave{.signal = 15, .reason = "asked to stop"};
  CHECK(finish_of(breakup).exit_code == 139);
  CHECK(finish_of(breakup).root == breakup.root);
  CHECK(finish_of(breakup).reason == "rank 3 failed");
}

TEST_CASE("a job that was asked to stop ends with 128 and that signal, or 1 without one") {
  Breakup breakup{.reason = "node 1 leaves", .stop = link::Leave{.signal = 2, .reason = ""}};
  CHECK(finish_of(breakup).exit_code == 130);
  breakup.stop->signal = 0;
  CHECK(finish_of(breakup).exit_code == 1);
}

// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include "launcher/control/text.h"

namespace stacks_text_test {

using namespace cpprun;

namespace {

CaptureView capture() {
  const hang::Frame step{"step", "/a/train.py", 88};
  const hang::Frame fetch{"fetch", "/a/data.py", 12};
  return {
      .number = 1,
      .round = 1,
      .world_size = 8,
      .verdict = "rank 3 is the odd one out",
      .silent_nodes = {"node-7"},
      .evidence = {.clusters = {{.ranks = hang::RankSet(Rank{3}),
                                 .activity = hang::Activity::busy,
                                 .stack = {fetch, step}},
                                {.ranks = hang::RankSet::all(3), .activity = hang::Activity::lock}},
                   .unread = {{"stack: this worker has no debug server", hang::RankSet::all(3)},
                              {"flight record: no response", hang::RankSet(Rank{3})}}}};
}

}  // namespace

TEST_CASE("stacks are printed by group, with what could not be read") {
  CHECK(stacks_text(capture(), std::nullopt) ==
        "rank 3 is the odd one out\n"
        "\nrank 3: is busy in fetch (data.py:12)\n"
        "  fetch  /a/data.py:12\n"
        "  step   /a/train.py:88\n"
        "\n3 ranks (0-2): wait for a lock\n"
        "\nranks 0-2: no Python stack (no probe)\n"
        "  hint: start the job with --probe=on\n"
        "\nrank 3: not read: flight record: no response\n"
        "\nno stacks from node-7 (no answer in time, disconnected, or an earlier version of "
        "cpprun)\n");
}

TEST_CASE("frames of C and C++ are printed below the others, if they were read") {
  CaptureView seen = capture();
  seen.evidence.clusters[0].native_stack = {{"futex_wait libc.so.6", "", 0}, {"main", "a.cpp", 4}};
  CHECK(
      stacks_text(seen, 3).starts_with("\nrank 3: is busy in fetch (data.py:12)\n"
                                       "  fetch  /a/data.py:12\n"
                                       "  step   /a/train.py:88\n"
                                       "  C and C++ of rank 3:\n"
                                       "  futex_wait libc.so.6\n"
                                       "  main                  a.cpp:4\n"));
}

TEST_CASE("the group of one rank is printed alone") {
  const std::string text = stacks_text(capture(), 1);
  CHECK(text.starts_with("\n3 ranks (0-2): wait for a lock\n"));
  CHECK(text.find("rank 3") == std::string::npos);
  CHECK(stacks_text(capture(), 6).starts_with("no data for rank 6\n"));
}

}  // namespace stacks_text_test

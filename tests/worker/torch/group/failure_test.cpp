// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/failure.h"

#include <doctest/doctest.h>

using namespace cpprun;

TEST_CASE("a failure is its first line, with what to do about it") {
  CHECK(explain_failure("barrier", "Connection closed by peer [10.0.0.1]:9\n#0 frame",
                        Exchange::collective) ==
        "barrier failed: Connection closed by peer [10.0.0.1]:9 (a peer has exited: see the rank "
        "that failed first)");
  CHECK(explain_failure("barrier", "Timed out waiting 2000ms", Exchange::collective)
            .ends_with("CPPRUN_DISTRIBUTED_DEBUG=DETAIL shows which)"));
  CHECK(explain_failure("recv", "Timed out waiting 2000ms", Exchange::message)
            .ends_with("compare ranks, order and tags)"));
  CHECK(explain_failure("barrier", "something else", Exchange::collective)
            .ends_with("(the group is no longer usable)"));
}

TEST_CASE("a peer that has ended is told from one that is late") {
  CHECK(means_peer_ended("Connection reset by peer"));
  CHECK_FALSE(means_peer_ended("Timed out waiting 2000ms"));
}

TEST_CASE("time that is up is told from a connection that is gone") {
  CHECK(means_time_is_up("Timed out waiting 500ms for recv operation to complete"));
  CHECK(means_time_is_up("wait timeout after 500ms"));
  CHECK_FALSE(means_time_is_up("Connection closed by peer"));
  CHECK_FALSE(means_peer_ended("Timed out waiting 500ms for recv operation to complete"));
}

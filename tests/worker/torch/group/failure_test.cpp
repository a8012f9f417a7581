// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/failure.h"

#include <doctest/doctest.h>

using namespace cpprun;

TEST_CASE("a failure is reported by its first line, with a hint") {
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

TEST_CASE("an error of NCCL is reported with the reason below its first line") {
  const std::string invalid =
      "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, invalid usage (run "
      "with NCCL_DEBUG=WARN for details), NCCL version 2.28.9\n"
      "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\n";
  CHECK(explain_failure("barrier",
                        invalid + "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device "
                                  "a000\nException raised from create",
                        Exchange::collective)
            .ends_with("NCCL version 2.28.9: Duplicate GPU detected : rank 0 and rank 1 both on "
                       "CUDA device a000 (two ranks use one GPU: start at most one worker for "
                       "each, or use backend gloo)"));
  CHECK(explain_failure("barrier", invalid, Exchange::collective)
            .ends_with("NCCL version 2.28.9: ncclInvalidUsage: This usually reflects invalid usage "
                       "of NCCL library. (the group is no longer usable)"));
  CHECK(explain_failure("barrier",
                        "NCCL error: remote process exited or there was a network error, NCCL "
                        "version 2.28.9\nncclRemoteError: A call failed possibly due to a network "
                        "error or a remote process exiting prematurely.\nLast error:\n",
                        Exchange::collective)
            .ends_with("(a peer has exited: see the rank that failed first)"));
  CHECK(explain_failure("barrier", "NCCL communicator was aborted on rank 0.", Exchange::collective)
            .ends_with("(this rank has given up its connections: see the first error above)"));
}

TEST_CASE("a peer that has exited is distinguished from a late one") {
  CHECK(means_peer_ended("Connection reset by peer"));
  CHECK_FALSE(means_peer_ended("Timed out waiting 2000ms"));
}

TEST_CASE("a timeout is distinguished from a lost connection") {
  CHECK(means_time_is_up("Timed out waiting 500ms for recv operation to complete"));
  CHECK(means_time_is_up("wait timeout after 500ms"));
  CHECK(means_time_is_up("Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2"));
  CHECK_FALSE(means_time_is_up("Connection closed by peer"));
  CHECK_FALSE(means_peer_ended("Timed out waiting 500ms for recv operation to complete"));
}

// SPDX-License-Identifier: BSD-3-Clause
#include "tests/failures/staged.h"

namespace cpprun::failures {

namespace {

// Two ranks reduce repeatedly; rank 1 exits in the middle.
std::string reducing(const std::string& end) {
  return "import os, signal, sys, datetime, torch, torch.distributed as dist\n"
         "dist.init_process_group('gloo', timeout=datetime.timedelta(seconds=60))\n"
         "x = torch.ones(1000)\n"
         "for step in range(1000000):\n"
         "    if step == 3 and dist.get_rank() == 1:\n"
         "        " +
         end +
         "\n"
         "    dist.all_reduce(x)\n";
}

Staged peer(const Stage& stage, const std::string& name, const std::string& end,
            const std::string& cause, const std::string& advice) {
  return {.name = "gloo: " + name,
          .program = {file(stage, "gloo_" + name + ".py", reducing(end))},
          .cause = cause,
          .advice = advice,
          .needs = Needs::torch};
}

}  // namespace

std::vector<Staged> lost_peers(const Stage& stage) {
  std::vector<Staged> all = {
      peer(stage, "killed", "os.kill(os.getpid(), signal.SIGKILL)", "killed", "batch system"),
      peer(stage, "raised", "raise ValueError('bad label 17')", "python_exception", "traceback"),
  };
  // Its data ended before that of the others.
  // Not sys.exit(): PyTorch's threads sometimes abort an interpreter that shuts down ("terminate
  // called without an active exception").
  auto left = peer(stage, "left", "os._exit(0)", "left_early", "join()");
  left.message = "while others still communicated";
  all.push_back(left);
  left.name += ", on the second of two nodes";
  left.two_nodes = true;
  all.push_back(left);
  const auto two_nodes = [&](const char* way, const char* cause, const char* advice) {
    return Staged{.name = std::string("on the second of two nodes: ") + way,
                  .program = {stage.victim, "1", way},
                  .cause = cause,
                  .advice = advice,
                  .two_nodes = true};
  };
  all.push_back(two_nodes("segfault", "segfault", "core dump"));
  all.push_back(two_nodes("full_disk", "disk_full", "df -h"));
  auto raised = peer(stage, "raised_there", "raise ValueError('bad label 17')", "python_exception",
                     "traceback");
  raised.two_nodes = true;
  all.push_back(raised);
  return all;
}

}  // namespace cpprun::failures

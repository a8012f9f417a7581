// SPDX-License-Identifier: BSD-3-Clause
// Scripts that start a world of their own, written for python alone: under a launcher they wait
// forever. cpprun reports it after a minute, so this scene takes a minute.

#include <doctest/doctest.h>
#include <signal.h>

#include "tests/integration/command.h"
#include "tests/integration/directory.h"

namespace spawning_script_test {

using namespace cpprun::integration;

namespace {

// Its first process prints when the first half of the minute is over, since no test waits that long
// for output.
constexpr const char* spawns = R"(
import os, time, torch.distributed as dist, torch.multiprocessing as mp

def work(rank):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="12355")
    dist.init_process_group("gloo", rank=rank, world_size=2)

if __name__ == "__main__":
    world = mp.spawn(work, nprocs=2, join=False)
    time.sleep(35)
    print("half way", flush=True)
    world.join()
)";

constexpr const char* meets_by_hand = R"(
import os, threading, torch.distributed as dist
threading.Timer(35, lambda: print("half way", flush=True)).start()
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:12356", rank=int(os.environ["RANK"]),
                        world_size=2)
)";

const std::string sentence = "no worker has contacted the store for ";

}  // namespace

TEST_CASE("a script that starts a world of its own gets a hint about what to leave to cpprun") {
  if (from_build("CPPRUN_PYTHON").empty()) {
    return skip("no Python with torch was found when this was configured");
  }
  const Directory directory;
  const Options options{.variables = {{"PYTHON_EXEC", from_build("CPPRUN_PYTHON")}}};
  Command spawning(with_cpprun({"--standalone", "--nproc-per-node=2", "--shutdown-timeout=5",
                                directory.write("spawns.py", spawns)}),
                   options);
  Command meeting(with_cpprun({"--standalone", "--nproc-per-node=2", "--shutdown-timeout=5",
                               directory.write("by_hand.py", meets_by_hand)}),
                  options);
  spawning.expect_out("half way");
  meeting.expect_out("half way");
  spawning.expect_err(sentence);
  spawning.expect_err("this node's first worker has started processes with multiprocessing (pid ");
  meeting.expect_err(sentence);
  meeting.expect_err("this node's first worker has been idle for ");
  for (Command* const each : {&spawning, &meeting}) {
    each->signal(SIGTERM);
    CHECK(each->wait().code == 143);
    CHECK(count(each->err(), sentence) == 1);
  }
}

}  // namespace spawning_script_test

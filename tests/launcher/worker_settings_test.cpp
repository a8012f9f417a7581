#include "launcher/worker_settings.h"

#include <doctest/doctest.h>

#include "tests/launcher/cli_probe.h"

using namespace cpprun;
using namespace cpprun::probe;

TEST_CASE("workers are counted by number, processors or devices") {
  CHECK(good({"--nproc-per-node=cpu", "x"}).local_world_size == 12);
  CHECK(good({"--nproc-per-node=auto", "x"}).local_world_size == 12);
  CHECK(mistakes({"--nproc-per-node=gpu", "x"})
            .front()
            .starts_with("--nproc-per-node=gpu finds no GPU on this machine"));
  CHECK(mistakes({"--nproc-per-node=0", "x"}).size() == 1);
}

TEST_CASE("flags without effect are accepted, checked, and said to have none") {
  CHECK(good({"--monitor-interval=5", "--start-method=fork", "x"}).notes.size() == 2);
  CHECK(mistakes({"--monitor-interval=0", "--start-method=magic", "x"}).size() == 2);
}

// SPDX-License-Identifier: BSD-3-Clause
// What a job does when the disk hangs that holds evidence of a failure, or its logs.

#include <doctest/doctest.h>

#include <fstream>
#include <optional>
#include <utility>

#include "tests/integration/cluster.h"
#include "tests/integration/disks.h"

namespace hung_disk_test {

using namespace cpprun::integration;

TEST_CASE("a failure ends the other workers though the disk with the evidence hangs") {
#ifdef __SANITIZE_ADDRESS__
  return skip("a sanitizer waits at its end for a thread that hangs");
#else
  const SilentDisk disk;
  if (!disk.mounted()) return skip("no permission to mount a file system of our own (/dev/fuse)");
  const Directory logs;
  Command job(
      with_cpprun({"--standalone", "--nproc-per-node=2", "--log-dir=" + logs.path(),
                   "--redirects=3", "--no-python", worker(), "hang_if_not", "1", "exit", "4"}),
      {.variables = {{"TMPDIR", disk.path()}}});
  job.expect_err("could not be read within");
  CHECK(job.wait_for_exit() == 4);
  CHECK(contains(job.err(), "exited with code 4"));
  job.expect_no_worker_left();
#endif
}

TEST_CASE("a node whose log disk hangs keeps its seat and its console, and ends with the others") {
  const Cluster cluster(2, "2");
  if (!cluster.hosts.why_not().empty()) return skip(cluster.hosts.why_not());
  const FreezingDisk disk;
  if (!disk.why_not().empty()) return skip(disk.why_not());
  const std::string bell = disk.path() + "/bell";
  REQUIRE(run({"mkfifo", bell}).code == 0);
  Command first(cluster.node(0), cluster.options());
  Command second(cluster.node(1, {"--log-dir=" + disk.path(), "--tee=3"},
                              {worker(), "pid", "seat", "await", bell, "say", "heard", "hang"}),
                 cluster.options());
  expect_each({&first, &second}, " of 2, restart 0\n");
  // Opened before, since a fifo on a frozen disk cannot be.
  std::ofstream ringing(bell);
  std::optional<FreezingDisk::Frozen> frozen(std::in_place, disk);
  ringing.close();
  second.expect_out("heard");
  end_all(first, {&second});
  CHECK_FALSE(contains(first.err(), "is lost"));
  CHECK(contains(second.err(), "not written: its disk has not responded"));
  frozen.reset();
  cluster.expect_nothing_left();
}

}  // namespace hung_disk_test

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/scheduler/scheduler_facts.h"

#include <doctest/doctest.h>

#include "tests/launcher/scheduler/files.h"

namespace cpprun::slurm_conf_test {
namespace {

TEST_CASE("KillWait is read from Slurm's configuration, in any case") {
  CHECK(kill_wait_in("ClusterName=c\nKillWait=60\n") == 60);
  CHECK(kill_wait_in("killwait = 5 # seconds\n#KillWait=7\n") == 5);
  CHECK(kill_wait_in("KillWait=5\nKillWait=9") == 9);
  CHECK_FALSE(kill_wait_in("UnkillableStepTimeout=60\nKillWait=soon\nKillWait=-1\nKillWait"));
  CHECK_FALSE(kill_wait_in(""));
}

TEST_CASE("the configuration is found by SLURM_CONF or its default path, and only in a Slurm job") {
  const auto files =
      probe::files({{"/run/s.conf", "KillWait=5"}, {"/etc/slurm/slurm.conf", "KillWait=6"}});
  using std::chrono::seconds;
  const auto said = slurm_kill_wait({{"SLURM_JOB_ID", "1"}, {"SLURM_CONF", "/run/s.conf"}}, files);
  CHECK(said == Said<seconds>{seconds(5), "KillWait=5"});
  CHECK(slurm_kill_wait({{"SLURM_JOB_ID", "1"}}, files)->value == seconds(6));
  CHECK_FALSE(slurm_kill_wait({{"SLURM_JOB_ID", "1"}}, probe::files()));
  CHECK_FALSE(slurm_kill_wait({{"SLURM_CONF", "/run/s.conf"}}, files));
}

}  // namespace
}  // namespace cpprun::slurm_conf_test

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/ending_settings.h"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>

#include "tests/launcher/cli/cli_probe.h"

using namespace cpprun;
using namespace cpprun::probe;
using namespace std::chrono_literals;

TEST_CASE("the grace comes from the flag, else from torch's variable") {
  const Environment torch = {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "7"}};
  CHECK(good({"x"}, torch).grace == 7s);
  CHECK(good({"--shutdown-timeout=0", "x"}, torch).grace == 0s);
  CHECK(mistakes({"--shutdown-timeout=-1", "x"}).size() == 1);
  CHECK(mistakes({"x"}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "soon"}}).size() == 1);
}

TEST_CASE("without a word the grace is shorter than that of whoever ends the whole node") {
  CHECK(good({"x"}).grace == 30s);
  CHECK(good({"x"}, {{"SLURM_JOB_ID", "17"}}).grace == 25s);
  CHECK(good({"x"}, {{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}}).grace == 25s);
  CHECK(good({"--shutdown-timeout=30", "x"}, {{"SLURM_JOB_ID", "17"}}).grace == 30s);
  CHECK(good({"x"}, {{"SLURM_JOB_ID", "17"}, {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "90"}}).grace ==
        90s);
}

TEST_CASE("signals are read by name; one that cannot be handled is noted, as in torchrun") {
  const auto config = good({"--signals-to-handle=SIGUSR1,SIGTERM,SIGFOO,SIGTERM", "x"});
  CHECK(config.signals == std::vector<int>{SIGUSR1, SIGTERM});
  CHECK(config.signals_text == "SIGUSR1,SIGTERM,SIGFOO,SIGTERM");
  CHECK(config.notes == Words{"SIGFOO cannot be handled and is left out of --signals-to-handle"});
}

TEST_CASE("what a job does about failures is read, in fractions of seconds and by signals' names") {
  const auto config = good({"--max-restarts=3", "--restart-backoff=0.5", "--restart-window=3600",
                            "--no-restart-codes=SIGSEGV,2,KILL,2", "x"});
  CHECK(config.restart_backoff == 500ms);
  CHECK(config.restart_window == 3600s);
  CHECK(config.no_restart_codes == std::vector<int>{-SIGSEGV, -SIGKILL, 2});
  CHECK(config.notes.empty());
  CHECK(good({"x"}).restart_backoff == 0s);
  CHECK(good({"x"}, {{"PET_MAX_RESTARTS", "1"}, {"PET_RESTART_WINDOW", "60"}}).restart_window ==
        60s);
}

TEST_CASE("mistakes about restarts are listed together, each with what would be right") {
  CHECK(
      mistakes({"--restart-backoff=soon", "--restart-window=0", "--no-restart-codes=2,300", "x"}) ==
      Words{"--restart-backoff=soon is no number of seconds from 0.001 to 2000000, as 30 or 0.5",
            "--restart-window=0 is no number of seconds from 0.001 to 2000000, as 30 or 0.5",
            "--no-restart-codes=2,300: \"300\" is neither an exit code from 1 to 255 nor a signal, "
            "as SIGSEGV"});
  CHECK(mistakes({"--no-restart-codes=1,2,3,4,5,6,7,8,9", "x"}) ==
        Words{"--no-restart-codes=1,2,3,4,5,6,7,8,9 lists 9 codes; there is room for 8"});
}

TEST_CASE("blanks around codes and seconds, as scripts leave them, are none of them") {
  const auto config = good({"--max-restarts=1", "--no-restart-codes= 2, SIGSEGV ", "x"});
  CHECK(config.no_restart_codes == std::vector<int>{-SIGSEGV, 2});
  CHECK(
      mistakes({"--no-restart-codes=2,,3", "x"}) ==
      Words{"--no-restart-codes=2,,3: \"\" is neither an exit code from 1 to 255 nor a signal, as "
            "SIGSEGV"});
  CHECK(good({"--monitor-interval= 5 ", "x"}).notes.size() == 1);
}

TEST_CASE("a policy for restarts without a restart is worth a word") {
  CHECK(good({"--restart-backoff=1", "x"}).notes ==
        Words{"--restart-backoff has no effect without --max-restarts"});
}

TEST_CASE("whose beats are watched, and for how long they may be silent") {
  CHECK_FALSE(good({"x"}).beat_timeout);
  CHECK(good({"--beat-timeout=90", "x"}).beat_timeout == BeatTimeout{.fixed = 90s});
  CHECK(good({"--beat-timeout=auto", "x"}).beat_timeout == BeatTimeout{.automatic = true});
  CHECK(good({"x"}, {{"PET_BEAT_TIMEOUT", "2.5"}}).beat_timeout == BeatTimeout{.fixed = 2500ms});
  CHECK(mistakes({"--beat-timeout=never", "x"}) ==
        Words{"--beat-timeout=never is neither auto nor a number of seconds from 1 to 2000000"});
  CHECK(mistakes({"--beat-timeout=0.5", "x"}).size() == 1);
}

TEST_CASE("who may look at the job is one of four words") {
  CHECK(good({"x"}).status_access == StatusAccess::user);
  CHECK(good({"--status-access=none", "x"}).status_access == StatusAccess::none);
  CHECK(good({"x"}, {{"PET_STATUS_ACCESS", "network"}}).status_access == StatusAccess::network);
  CHECK(mistakes({"--status-access=all", "x"}) ==
        Words{"--status-access=all is none of none, user, host or network"});
}

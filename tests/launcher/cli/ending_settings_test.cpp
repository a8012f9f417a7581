// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/settings.h"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>

#include "tests/launcher/cli/cli_probe.h"

namespace ending_settings_test {

using namespace cpprun;
using namespace cpprun::probe;
using namespace std::chrono_literals;

TEST_CASE("the grace comes from the flag, else from torch's variable") {
  const Environment torch = {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "7"}};
  CHECK(good({"x"}, torch).grace == 7s);
  CHECK(good({"--shutdown-timeout=0", "x"}, torch).grace == 0s);
  CHECK(diagnostics({"--shutdown-timeout=-1", "x"}).size() == 1);
  CHECK(diagnostics({"x"}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "soon"}}).size() == 1);
}

TEST_CASE("the default grace is shorter than the scheduler's") {
  CHECK(good({"x"}).grace == 30s);
  CHECK(good({"x"}, {{"SLURM_JOB_ID", "17"}}).grace == 25s);
  CHECK(good({"x"}, {{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}}).grace == 25s);
  CHECK(good({"--shutdown-timeout=30", "x"}, {{"SLURM_JOB_ID", "17"}}).grace == 30s);
  CHECK(good({"x"}, {{"SLURM_JOB_ID", "17"}, {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "90"}}).grace ==
        90s);
}

TEST_CASE("the grace fits Slurm's KillWait if its configuration is readable") {
  const Environment slurm = {{"SLURM_JOB_ID", "17"}, {"SLURM_CONF", "/run/s.conf"}};
  const auto within = [](const std::string& text) {
    return File{.path = "/run/s.conf", .text = text};
  };
  CHECK(good({"x"}, slurm, within("KillWait=20\n")).grace == 15s);
  CHECK(good({"x"}, slurm, within("KillWait=120\n")).grace == 30s);
  CHECK(good({"x"}, slurm, within("KillWait=2\n")).grace == 1s);
  const auto long_one = good({"--shutdown-timeout=20", "x"}, slurm, within("KillWait=20\n"));
  CHECK(long_one.grace == 20s);
  CHECK(long_one.notes ==
        Words{"--shutdown-timeout=20 is not below Slurm's own timeout (KillWait=20), so Slurm may "
              "kill cpprun before the report is written"});
  CHECK(good({"--shutdown-timeout=9", "x"}, slurm, within("KillWait=20\n")).notes.empty());
}

TEST_CASE("preemption signals go to the workers, unless they are handled") {
  CHECK(good({"x"}).notices == std::vector<int>{SIGUSR1, SIGUSR2});
  CHECK(good({"--signals-to-handle=SIGUSR1,SIGTERM", "x"}).notices == std::vector<int>{SIGUSR2});
}

TEST_CASE("signals are read by name, and an unsupported one is noted, as in torchrun") {
  const auto config = good({"--signals-to-handle=SIGUSR1,SIGTERM,SIGFOO,SIGTERM", "x"});
  CHECK(config.signals == std::vector<int>{SIGUSR1, SIGTERM});
  CHECK(config.signals_text == "SIGUSR1,SIGTERM,SIGFOO,SIGTERM");
  CHECK(config.notes == Words{"--signals-to-handle: ignoring SIGFOO, which cannot be handled"});
}

TEST_CASE("restart settings take fractions of seconds and names of signals") {
  const auto config = good({"--max-restarts=3", "--restart-backoff=0.5", "--restart-window=3600",
                            "--no-restart-codes=SIGSEGV,2,KILL,2", "x"});
  CHECK(config.restarts.backoff == 500ms);
  CHECK(config.restarts.window == 3600s);
  CHECK(config.restarts.final_codes == std::vector<int>{-SIGSEGV, -SIGKILL, 2});
  CHECK(config.notes.empty());
  CHECK(good({"x"}).restarts.backoff == 0s);
  CHECK(good({"x"}, {{"PET_MAX_RESTARTS", "1"}, {"PET_RESTART_WINDOW", "60"}}).restarts.window ==
        60s);
}

TEST_CASE("errors in restart settings are listed together, each with a valid value") {
  CHECK(
      diagnostics(
          {"--restart-backoff=soon", "--restart-window=0", "--no-restart-codes=2,300", "x"}) ==
      Words{
          "--restart-backoff=soon is not a number of seconds from 0.001 to 2000000, such as 30 or "
          "0.5",
          "--restart-window=0 is not a number of seconds from 0.001 to 2000000, such as 30 or 0.5",
          "--no-restart-codes=2,300: \"300\" is neither an exit code from 1 to 255 nor a signal, "
          "such as SIGSEGV"});
  CHECK(diagnostics({"--no-restart-codes=1,2,3,4,5,6,7,8,9", "x"}) ==
        Words{"--no-restart-codes=1,2,3,4,5,6,7,8,9 lists 9 codes; the maximum is 8"});
}

TEST_CASE("blanks around codes and seconds are ignored") {
  const auto config = good({"--max-restarts=1", "--no-restart-codes= 2, SIGSEGV ", "x"});
  CHECK(config.restarts.final_codes == std::vector<int>{-SIGSEGV, 2});
  CHECK(diagnostics({"--no-restart-codes=2,,3", "x"}) ==
        Words{"--no-restart-codes=2,,3: \"\" is neither an exit code from 1 to 255 nor a signal, "
              "such as SIGSEGV"});
  CHECK(good({"--monitor-interval= 5 ", "x"}).notes.size() == 1);
}

TEST_CASE("a restart policy without restarts is noted") {
  CHECK(good({"--restart-backoff=1", "x"}).notes ==
        Words{"--restart-backoff has no effect without --max-restarts"});
}

TEST_CASE("--hang-timeout takes seconds or off, and turns the probe on") {
  CHECK_FALSE(good({"x"}).hang_timeout);
  CHECK_FALSE(good({"x"}).probes());
  CHECK(good({"--hang-timeout=90", "x"}).hang_timeout == 90s);
  CHECK(good({"--hang-timeout=90", "x"}).probes());
  CHECK_FALSE(good({"--hang-timeout=off", "x"}).hang_timeout);
  CHECK(diagnostics({"--hang-timeout=0", "x"}) ==
        Words{"--hang-timeout=0 is neither off nor a number of seconds from 1 to 2000000"});
}

TEST_CASE("--probe is on or off whatever --hang-timeout says") {
  CHECK(good({"--probe=on", "x"}).probes());
  CHECK_FALSE(good({"--hang-timeout=90", "--probe=off", "x"}).probes());
  CHECK(good({"--hang-timeout=90", "--probe=auto", "x"}).probes());
  CHECK(diagnostics({"--probe=yes", "x"}) ==
        Words{"--probe=\"yes\" is invalid; expected auto, on or off"});
}

TEST_CASE("--beat-timeout takes seconds or auto") {
  CHECK_FALSE(good({"x"}).beat_timeout);
  CHECK(good({"--beat-timeout=90", "x"}).beat_timeout == HeartbeatTimeout{.fixed = 90s});
  CHECK(good({"--beat-timeout=auto", "x"}).beat_timeout == HeartbeatTimeout{.automatic = true});
  CHECK(good({"x"}, {{"PET_BEAT_TIMEOUT", "2.5"}}).beat_timeout ==
        HeartbeatTimeout{.fixed = 2500ms});
  CHECK(diagnostics({"--beat-timeout=never", "x"}) ==
        Words{"--beat-timeout=never is neither auto nor a number of seconds from 1 to 2000000"});
  CHECK(diagnostics({"--beat-timeout=0.5", "x"}).size() == 1);
}

TEST_CASE("--status-access takes one of four values") {
  CHECK(good({"x"}).status_access == StatusAccess::user);
  CHECK(good({"--status-access=none", "x"}).status_access == StatusAccess::none);
  CHECK(good({"x"}, {{"PET_STATUS_ACCESS", "network"}}).status_access == StatusAccess::network);
  CHECK(diagnostics({"--status-access=all", "x"}) ==
        Words{"--status-access=all is not one of none, user, host or network"});
}

TEST_CASE("causes have budgets of their own, in any order") {
  const auto rules = good({"--max-restarts= 3, node=unlimited ,hang=1,killed=0", "x"}).restarts;
  CHECK(rules.max == 3);
  CHECK(rules.budgets == std::vector<CauseBudget>{{"hang", 1}, {"killed", 0}, {"node", {}}});
  CHECK(good({"--max-restarts=hang=2", "x"}).restarts == RestartRules{.budgets = {{"hang", 2}}});
  CHECK(good({"x"}, {{"PET_MAX_RESTARTS", "1,gpu=2"}}).restarts.budgets.front().cause == "gpu");
}

TEST_CASE("an invalid budget is an error that names a valid one") {
  const auto error = [](const std::string& text) {
    const auto all = diagnostics({"--max-restarts=" + text, "x"});
    REQUIRE(all.size() == 1);
    return all.front();
  };
  CHECK(error("3,hnag=1") ==
        "--max-restarts=3,hnag=1: unknown cause \"hnag\"; use one of hang, node, preempt, memory, "
        "gpu, disk, network, or an id from docs/failures.md");
  CHECK(error("3,hang=often") ==
        "--max-restarts=3,hang=often: the budget of hang is neither a whole number nor unlimited");
  CHECK(error("3,hang=1,hang=2") == "--max-restarts=3,hang=1,hang=2 sets two budgets for hang");
  CHECK(error("3,4") == "--max-restarts=3,4 sets two budgets for the whole job");
  CHECK(error("3,") == "--max-restarts=3,: \"\" is neither a whole number nor CAUSE=N");
  CHECK(error("3,hang") == "--max-restarts=3,hang: \"hang\" is neither a whole number nor CAUSE=N");
  CHECK(error("many") == "--max-restarts=many is not a whole number of at least 0");
  CHECK(error("=1").find("unknown cause \"\"") != std::string::npos);
  CHECK(error("hang=1,node=1,gpu=1,disk=1,memory=1,network=1,preempt=1,killed=1,hung=1")
            .ends_with("lists 9 causes; the maximum is 8"));
}

TEST_CASE("free restart codes, the limit without progress and the host limit are read") {
  const auto rules = good({"--max-restarts=1", "--free-restart-codes=75,USR2",
                           "--max-no-progress=2", "--max-host-failures=3/600", "x"})
                         .restarts;
  CHECK(rules.free_codes == std::vector<int>{-SIGUSR2, 75});
  CHECK(rules.fruitless_max == 2);
  CHECK(rules.host_limit == HostLimit{3, 600s});
  CHECK(good({"--max-restarts=1", "--max-host-failures=3", "x"}).restarts.host_limit ==
        HostLimit{.failures = 3});
  CHECK(diagnostics({"--max-no-progress=0", "--max-host-failures=0/5", "x"}) ==
        Words{"--max-no-progress=0 is not a whole number of at least 1",
              "--max-host-failures=0/5 is neither N nor N/SECONDS, such as 3 or 3/3600"});
  CHECK(diagnostics({"--max-host-failures=3/1h", "x"}) ==
        Words{"--max-host-failures=3/1h: \"1h\" is not a number of seconds, such as 3/3600"});
  // A node can be lost without any restart budget.
  CHECK(good({"--max-host-failures=3", "x"}).notes.empty());
  CHECK(diagnostics(
            {"--max-restarts=1", "--no-restart-codes=75,2", "--free-restart-codes=75", "x"}) ==
        Words{"--free-restart-codes and --no-restart-codes both contain 75\n  hint: remove it from "
              "one of them"});
  CHECK(good({"--max-no-progress=2", "x"}).notes ==
        Words{"--max-no-progress has no effect without --max-restarts"});
  CHECK(good({"--max-restarts=1", "--restart-state=f", "x"}).restart_state_file == "f");
  CHECK(good({"--restart-state=f", "x"}).notes ==
        Words{"--restart-state has no effect without --max-restarts"});
}

TEST_CASE("the restart scope takes only its names, and checks what it is used with") {
  CHECK(good({"x"}).restarts.scope == RestartScope::job);
  CHECK(good({"--restart-scope=job", "x"}).restarts.scope == RestartScope::job);
  CHECK(good({"--max-restarts=1", "--restart-scope=worker", "x"}).restarts.scope ==
        RestartScope::worker);
  CHECK(good({"--max-restarts=1", "x"}, {{"PET_RESTART_SCOPE", "worker"}}).restarts.scope ==
        RestartScope::worker);
  CHECK(good({"--restart-scope=worker", "x"}).notes ==
        Words{"--restart-scope has no effect without --max-restarts"});
  CHECK(diagnostics({"--restart-scope=node", "x"}) ==
        Words{"--restart-scope=\"node\" is invalid; expected job or worker"});
  CHECK(diagnostics({"--max-restarts=1", "--restart-scope=worker", "--hang-timeout=60", "x"}) ==
        Words{"--hang-timeout finds hangs of a whole job, and --restart-scope=worker is for "
              "independent workers\n  hint: use --beat-timeout, which checks each worker"});
  CHECK(diagnostics({"--max-restarts=1", "--restart-scope=worker", "--max-no-progress=3", "x"}) ==
        Words{"--max-no-progress measures the progress of a whole job, and --restart-scope=worker "
              "is for independent workers\n  hint: use --restart-window, which limits how often "
              "they fail"});
  CHECK(good({"--max-restarts=1", "--restart-scope=worker", "--hang-timeout=off", "x"})
            .restarts.scope == RestartScope::worker);
}

TEST_CASE("workers change rounds after a failure only if asked, and not if restarted alone") {
  CHECK_FALSE(good({"x"}).restarts.reconfigures);
  CHECK_FALSE(good({"--on-failure=restart", "x"}).restarts.reconfigures);
  CHECK(good({"--max-restarts=1", "--on-failure=reconfigure", "x"}).restarts.reconfigures);
  CHECK(diagnostics({"--on-failure=stop", "x"}) ==
        Words{"--on-failure=\"stop\" is invalid; expected restart or reconfigure"});
  CHECK(diagnostics(
            {"--max-restarts=1", "--on-failure=reconfigure", "--restart-scope=worker", "x"}) ==
        Words{"--on-failure=reconfigure and --restart-scope=worker exclude each other\n"
              "  hint: use one of them"});
}

TEST_CASE("the signal scope and the stragglers setting take only their names") {
  CHECK(good({"x"}).signal_scope == SignalScope::process);
  CHECK(good({"x"}).stragglers == Stragglers::wait);
  CHECK(good({"--signal-scope=group", "x"}).signal_scope == SignalScope::group);
  CHECK(good({"--stragglers=leave", "x"}).stragglers == Stragglers::leave);
  CHECK(good({"x"}, {{"PET_STRAGGLERS", "kill"}}).stragglers == Stragglers::kill);
  CHECK(diagnostics({"--signal-scope=session", "x"}) ==
        Words{"--signal-scope=\"session\" is invalid; expected process or group"});
  CHECK(diagnostics({"--stragglers=stay", "x"}) ==
        Words{"--stragglers=\"stay\" is invalid; expected wait, kill or leave"});
}

}  // namespace ending_settings_test

// SPDX-License-Identifier: BSD-3-Clause
// What restarts a job and what ends it for good, with the finished program on one machine.

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>

#include <map>
#include <string>

#include "tests/integration/command.h"
#include "tests/integration/directory.h"
#include "tests/integration/sockets.h"

namespace restarts_test {

using namespace cpprun::integration;

namespace {

Words job(const Words& options, const Words& actions) {
  Words words = {"--standalone"};
  words.insert(words.end(), options.begin(), options.end());
  words.push_back("--no-python");
  words.push_back(worker());
  words.insert(words.end(), actions.begin(), actions.end());
  return with_cpprun(words);
}

}  // namespace

TEST_CASE("a listed exit code ends the job at once, with the reason") {
  const auto ended =
      run(job({"--max-restarts=3", "--no-restart-codes=7,SIGSEGV"}, {"say", "here", "exit", "7"}));
  CHECK(ended.code == 7);
  CHECK(ended.out == "here\n");
  CHECK(contains(ended.err, "not restarted: exit code 7 is listed in --no-restart-codes"));
}

TEST_CASE("an unlisted exit code uses the whole restart budget") {
  const auto ended =
      run(job({"--max-restarts=2", "--no-restart-codes=9"}, {"say", "here", "exit", "7"}));
  CHECK(ended.code == 7);
  CHECK(ended.out == "here\nhere\nhere\n");
  CHECK(contains(ended.err, "all 2 restarts are used"));
}

TEST_CASE("a pause before a restart is printed, and a loop of early failures ends the job") {
  const auto ended =
      run(job({"--max-restarts=9", "--restart-backoff=0.05"}, {"say", "here", "exit", "7"}));
  CHECK(ended.code == 7);
  CHECK(ended.out == "here\nhere\nhere\n");
  CHECK(contains(ended.err, "restart 1 of 9, in 1 s (--restart-backoff)"));
  CHECK(contains(ended.err, "rank 0 died within 1 s of its start 3 times in a row"));
}

TEST_CASE("a listed SIGUSR1 is forwarded to the workers and does not end the job by itself") {
  Command command(job({"--signals-to-handle=SIGUSR1,SIGTERM"}, {"say", "here", "hang"}));
  command.expect_out("here\n");
  command.signal(SIGUSR1);
  // This worker has no handler for it, so the signal ends it.
  const auto ended = command.wait();
  CHECK(ended.code == 128 + SIGUSR1);
  CHECK(contains(ended.err, "SIGUSR1"));
}

TEST_CASE("a single node whose master port is in use prints a hint, and starts nothing") {
  const Listener listener(0);
  REQUIRE(listener);
  const auto ended = run(with_cpprun({"--nnodes=1", "--master-addr=127.0.0.1",
                                      "--master-port=" + std::to_string(listener.port()),
                                      "--no-python", worker(), "say", "here"}));
  CHECK(ended.code == 1);
  CHECK(ended.out == "");
  CHECK(contains(ended.err, "Address already in use"));
  CHECK(contains(ended.err, "give this job its own port"));
}

TEST_CASE("a job that is ended and started again has the restarts left that it had") {
  const Directory directory;
  const std::string flag = "--restart-state=" + directory.path() + "/state";
  const auto times = [](const std::string& text) { return "\"restarts_used\": " + text; };
  {
    // It fails once, and is ended from outside while it runs for the second time.
    const auto script = directory.path() + "/once";
    Command command(with_cpprun(
        {"--standalone", "--max-restarts=2", flag, "--no-python", "sh", "-c",
         "test -e " + script + " && echo again && exec sleep 1000; touch " + script + "; exit 7"}));
    command.expect_out("again\n");
    command.signal(SIGTERM);
    CHECK(command.wait().code == 128 + SIGTERM);
    CHECK(contains(Directory::read(directory.path() + "/state"), times("1")));
  }
  const auto failed = run(job({"--max-restarts=2", flag}, {"say", "here", "exit", "7"}));
  CHECK(failed.out == "here\nhere\n");
  CHECK(contains(failed.err, "this job continues: 1 of its restarts was used before"));
  CHECK(contains(failed.err, "all 2 restarts are used"));
  CHECK(contains(Directory::read(directory.path() + "/state"), times("2")));

  const auto ended = run(job({"--max-restarts=2", flag}, {"say", "here"}));
  CHECK(ended.code == 0);
  CHECK(contains(ended.err, "2 of its restarts were used before"));
  CHECK(directory.files() == std::vector<std::string>{"once"});
}

TEST_CASE("a restart state of another job, or an unreadable or unwritable one, is rejected") {
  const Directory directory;
  const auto refused = [&](const std::string& path) {
    const auto ended = run(job({"--max-restarts=1", "--restart-state=" + path}, {"say", "here"}));
    CHECK(ended.code == 1);
    CHECK(ended.out == "");
    return ended.err;
  };
  CHECK(contains(refused(directory.write("other", R"({"cpprun_restart_state":1,"job":"x"})")),
                 "belongs to job \"x\", but this is job \"standalone\""));
  CHECK(contains(refused(directory.write("mine", "step 7\n")),
                 "is not a restart state file of cpprun"));
  CHECK(Directory::read(directory.path() + "/mine") == "step 7\n");
  CHECK(contains(refused("/dev/null"), "is not a regular file"));
  CHECK(contains(refused(directory.path()), "is not a regular file"));
  CHECK(contains(refused(directory.path() + "/nowhere/state"), "No such file or directory"));
}

TEST_CASE("with --restart-scope=worker only the worker that failed is started again") {
  const Directory directory;
  const std::string gate = directory.path() + "/gate";
  // Rank 0 waits until rank 1 has been started for the third time.
  const std::string script =
      "echo rank $RANK of attempt $TORCHELASTIC_RESTART_COUNT\n"
      "[ $RANK = 0 ] && { read -r line <" +
      gate + "; exit 0; }\n[ $TORCHELASTIC_RESTART_COUNT = 2 ] || exit 7\necho >" + gate;
  REQUIRE(::mkfifo(gate.c_str(), 0600) == 0);
  const auto ended = run(with_cpprun(
      {"--standalone", "--nproc-per-node=2", "--max-restarts=2", "--restart-scope=worker",
       "--redirects=3", "--log-dir=" + directory.path() + "/logs", "--rdzv-id=j",
       "--events=" + directory.path() + "/events", "--report=" + directory.path() + "/report",
       "--no-python", "sh", "-c", script}));
  CAPTURE(ended.err);
  CHECK(ended.code == 0);
  CHECK(contains(ended.err, "restarting rank 1 alone: restart 1 of 2"));
  CHECK(contains(ended.err, "restarting rank 1 alone: restart 2 of 2"));
  CHECK_FALSE(contains(ended.err, "stopping the workers"));
  std::map<std::string, std::string> logs;
  for (const std::string& each : directory.files()) {
    if (!each.ends_with("/stdout.log")) continue;
    logs[each.substr(each.find("/attempt_") + 1)] = Directory::read(directory.path() + "/" + each);
  }
  CHECK(logs ==
        std::map<std::string, std::string>{{"attempt_0/0/stdout.log", "rank 0 of attempt 0\n"},
                                           {"attempt_0/1/stdout.log", "rank 1 of attempt 0\n"},
                                           {"attempt_1/1/stdout.log", "rank 1 of attempt 1\n"},
                                           {"attempt_2/1/stdout.log", "rank 1 of attempt 2\n"}});
  const auto events = Directory::read(directory.path() + "/events");
  CHECK(count(events, R"("event":"round_sealed")") == 1);
  CHECK(count(events, R"("event":"worker_started")") == 4);
  CHECK(count(events, R"("event":"worker_restarting")") == 2);
  const auto report = Directory::read(directory.path() + "/report");
  CHECK(contains(report, R"("restarts": 2)"));
  CHECK(contains(report, R"("worker_restarts": 2)"));
  CHECK(contains(report, R"("others": [])"));
}

TEST_CASE("when no restart is left, the failure of one independent worker ends the job") {
  const auto ended = run(with_cpprun({"--standalone", "--nproc-per-node=2", "--max-restarts=1",
                                      "--restart-scope=worker", "--no-python", "sh", "-c",
                                      "[ $RANK = 0 ] && exec sleep 600; echo once; exit 9"}));
  CHECK(ended.code == 9);
  CHECK(ended.out == "once\nonce\n");
  CHECK(contains(ended.err, "all 1 restarts are used"));
  CHECK(contains(ended.err, "1 other rank of this node was stopped (rank 0)"));
}

TEST_CASE("an independent worker's own failure report is that of its last attempt") {
  const auto ended = run(with_cpprun(
      {"--standalone", "--max-restarts=1", "--restart-scope=worker", "--no-python", "sh", "-c",
       "echo \"{\\\"message\\\":\\\"attempt $TORCHELASTIC_RESTART_COUNT\\\"}\" "
       ">$TORCHELASTIC_ERROR_FILE; exit 4"}));
  CHECK(ended.code == 4);
  CHECK(contains(ended.err, "attempt 1"));
  CHECK_FALSE(contains(ended.err, "attempt 0"));
}

TEST_CASE("--restart-state counts the restart of a worker alone while the round runs") {
  const Directory directory;
  const std::string file = directory.path() + "/state";
  const auto ended = run(with_cpprun({"--standalone", "--max-restarts=1", "--restart-scope=worker",
                                      "--restart-state=" + file, "--no-python", "sh", "-c",
                                      "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 7\n"
                                      "for i in $(seq 200); do grep -q '\"restarts_used\": *1' " +
                                          file + " && exit 0; sleep 0.1; done; exit 8"}));
  CAPTURE(ended.err);
  CHECK(ended.code == 0);
  CHECK(contains(ended.err, "time: "));
}

TEST_CASE("independent workers that form a process group are restarted together, with a warning") {
  const auto ended = run(with_cpprun(
      {"--standalone", "--nproc-per-node=2", "--max-restarts=1", "--restart-scope=worker",
       "--no-python", "sh", "-c",
       "\"$0\" set default_pg/0//cpu//0/$RANK x meet group || exit 70; echo rank $RANK\n"
       "[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0\n[ $RANK = 0 ] && exec sleep 600; exit 7",
       from_build("CPPRUN_STORE_WORKER")}));
  CAPTURE(ended.err);
  CHECK(ended.code == 0);
  CHECK(count(ended.out, "rank 0\n") == 2);
  CHECK(count(ended.out, "rank 1\n") == 2);
  CHECK(contains(ended.err, "warning: --restart-scope=worker is ignored in this round"));
  CHECK_FALSE(contains(ended.err, "restarting rank 1 alone"));
}

}  // namespace restarts_test

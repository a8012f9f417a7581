// SPDX-License-Identifier: BSD-3-Clause
// The machine-readable records that cpprun writes while it runs and at the end: --report and
// --events.

#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/integration/command.h"
#include "tests/integration/directory.h"

namespace records_test {

using namespace cpprun::integration;

namespace {

nlohmann::json report_at(const std::string& path) {
  return nlohmann::json::parse(Directory::read(path), nullptr, false);
}

// The report once it has that state, or the last one when the timeout passes.
nlohmann::json report_in(const std::string& path, const std::string& state) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  auto report = report_at(path);
  while (report.at("state") != state && std::chrono::steady_clock::now() < end) {
    report = report_at(path);
  }
  return report;
}

}  // namespace

TEST_CASE("the report shows that the job runs, then that it is ending, and then its end") {
  const Directory directory;
  const auto path = directory.write("report.json", R"({"succeeded": true})");
  Command job(with_cpprun(
      {"--standalone", "--report=" + path, worker(), "ignore_term", "say", "ready", "hang"}));
  job.expect_out("ready");
  CHECK(report_at(path).at("state") == "running");
  CHECK(report_at(path).at("succeeded").is_null());
  job.signal(15);
  job.expect_err("stopping the workers: asked to stop by SIGTERM");
  const auto ending = report_in(path, "ending");
  CHECK(ending.at("state") == "ending");
  CHECK(ending.at("reason") == "asked to stop by SIGTERM");
  job.signal(15);
  CHECK(job.wait().code == 143);
  CHECK(report_at(path).at("state") == "ended");
  CHECK(report_at(path).at("succeeded") == false);
  CHECK(report_at(path).at("exit_code") == 143);
}

TEST_CASE("a job that fails to start does not leave an earlier report as its own") {
  const Directory directory;
  const auto path = directory.write("report.json", R"({"succeeded": true})");
  CHECK(run(with_cpprun({"--standalone", "--report=" + path, "./nothing"})).code == 2);
  const auto report = report_at(path);
  CHECK(report.at("state") == "ended");
  CHECK(report.at("exit_code") == 2);
  CHECK(contains(report.at("reason").get<std::string>(), "cannot run \"./nothing\""));
}

TEST_CASE("a rejected command line does not leave an earlier report as its own") {
  const Directory directory;
  const auto path = directory.write("report.json", R"({"succeeded": true})");
  CHECK(run(with_cpprun({"--report=" + path, "--nnodes=zz", worker()})).code == 2);
  const auto report = report_at(path);
  CHECK(report.at("state") == "ended");
  CHECK(report.at("exit_code") == 2);
  CHECK(contains(report.at("reason").get<std::string>(), "--nnodes=zz"));
}

TEST_CASE("files that cannot be written are reported with the other errors, and nothing starts") {
  const auto run_with = [](Words flags) {
    flags.insert(flags.end(), {"--report=/nowhere/r", "--events=/nowhere/e"});
    flags.insert(flags.end(), {"--no-python", "./nothing"});
    const auto ended = run(with_cpprun(flags));
    CHECK(ended.code == 2);
    for (const std::string what :
         {"--report: cannot write \"/nowhere/r\": No such file", "cannot run \"./nothing\"",
          "--events: cannot write \"/nowhere/e\": No such file", "nothing was started"}) {
      CHECK_MESSAGE(contains(ended.err, what), ended.err);
    }
    return ended.err;
  };
  run_with({"--standalone"});
  CHECK(contains(run_with({"--standalone", "--max-restarts=many"}), "--max-restarts=many"));
}

TEST_CASE("a rejection leaves no events file, and no earlier report if events cannot be written") {
  const Directory directory;
  const auto path = directory.write("report.json", R"({"succeeded": true})");
  const auto events = "--events=" + directory.path() + "/events.jsonl";
  CHECK(run(with_cpprun({"--standalone", "--max-restarts=many", events, worker()})).code == 2);
  CHECK(directory.files() == std::vector<std::string>{"report.json"});
  CHECK(run(with_cpprun({"--report=" + path, "--events=/nowhere/e", worker()})).code == 2);
  CHECK(report_at(path).at("state") == "ended");
}

TEST_CASE("a link to our own stdout or stderr works like their name") {
  const Directory directory;
  const auto link = directory.path() + "/link";
  std::filesystem::create_symlink("/dev/stdout", link);
  const auto chain = directory.path() + "/chain";
  std::filesystem::create_symlink("link", chain);
  for (const auto& each : {link, chain}) {
    const auto out = run(with_cpprun({"--standalone", "--report=" + each, "--no-python", "true"}));
    CHECK(out.code == 0);
    CHECK_MESSAGE(contains(out.out, "\"state\": \"ended\""), out.out);
    CHECK(out.err.empty());
    const auto said = run(with_cpprun({"--standalone", "--events=" + each, "--no-python", "true"}));
    CHECK_MESSAGE(contains(said.out, "\"job_ended\""), said.out);
  }
  CHECK(std::filesystem::is_symlink(link));
}

TEST_CASE("a report for our own stdout or stderr is written there") {
  const auto out =
      run(with_cpprun({"--standalone", "--report=/dev/stdout", "--no-python", "true"}));
  CHECK(contains(out.out, "\"state\": \"ended\""));
  const auto err = run(with_cpprun({"--standalone", "--report=/dev/stderr", "./nothing"}));
  CHECK(contains(err.err, "\"state\": \"ended\""));
}

TEST_CASE("two nodes with the same report file lose neither report") {
  const Directory directory;
  const auto path = directory.path() + "/report.json";
  const auto port = "--master-port=" + std::to_string(free_port());
  const auto node = [&](const char* rank) {
    return with_cpprun({"--nnodes=2", std::string("--node-rank=") + rank, "--master-addr=127.0.0.1",
                        port, "--report=" + path, worker(), "seat", "exit", "0"});
  };
  Command first(node("0"));
  Command second(node("1"));
  const auto one = first.wait();
  const auto two = second.wait();
  CHECK(one.code == 0);
  CHECK(two.code == 0);
  const auto& names = directory.files();
  REQUIRE(names.size() == 2);
  CHECK(names.front() == "report.json");
  CHECK(names.back().starts_with("report.json.node"));
  CHECK(report_at(path).at("node") != report_at(directory.path() + "/" + names.back()).at("node"));
  CHECK(contains(one.err + two.err, "--report: another node writes to"));
}

TEST_CASE("a disk that is full for a while tears no event, and loses none") {
  if (const auto why = no_mounts(); !why.empty()) return skip(why);
  const Directory directory;
  const auto disk = directory.path() + "/disk";
  const auto events = disk + "/events.jsonl";
  const auto said = directory.path() + "/said";  // written by cpprun; the disk is full until then
  // Whole pages: the first event starts thirty bytes before the end of one, and there is no other.
  const auto script = directory.write(
      "scene.sh",
      "mkdir " + disk + " && mount -t tmpfs -o size=64k tmpfs " + disk +
          " || exit\nprintf '%4065s\\n' x > " + events + "\nhead -c 100000 /dev/zero > " + disk +
          "/ballast 2>/dev/null\n" + from_build("CPPRUN") + " --standalone --events=" + events +
          " --no-python sh -c 'until grep -q \"buffering up to\" " + said + "; do :; done; : > " +
          disk + "/ballast' 2>" + said + "\ncat " + said + " >&2\ncat " + events + "\n");
  const auto ended = run({"unshare", "-m", "sh", script});
  CHECK(contains(ended.err, "KiB of events until there is free space"));
  std::istringstream lines(ended.out);
  std::string line;
  std::getline(lines, line);
  std::string story;
  while (std::getline(lines, line)) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    CHECK_MESSAGE(!json.is_discarded(), line);
    if (!json.is_discarded()) story += json.at("event").get<std::string>() + " ";
  }
  CHECK(story.starts_with("job_started "));
  CHECK(story.ends_with("job_ended "));
}

TEST_CASE("the logs of many attempts are limited, and the report lists every attempt") {
  const Directory directory;
  const auto path = directory.path() + "/report.json";
  const auto ended = run(with_cpprun(
      {"--standalone", "--nproc-per-node=2", "--max-restarts=5", "--log-dir=" + directory.path(),
       "--log-keep=2", "--log-max-bytes=8K", "--redirects=3", "--report=" + path, worker(), "only",
       "1", "trickle", "2000", "say_err", "RuntimeError: CUDA out of memory", "exit", "3"}));
  CHECK(ended.code == 3);
  std::size_t attempts = 0;
  for (const auto& name : directory.files()) {
    if (name == "report.json") continue;
    CHECK((contains(name, "attempt_4/") || contains(name, "attempt_5/")));
    CHECK(Directory::read(directory.path() + "/" + name).size() <= 8192);
    if (name.ends_with("1/stdout.log")) ++attempts;
  }
  CHECK(attempts == 2);
  const auto report = report_at(path);
  REQUIRE(report.at("attempts").size() == 6);
  CHECK(report.at("attempts_left_out") == 0);
  double before = 0;
  for (const auto& attempt : report.at("attempts")) {
    const auto& failure = attempt.at("failure");
    REQUIRE(failure.is_object());
    CHECK(failure.at("rank") == 1);
    CHECK(failure.at("cause") == "cuda_out_of_memory");
    CHECK(failure.at("host") == report.at("host"));
    CHECK(failure.at("time") >= before);
    before = failure.at("time");
  }
}

TEST_CASE("the master's report has what ended each attempt on any node") {
  const Directory directory;
  const auto path = directory.path() + "/report";
  const auto port = "--master-port=" + std::to_string(free_port());
  const auto node = [&](const std::string& rank) {
    return with_cpprun({"--nnodes=2", "--node-rank=" + rank, "--master-addr=127.0.0.1", port,
                        "--max-restarts=2", "--report=" + path + rank, worker(), "hang_if_not", "1",
                        "say_err", "RuntimeError: CUDA out of memory", "exit", "3"});
  };
  Command first(node("0"));
  Command second(node("1"));
  CHECK(first.wait().code == 3);
  CHECK(second.wait().code == 3);
  const auto attempts = report_at(path + "0").at("attempts");
  REQUIRE(attempts.size() == 3);
  for (const auto& attempt : attempts) {
    CHECK(attempt.at("failure").at("rank") == 1);
    CHECK(attempt.at("failure").at("cause") == "cuda_out_of_memory");
  }
}

}  // namespace records_test

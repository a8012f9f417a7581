// SPDX-License-Identifier: BSD-3-Clause
// Commands that an operator sends to a running job by HTTP, and what its workers see of them. With
// the finished programs.

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/integration/command.h"
#include "tests/integration/directory.h"
#include "tests/integration/sockets.h"

namespace orders_test {

using namespace cpprun::integration;
using nlohmann::json;

namespace {

struct Answer {
  int status = 0;
  json body;
};

std::string ask(int port, const std::string& request) {
  const auto socket = speak(port, request);
  std::string text;
  char chunk[4096];
  pollfd watched{socket.get(), POLLIN, 0};
  while (::poll(&watched, 1, 60'000) == 1) {
    const ssize_t count = ::read(socket.get(), chunk, sizeof chunk);
    if (count <= 0) break;
    text.append(chunk, static_cast<std::size_t>(count));
  }
  return text;
}

Answer post(int port, const std::string& target, const json& body = json::object(),
            const std::string& fields = "Content-Type: application/json\r\n") {
  const std::string text = body.dump();
  const std::string answer =
      ask(port, "POST " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n" +
                    fields + "Content-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text);
  REQUIRE(answer.starts_with("HTTP/1.1 "));
  return {std::stoi(answer.substr(9)), json::parse(answer.substr(answer.find("\r\n\r\n") + 4))};
}

// Agents of one job that meets at an endpoint on this machine; the first one hosts it.
struct Meeting {
  int port = free_port();
  std::string nodes = "2";

  Words agent(const Words& options, const Words& actions) const {
    Words words = {"--nnodes=" + nodes, "--rdzv-backend=c10d",
                   "--rdzv-endpoint=localhost:" + std::to_string(port), "--rdzv-id=asked",
                   "--rdzv-conf=keep_alive_interval=1,last_call_timeout=1"};
    words.insert(words.end(), options.begin(), options.end());
    words.push_back(worker());
    words.insert(words.end(), actions.begin(), actions.end());
    return with_cpprun(words);
  }
};

const Words stay = {"seat", "hang"};
const std::string job = "/api/v1/jobs/asked/";

}  // namespace

TEST_CASE(
    "stop ends the job on all nodes with 143, and report and events give the reason and the "
    "source") {
  const Meeting meeting;
  const Directory directory;
  const std::string report = directory.path() + "/report.json";
  const std::string events = directory.path() + "/events.jsonl";
  Command first(meeting.agent({"--report=" + report, "--events=" + events}, stay));
  first.expect_err("cpprun");
  Command second(meeting.agent({}, stay));
  first.expect_out("restart 0\n");
  second.expect_out("restart 0\n");
  CHECK(post(meeting.port, job + "stop", {{"whose", 1}}).status == 400);
  CHECK(post(meeting.port, "/api/v1/jobs/other/stop").status == 404);
  CHECK(post(meeting.port, job + "forget").status == 409);
  CHECK(post(meeting.port, job + "stop", json::object(), "").status == 415);
  CHECK(post(meeting.port, job + "stop", json::object(),
             "Origin: http://evil\r\nContent-Type: application/json\r\n")
            .status == 403);
  const Answer stopped = post(meeting.port, job + "stop", {{"reason", "maintenance"}});
  CHECK(stopped.status == 200);
  CHECK(stopped.body["said"] == "job \"asked\" is stopping its workers on 2 nodes");
  const auto of_first = first.wait();
  const auto of_second = second.wait();
  const std::string reason =
      (::geteuid() == 0 ? "uid 0 (root)" : "uid " + std::to_string(::geteuid())) +
      std::string(" stopped the job: maintenance");
  CHECK(of_first.code == 128 + SIGTERM);
  CHECK(of_second.code == 128 + SIGTERM);
  CHECK(contains(of_first.err, reason));
  CHECK(contains(of_second.err, reason));
  CHECK(json::parse(std::ifstream(report))["reason"] == reason);
  std::ifstream lines(events);
  json last;
  for (std::string line; std::getline(lines, line);) {
    const json event = json::parse(line);
    if (event["event"] == "order") last = event;
  }
  CHECK(last["order"] == "stop");
  CHECK(last["outcome"] == "done");
  CHECK(last["reason"] == "maintenance");
  first.expect_no_worker_left();
}

TEST_CASE("restart starts a new round and spends no restart") {
  const Meeting meeting;
  Command first(meeting.agent({}, stay));
  first.expect_err("cpprun");
  Command second(meeting.agent({}, stay));
  second.expect_out("restart 0\n");
  first.expect_out("restart 0\n");
  CHECK(post(meeting.port, job + "restart").status == 200);
  first.expect_out("restart 0\n", 2);
  second.expect_out("restart 0\n", 2);
  CHECK(post(meeting.port, job + "stop").status == 200);
  CHECK(first.wait().code == 143);
  CHECK(second.wait().code == 143);
}

TEST_CASE("save reaches every worker that has a handler, and harms none without one") {
  Meeting meeting;
  meeting.nodes = "1";
  Command command(meeting.agent({"--nproc-per-node=3"}, {"say_on_usr1", "1", "seat", "hang"}));
  command.expect_out("restart 0\n", 3);
  const Answer saved = post(meeting.port, job + "save");
  CHECK(saved.status == 200);
  CHECK(saved.body["said"] ==
        "sending SIGUSR1 to the 3 workers of round 1 in 1 s; workers without a handler for it are "
        "skipped");
  command.expect_out("saves\n", 2);
  command.expect_err("rank 1 has no handler for SIGUSR1, which would kill it");
  CHECK(post(meeting.port, job + "save", {{"signal", "SIGKILL"}}).status == 400);
  CHECK(post(meeting.port, job + "stop").status == 200);
  CHECK(command.wait().code == 143);
}

TEST_CASE("a preemption notice makes all ranks save, and ends nothing") {
  const Directory directory;
  const auto file = directory.path() + "/preempt";
  const auto job_with = [](const std::string& notice) {
    Words words{"--standalone", "--nproc-per-node=2", "--preemption-notice=" + notice, worker()};
    for (const char* action : {"say_on_usr1", "-1", "seat", "hang"}) words.emplace_back(action);
    return with_cpprun(words);
  };
  const auto expect_saves = [](Command& command, const std::string& what) {
    command.expect_err("cpprun: note: preemption notice (" + what + "); asking all ranks to save");
    command.expect_out("saves\n", 2);
    command.signal(SIGTERM);
    CHECK(command.wait().code == 143);
  };
  {
    Command command(job_with(file));
    command.expect_out("restart 0\n", 2);
    directory.write("preempt", "");
    expect_saves(command, "file " + file);
  }
  {
    // Exits with 1 until the file has a content.
    const auto wait = "grep -q . " + file;
    Command command(job_with(wait));
    command.expect_out("restart 0\n", 2);
    directory.write("preempt", "soon\n");
    expect_saves(command, "command " + wait);
  }
  {
    const auto soon = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()) + 6;
    Command command(job_with("slurm"),
                    {.variables = {{"SLURM_JOB_END_TIME", std::to_string(soon)}}});
    command.expect_out("restart 0\n", 2);
    command.expect_err("cpprun: note: preemption notice (Slurm's time limit in ");
    command.expect_out("saves\n", 2);
    command.signal(SIGTERM);
    CHECK(command.wait().code == 143);
  }
}

TEST_CASE("an impossible preemption notice is rejected, or given up with a message") {
  const auto refused = run(with_cpprun({"--preemption-notice=/nowhere/at/all", "true"}));
  CHECK(refused.code == 2);
  CHECK(contains(
      refused.err,
      "cpprun: error: --preemption-notice=/nowhere/at/all: directory /nowhere/at does not exist"));
  const auto no_slurm = run(with_cpprun({"--preemption-notice=slurm", "true"}));
  CHECK(no_slurm.code == 2);
  CHECK(contains(no_slurm.err, "SLURM_JOB_END_TIME is not set"));
  for (const std::string place : {"/dev/null", "/tmp"}) {
    const auto no_file = run(with_cpprun({"--preemption-notice=" + place, "true"}));
    CHECK(no_file.code == 2);
    CHECK(contains(no_file.err, "--preemption-notice=" + place + ": this is a d"));
  }
  Command command(
      with_cpprun({"--preemption-notice=/nowhere/at/all --now", worker(), "seat", "hang"}));
  command.expect_err(
      "\"/nowhere/at/all --now\" cannot be run (exit code 127); preemption notices are not");
  command.expect_out("restart 0\n");
  command.signal(SIGTERM);
  CHECK(command.wait().code == 143);
}

TEST_CASE("the report says who ended the job, if that is known") {
  const Directory directory;
  const std::string report = directory.path() + "/report.json";
  Words words{"timeout", "--foreground", "3"};
  for (const auto& word :
       with_cpprun({"--standalone", "--report=" + report, worker(), "seat", "hang"})) {
    words.push_back(word);
  }
  Command command(words);
  command.expect_out("restart 0\n");
  command.expect_err("the timeout command ended the job");
  command.wait();
  const auto written = json::parse(std::ifstream(report));
  CHECK(written["exit_code"] == 143);
  CHECK(contains(written["reason"].get<std::string>(), "the timeout command ended the job"));
}

TEST_CASE("a hang-up prints the ways to outlive a terminal") {
  Command command(with_cpprun({"--standalone", worker(), "seat", "hang"}));
  command.expect_out("restart 0\n");
  command.signal(SIGHUP);
  command.expect_err(
      "\n  hint: to keep a job running, start it under nohup, setsid, tmux or "
      "systemd-run --user\n");
  CHECK(command.wait().code == 129);
}

TEST_CASE(
    "a drained node ends with 0 and a spare takes over; a node that is needed is not drained") {
  const Meeting meeting;
  Command first(meeting.agent({}, stay));
  first.expect_err("cpprun");
  Command second(meeting.agent({}, stay));
  second.expect_out("rank 1 of 2");
  CHECK(post(meeting.port, job + "drain", {{"node", 1}}).status == 409);
  CHECK(post(meeting.port, job + "drain", {{"node", "no-such-node"}}).status == 404);
  Command spare(meeting.agent({}, stay));
  spare.expect_err("this node is a spare");
  CHECK(post(meeting.port, job + "drain", {{"node", "1"}, {"reason", "it smells"}}).status == 200);
  spare.expect_out("rank 1 of 2, restart 0\n");
  const auto drained = second.wait();
  CHECK(drained.code == 0);
  CHECK(contains(drained.err, "this node leaves the job: uid "));
  CHECK(contains(drained.err, ": it smells"));
  CHECK(post(meeting.port, job + "stop").status == 200);
  CHECK(first.wait().code == 143);
  CHECK(spare.wait().code == 143);
}

TEST_CASE("a daemon gives an excluded host no seat, and forgets a job that its nodes have left") {
  const int port = free_port();
  Command daemon({from_build("CPPRUND"), "--host=127.0.0.1", "--port=" + std::to_string(port)});
  daemon.expect_out("listening");
  const Words agent = with_cpprun({"--nnodes=1:2", "--rdzv-backend=c10d", "--rdzv-id=asked",
                                   "--rdzv-endpoint=127.0.0.1:" + std::to_string(port),
                                   "--rdzv-conf=last_call_timeout=0.1,keep_alive_interval=10",
                                   "--no-python", worker(), "seat", "hang"});
  const std::string host = "/api/v1/hosts/127.0.0.1/";
  CHECK(post(port, host + "exclude").status == 409);  // no job, and no length
  CHECK(post(port, host + "exclude", {{"for_s", 3600}, {"reason", "a bad fan"}}).status == 200);
  const auto refused = run(agent);
  CHECK(refused.code == 1);
  CHECK(contains(refused.err, "127.0.0.1 is excluded for 3"));
  CHECK(contains(refused.err, "excluded 127.0.0.1: a bad fan"));
  CHECK(post(port, host + "include").status == 200);
  CHECK(post(port, host + "include").status == 404);
  Command command(agent);
  command.expect_out("restart 0\n");
  CHECK(post(port, job + "forget").status == 409);
  command.signal(SIGKILL);
  const auto end = std::chrono::steady_clock::now() + timeout;
  int status = 409;  // until the daemon has noticed that the link is gone
  while (status == 409 && std::chrono::steady_clock::now() < end) {
    status = post(port, job + "forget").status;
  }
  CHECK(status == 200);
  CHECK(post(port, job + "forget").status == 404);
  daemon.expect_err("asks to forget job \"asked\"");
}

}  // namespace orders_test

// SPDX-License-Identifier: BSD-3-Clause
// cpprunctl and the sockets through which it finds jobs, with the finished programs: a job of two
// cppruns is listed, shown, watched and waited for; and what cpprunctl reports when there is no
// job.

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "proto/link/codec.h"
#include "tests/integration/command.h"
#include "tests/integration/directory.h"
#include "tests/integration/sockets.h"

namespace control_test {

using namespace cpprun::integration;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

// Everything of one test is in a directory of its own, so jobs of other tests are not visible.
struct Scene {
  Directory temporary;
  int port = free_port();

  Options options() const {
    return {
        .variables = {{"TMPDIR", temporary.path()}, {"XDG_RUNTIME_DIR", ""}, {"TERM", "xterm"}}};
  }
  std::string doors() const { return temporary.path() + "/cpprun-" + std::to_string(::geteuid()); }
  Words node(int rank, const Words& flags = {}, const Words& what = {"pid", "hang"}) const {
    Words words = {"--nnodes=2",
                   "--nproc-per-node=1",
                   "--rdzv-id=seen",
                   "--master-addr=127.0.0.1",
                   "--master-port=" + std::to_string(port),
                   "--node-rank=" + std::to_string(rank)};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"--no-python", worker()});
    words.insert(words.end(), what.begin(), what.end());
    return with_cpprun(words);
  }
  Words control(const Words& words) const {
    Words all = {from_build("CPPRUNCTL")};
    // cpprunctl also looks here, for programs with another environment: hide the jobs of others.
    const auto user = std::to_string(::geteuid());
    std::string hide;
    for (const auto& each : {"/tmp/cpprun-" + user, "/run/user/" + user + "/cpprun"}) {
      if (fs::exists(each)) hide += "mount -t tmpfs none " + each + " && ";
    }
    if (!hide.empty() && user == "0") {
      all.insert(all.begin(), {"unshare", "--mount", "sh", "-c", hide + "exec \"$0\" \"$@\""});
    }
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
  Ended ask(const Words& words) const { return run(control(words), options()); }
  // Until a job is listed: the socket is created a while after the start.
  json listed() const {
    const auto end = std::chrono::steady_clock::now() + timeout;
    while (true) {
      const auto answer = ask({"ls", "--json"});
      json jobs = answer.code == 0 ? json::parse(answer.out)["jobs"] : json::array();
      if (!jobs.empty() || std::chrono::steady_clock::now() > end) return jobs;
      std::this_thread::yield();
    }
  }
};

// The pid that the worker of that rank has printed.
pid_t pid_of(const Command& command, int rank) {
  const std::string begin = "pid of rank " + std::to_string(rank) + ": ";
  const auto at = command.out().rfind(begin);
  REQUIRE(at != std::string::npos);
  return static_cast<pid_t>(std::stol(command.out().substr(at + begin.size())));
}

}  // namespace

TEST_CASE("a job of two nodes is listed, shown, watched, and waited for to its end") {
  const Scene scene;
  Command first(scene.node(0), scene.options());
  Command second(scene.node(1), scene.options());
  first.expect_out("\n");
  second.expect_out("\n");
  const json jobs = scene.listed();
  REQUIRE(jobs.size() == 1);
  CHECK(jobs[0]["job"] == "seen");
  CHECK(jobs[0]["state"] == "running");
  CHECK(jobs[0]["nodes"]["running"] == 2);
  CHECK(contains(jobs[0]["at"].get<std::string>(), scene.doors()));

  const auto list = scene.ask({"ls"});
  CHECK(list.out.starts_with("JOB "));
  CHECK(contains(list.out, "\nseen  running"));
  const std::string page = "http://127.0.0.1:" + std::to_string(scene.port) + "/\n";
  CHECK(list.out.ends_with(page));
  const auto status = scene.ask({"status", "se"});
  CHECK(status.code == 0);
  CHECK(contains(status.out, "job \"seen\" has been running for "));
  CHECK(contains(status.out, " 2/2 nodes, 2 workers"));
  CHECK(contains(status.out, "\nstatus page: " + page));
  CHECK(json::parse(scene.ask({"status", "--json"}).out)["members"].size() == 2);
  CHECK(contains(scene.ask({"top"}).out, "RANKS"));
  CHECK(contains(scene.ask({"report"}).out, "no worker of this job has failed"));
  const auto by_address = "--address=127.0.0.1:" + std::to_string(scene.port);
  CHECK(json::parse(scene.ask({by_address, "ls", "--json"}).out)["jobs"].size() == 1);

  const auto events = scene.ask({"events", "--json"});
  CHECK(contains(events.out, R"("event":"job_started","job":"seen")"));
  CHECK(contains(events.out, R"("event":"round_sealed")"));
  CHECK(count(events.out, R"("event":"node_joined")") == 2);
  CHECK(json::parse(events.out.substr(0, events.out.find('\n')))["event"] == "job_started");

  Command watch(scene.control({"events", "-f", "seen"}), scene.options());
  watch.expect_out("round_sealed");
  Command wait(scene.control({"wait", "seen", "--json"}), scene.options());
  wait.expect_err("cpprunctl: waiting for job \"seen\" to end\n");
  ::kill(pid_of(second, 1), SIGKILL);
  CHECK(wait.wait().code == 137);
  CHECK(json::parse(wait.out())["job"] == "seen");
  CHECK(watch.wait().code == 0);
  CHECK(contains(watch.out(), "job_ended       exit code 137"));
  CHECK(first.wait().code == 137);
  second.wait();
  CHECK(scene.temporary.entries() == std::vector<std::string>{});
}

TEST_CASE("commands save and stop a job, and an impossible command prints why") {
  const Scene scene;
  Command job(scene.node(0, {"--nnodes=1"}), scene.options());
  job.expect_out("\n");
  REQUIRE(scene.listed().size() == 1);
  const auto unknown_node = scene.ask({"drain", "no-such-node"});
  CHECK(unknown_node.code == 1);
  CHECK(contains(unknown_node.err, "cpprunctl: error: "));
  CHECK(scene.ask({"forget"}).code == 1);
  Command watch(scene.control({"events", "-f", "--json"}), scene.options());
  watch.expect_out("worker_started");
  const auto stop = scene.ask({"stop", "seen", "--reason", "a wrong learning rate", "--json"});
  CHECK(stop.code == 0);
  CHECK(json::parse(stop.out)["said"].is_string());
  CHECK(job.wait().code != 0);
  watch.wait();
  CHECK(contains(watch.out(), R"("order":"stop","by":"uid )"));
  CHECK(contains(watch.out(), R"("reason":"a wrong learning rate")"));
  CHECK(contains(watch.out(), R"("event":"job_ended")"));
}

TEST_CASE("every page of a daemon's jobs is listed, and the last job is found") {
  const Scene scene;
  auto options = scene.options();
  options.variables["CPPRUN_SECRET_FILE"] = "";  // its agents have no secret here
  Command daemon(
      {from_build("CPPRUND"), "--host=127.0.0.1", "--port=" + std::to_string(scene.port)}, options);
  daemon.expect_out("listening");
  constexpr int jobs = 230;  // a page has 200
  std::vector<cpprun::FileDescriptor> agents;
  for (int at = 1000; at < 1000 + jobs; ++at) {
    const cpprun::link::Join join{.job = "job" + std::to_string(at),
                                  .host = "host",
                                  .pid = 2,
                                  .nodes_min = 2,
                                  .nodes_max = 2,
                                  .lease = std::chrono::seconds(60)};
    const auto said = std::string(cpprun::link::preamble) + cpprun::link::encode(join);
    agents.push_back(speak(scene.port, said));
  }
  const auto end = std::chrono::steady_clock::now() + timeout;
  json seen;
  do {
    const auto answer = scene.ask({"ls", "--json"});
    if (answer.code == 0) seen = json::parse(answer.out)["jobs"];
  } while (seen.size() < jobs && std::chrono::steady_clock::now() < end);
  REQUIRE(seen.size() == jobs);
  CHECK(seen.front()["job"] == "job1000");
  CHECK(seen.back()["job"] == "job1229");
  CHECK(count(scene.ask({"ls", "--names"}).out, "\n") == jobs);
  CHECK(scene.ask({"status", "job1229"}).code == 0);
}

TEST_CASE("a command about a host asks which of several programs is meant") {
  const Scene scene;
  Command first(scene.node(0, {"--nnodes=1", "--rdzv-id=one"}), scene.options());
  Scene other;
  Command second(other.node(0, {"--nnodes=1", "--rdzv-id=two"}), scene.options());
  first.expect_out("\n");
  second.expect_out("\n");
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (scene.listed().size() < 2 && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  const auto asked = scene.ask({"exclude", "192.0.2.9", "--for=1h"});
  CHECK(asked.code == 1);
  CHECK(contains(asked.err, " programs host jobs here: "));
  CHECK(contains(asked.err, "  hint: choose one with --job or --address"));
  CHECK(contains(asked.err, "(\"one\")"));
  CHECK(contains(asked.err, "(\"two\")"));
  const auto one = scene.ask({"exclude", "192.0.2.9", "--for=1h", "--job=one"});
  CHECK_MESSAGE(one.code == 0, one.err);
  const auto every = scene.ask({"include", "192.0.2.9", "--all"});
  CHECK(every.code == 0);
  CHECK(count(every.out, "\n") == 1);       // the first included it again
  CHECK(contains(every.err, "192.0.2.9"));  // the second never excluded it
  CHECK(count(scene.ask({"exclude", "192.0.2.9", "--all"}).out, "\n") == 2);
  for (Command* const job : {&first, &second}) {
    job->signal(SIGTERM);
    job->wait();
  }
}

TEST_CASE("a command for a job that does not respond or has ended reaches no other job") {
  const Scene scene;
  Command first(scene.node(0, {"--nnodes=1", "--rdzv-id=train-1"}), scene.options());
  const Scene other;
  Command tenth(other.node(0, {"--nnodes=1", "--rdzv-id=train-10"}), scene.options());
  first.expect_out("\n");
  tenth.expect_out("\n");
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (scene.listed().size() < 2 && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  first.signal(SIGSTOP);
  for (const Words& words : {Words{"stop", "train-1"},
                             {"wait", "train-1"},
                             {"stop"},
                             {"exclude", "192.0.2.9"},
                             {"status", "train-2"}}) {
    CAPTURE(words.front());
    const auto asked = scene.ask(words);
    CHECK(asked.code == 69);
    CHECK(contains(asked.err, "error: cannot "));
    CHECK(contains(asked.err, "no response from " + scene.doors()));
  }
  CHECK(scene.ask({"status", "train-10"}).code == 0);
  first.signal(SIGCONT);
  first.signal(SIGTERM);
  first.wait();
  while (scene.listed().size() > 1 && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  for (const char* verb : {"stop", "restart", "save", "forget", "wait"}) {
    CAPTURE(verb);
    const auto asked = scene.ask({verb, "train-1"});
    CHECK(asked.code == 1);
    CHECK(contains(asked.err, "unknown job \"train-1\"; known: \"train-10\"\n  hint: "));
  }
  CHECK(scene.ask({"drain", "0", "--job", "train-1"}).code == 1);
  CHECK(scene.ask({"status", "train-1"}).code == 0);  // reading accepts a prefix
  CHECK(scene.ask({"stop", "train-10"}).code == 0);
  tenth.wait();
}

TEST_CASE("lost output is an error in every program") {
  const Scene scene;
  Command job(scene.node(0, {"--nnodes=1"}), scene.options());
  job.expect_out("\n");
  REQUIRE(scene.listed().size() == 1);
  const auto to = [&](const std::string& where, Words words) {
    Words all = {"sh", "-c", "exec \"$@\" " + where, "sh"};
    all.insert(all.end(), words.begin(), words.end());
    return run(all, scene.options());
  };
  const auto of = [](const std::string& program, Words words) {
    words.insert(words.begin(), program);
    return words;
  };
  const std::string control = from_build("CPPRUNCTL");
  const std::string daemon = from_build("CPPRUND");
  const std::string launcher = with_cpprun({}).front();
  std::vector<Words> commands;
  for (const auto& program : {control, daemon, launcher}) {
    for (const char* flag : {"--help", "--version", "--print-man", "--print-completion=bash"}) {
      commands.push_back(of(program, {flag}));
    }
  }
  for (const Words& words : {Words{"ls"},
                             {"ls", "--json"},
                             {"ls", "--names"},
                             {"status"},
                             {"status", "--json"},
                             {"top"},
                             {"events"},
                             {"events", "--json"},
                             {"report"},
                             {"include", "192.0.2.9", "--all", "--json"},
                             {"keygen", "-"},
                             {"doctor"},
                             {"exclude", "192.0.2.8", "--json"}}) {
    commands.push_back(of(control, words));
  }
  commands.push_back(with_cpprun({"--dry-run", "--no-python", "true"}));
  for (const auto& words : commands) {
    CAPTURE(words.back());
    const bool is_refused = words.size() > 1 && words[1] == "include";  // nothing is printed
    for (const auto& [where, why] : {std::pair{"> /dev/full", "No space left on device"},
                                     std::pair{">&-", "Bad file descriptor"}}) {
      const auto ended = to(where, words);
      CHECK(ended.code == 1);
      if (!is_refused) {
        CHECK(contains(ended.err, std::string("error: cannot write to stdout: ") + why + "\n"));
      }
    }
  }
  // A reader that has closed the pipe needs no output; a job whose stdout was closed runs.
  CHECK(run({"bash", "-c", "set -o pipefail; \"$0\" --help | true", control}).code == 0);
  CHECK(to(">&-", with_cpprun({"--no-python", "echo", "x"})).code == 0);
  job.signal(SIGTERM);
  job.wait();
}

TEST_CASE("output has colours only on a terminal, and never with NO_COLOR") {
  if (const auto why = no_terminal(); !why.empty()) return skip(why);
  const Scene scene;
  Command job(scene.node(0, {"--nnodes=1"}), scene.options());
  job.expect_out("\n");
  REQUIRE(scene.listed().size() == 1);
  Options terminal = scene.options();
  terminal.on_terminal = true;
  CHECK(contains(run(scene.control({"ls"}), terminal).out, "\x1b["));
  CHECK_FALSE(contains(scene.ask({"ls"}).out, "\x1b["));
  terminal.variables["NO_COLOR"] = "1";
  CHECK_FALSE(contains(run(scene.control({"ls"}), terminal).out, "\x1b["));
  job.signal(SIGTERM);
  job.wait();
}

TEST_CASE("top draws on a terminal, handles its keys, and restores the terminal") {
  if (const auto why = no_terminal(); !why.empty()) return skip(why);
  const Scene scene;
  Command job(scene.node(0, {"--nnodes=1"}), scene.options());
  job.expect_out("\n");
  REQUIRE(scene.listed().size() == 1);
  Options terminal = scene.options();
  terminal.on_terminal = true;
  for (const bool by_key : {true, false}) {
    Command top(scene.control({"top"}), terminal);
    top.expect_out("q quit");
    top.type("r");
    top.expect_out("q quit", 2);
    if (by_key) {
      top.type("q");
    } else {
      top.signal(SIGTERM);
    }
    CHECK(top.wait().code == (by_key ? 0 : 128 + SIGTERM));
    CHECK(top.out().ends_with("\x1b[?25h\x1b[?1049l"));
  }
  job.signal(SIGTERM);
  job.wait();
}

TEST_CASE("an unknown job, and the absence of any job, are errors that list what exists") {
  const Scene scene;
  const auto no_job = scene.ask({"status"});
  CHECK(no_job.code == 69);
  CHECK(contains(no_job.err, "no cpprun or cpprund of uid"));
  CHECK(contains(no_job.err, scene.doors()));
  CHECK(json::parse(scene.ask({"ls", "--json"}).out) == json::parse(R"({"jobs":[],"silent":[]})"));
  CHECK(scene.ask({"ls"}).code == 0);
  const auto refused = scene.ask({"--address=127.0.0.1:" + std::to_string(scene.port), "ls"});
  CHECK(refused.code == 69);
  CHECK(contains(refused.err, "Connection refused"));

  Command job(scene.node(0, {"--nnodes=1"}), scene.options());
  job.expect_out("\n");
  REQUIRE(scene.listed().size() == 1);
  const auto closed = "--address=127.0.0.1:" + std::to_string(free_port());
  for (const Words& words : {Words{"status", closed}, {"status", closed, "--json", "a"}}) {
    CHECK(contains(scene.ask(words).err, ": Connection refused"));
  }
  const auto other = scene.ask({"status", "nothing"});
  CHECK(other.code == 1);
  CHECK(contains(other.err, "unknown job \"nothing\"; known: \"seen\""));
  job.signal(SIGTERM);
  job.wait();
}

TEST_CASE("a job that was killed leaves nothing, and the socket of a dead daemon is removed") {
  const Scene scene;
  Command job(scene.node(0, {"--nnodes=1"}), scene.options());
  job.expect_out("\n");
  REQUIRE(scene.listed().size() == 1);
  Command wait(scene.control({"wait"}), scene.options());
  const auto end = std::chrono::steady_clock::now() + timeout;
  job.signal(SIGKILL);
  // It may have started too late to see the job at all.
  CHECK(wait.wait().code == 69);
  job.wait();
  while (fs::exists(scene.doors()) && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  CHECK_FALSE(fs::exists(scene.doors()));

  Command daemon({from_build("CPPRUND"), "--host=127.0.0.1", "--port=0"}, scene.options());
  daemon.expect_out("listening");
  while (!fs::exists(scene.doors()) && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  daemon.signal(SIGKILL);
  daemon.wait();
  CHECK(fs::exists(scene.doors()));
  CHECK(scene.ask({"ls"}).code == 0);
  CHECK(fs::is_empty(scene.doors()));
}

TEST_CASE("the end of a stream is not the end of its job") {
  const Scene scene;
  Command job(scene.node(0, {"--nnodes=1"}), scene.options());
  job.expect_out("\n");
  REQUIRE(scene.listed().size() == 1);
  Command watch(scene.control({"events", "-f"}), scene.options());
  Command named(scene.control({"events", "-f", "seen"}), scene.options());
  watch.expect_out("worker_started");
  named.expect_out("worker_started");
  job.signal(SIGKILL);
  for (Command* const each : {&watch, &named}) {
    CHECK(each->wait().code == 69);
    CHECK(contains(each->err(), "cpprunctl: lost contact ("));
    CHECK(contains(each->err(), "cpprunctl: error: lost contact for 8.0 s ("));
  }
  job.wait();
}

namespace {

// A cpprund that keeps its jobs, a job of one node there, and two tools that follow it.
struct KeptScene : Scene {
  Directory state;
  Options plain_options() const {
    auto plain = options();
    plain.variables["CPPRUN_SECRET_FILE"] = "";
    return plain;
  }
  std::unique_ptr<Command> begin(const Words& words) const {
    return std::make_unique<Command>(words, plain_options());
  }
  std::unique_ptr<Command> begin_daemon() const {
    return begin({from_build("CPPRUND"), "--host=127.0.0.1", "--port=" + std::to_string(port),
                  "--state=" + state.path()});
  }
  std::unique_ptr<Command> daemon = begin_daemon();
  std::unique_ptr<Command> job;
  std::unique_ptr<Command> wait;
  std::unique_ptr<Command> watch;

  KeptScene() {
    daemon->expect_out("listening");
    job = begin(with_cpprun({"--nnodes=1", "--rdzv-backend=c10d", "--rdzv-id=kept",
                             "--rdzv-endpoint=127.0.0.1:" + std::to_string(port),
                             "--rdzv-conf=keep_alive_interval=2,keep_alive_max_attempt=30",
                             "--no-python", worker(), "pid", "hang"}));
    job->expect_out("\n");
    REQUIRE(listed().size() == 1);
    wait = begin(control({"wait", "kept"}));
    watch = begin(control({"events", "-f", "kept"}));
    wait->expect_err("waiting for job \"kept\" to end\n");
    watch->expect_out("round_sealed");
  }
  void lose_daemon() {
    daemon->signal(SIGKILL);
    daemon->wait();
    wait->expect_err("lost contact (");
    watch->expect_err("lost contact (");
  }
  void end_job() {
    job->expect_out("pid of rank 0", 2);  // its store was the daemon's
    job->signal(SIGTERM);
    CHECK(job->wait().code == 143);
  }
  void expect_end() {
    CHECK(wait->wait().code == 143);
    watch->expect_out("job_ended");
    daemon->signal(SIGTERM);
    CHECK(watch->wait().code == 0);
    CHECK(daemon->wait().code == 0);
  }
};

}  // namespace

TEST_CASE("wait and events -f resume when a cpprund that keeps its jobs restarts") {
  KeptScene scene;
  scene.lose_daemon();
  scene.daemon = scene.begin_daemon();
  scene.wait->expect_err("contact with job \"kept\" restored\n");
  scene.end_job();
  scene.expect_end();
}

TEST_CASE("wait and events -f notice a job that ended while they had no contact") {
  KeptScene scene;
  scene.lose_daemon();
  for (Command* const each : {scene.wait.get(), scene.watch.get()}) each->signal(SIGSTOP);
  scene.daemon = scene.begin_daemon();
  scene.end_job();
  for (Command* const each : {scene.wait.get(), scene.watch.get()}) each->signal(SIGCONT);
  scene.expect_end();
}

namespace {

// Answers every request one byte at a time, without end.
class Dripper {
 public:
  Dripper() : thread_([this] { drip(); }) {}
  ~Dripper() {
    is_over_ = true;
    thread_.join();
  }
  std::string address() const { return "--address=127.0.0.1:" + std::to_string(listening_.port()); }

 private:
  void drip() {
    constexpr int between_bytes_milliseconds = 50;
    const std::string begin = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
    std::vector<std::pair<cpprun::FileDescriptor, std::size_t>> callers;
    while (!is_over_) {
      auto next = listening_.answer("", between_bytes_milliseconds);
      if (next) callers.emplace_back(std::move(next), 0);
      for (auto& [caller, count] : callers) {
        const char byte = count < begin.size() ? begin[count] : ' ';
        ++count;
        (void)!::send(caller.get(), &byte, 1, MSG_NOSIGNAL);
      }
    }
  }

  Listener listening_{0};
  std::atomic<bool> is_over_ = false;
  std::thread thread_;
};

}  // namespace

TEST_CASE("a server that trickles bytes is timed out like a silent one") {
  const Scene scene;
  const Dripper dripper;
  for (const Words& words : {Words{"ls"}, {"status"}, {"events"}, {"wait", "a"}}) {
    CAPTURE(words.front());
    Words all = {dripper.address()};
    all.insert(all.end(), words.begin(), words.end());
    CHECK(scene.ask(all).code == 69);
  }
}

TEST_CASE("another user of the machine is rejected") {
  if (::geteuid() != 0) return skip("only root can act as another user");
  const Scene scene;
  fs::permissions(scene.temporary.path(), fs::perms::all);
  Command job(scene.node(0, {"--nnodes=1"}), scene.options());
  job.expect_out("\n");
  const json jobs = scene.listed();
  REQUIRE(jobs.size() == 1);
  const std::string door = jobs[0]["at"];
  fs::permissions(scene.doors(), fs::perms::all);
  fs::permissions(door, fs::perms::all);
  Words words = {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"};
  for (const auto& word : scene.control({"ls", "--all-users"})) words.push_back(word);
  const auto unidentified = run(words, scene.options());
  if (contains(unidentified.err, "setpriv")) return skip("there is no setpriv here");
  CHECK(unidentified.code == 69);
  CHECK(contains(unidentified.err,
                 "only root and the user that runs this program (uid 0) have read access"));
  CHECK_FALSE(contains(unidentified.out, "seen"));
  job.expect_err(has_secret() ? "uid 65534: no access to" : "uid 65534: no read access");
  job.signal(SIGTERM);
  job.wait();
}

TEST_CASE("with --status-access=none there is no socket, and no answer at the port") {
  const Scene scene;
  Command job(scene.node(0, {"--nnodes=1", "--status-access=none"}), scene.options());
  job.expect_out("\n");
  const auto refused = scene.ask({"--address=127.0.0.1:" + std::to_string(scene.port), "ls"});
  CHECK(refused.code == 69);
  CHECK(contains(refused.err, "connection closed without a response"));
  CHECK_FALSE(fs::exists(scene.doors()));
  job.signal(SIGTERM);
  job.wait();
}

}  // namespace control_test

// SPDX-License-Identifier: BSD-3-Clause
// Every staged failure is launched with the finished cpprun and has to be identified: the rank, its
// host, the cause and words of the advice, in the JSON report and in the text.

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "tests/failures/staged.h"
#include "tests/integration/command.h"
#include "tests/integration/directory.h"

using namespace cpprun::integration;

namespace cpprun::failures {

std::string file(const Stage& stage, const std::string& name, const std::string& text,
                 bool executable) {
  const auto path = stage.directory + "/" + name;
  std::ofstream(path, std::ios::binary) << text;
  if (executable) std::filesystem::permissions(path, std::filesystem::perms(0755));
  return path;
}

std::string fifo(const Stage& stage, const std::string& name) {
  auto path = stage.directory + "/" + name;
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  return path;
}

namespace {

namespace fs = std::filesystem;

constexpr std::size_t at_a_time = 4;
const std::string memory_groups = "/sys/fs/cgroup/memory/";

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

// A control group with little memory, for as long as the test.
class MemoryGroup {
 public:
  MemoryGroup() : path_(memory_groups + "cpprun_failures_" + std::to_string(::getpid())) {
    std::error_code refused;
    there_ =
        fs::exists(memory_groups + "memory.limit_in_bytes") && fs::create_directory(path_, refused);
    if (there_) std::ofstream(path_ + "/memory.limit_in_bytes") << "512M";  // room for a sanitizer
  }
  ~MemoryGroup() {
    if (there_) ::rmdir(path_.c_str());
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  bool there() const { return there_; }
  std::string enter() const { return "echo $$ > " + path_ + "/cgroup.procs"; }

 private:
  std::string path_;
  bool there_ = false;
};

// Whether that command succeeds here; its output is discarded.
bool works(const Words& words) {
  return run(words).code == 0;
}

class Theatre {
 public:
  Theatre() {
    stage_ = {.directory = directory_.path(),
              .victim = from_build("CPPRUN_VICTIM"),
              .python = from_build("CPPRUN_PYTHON")};
    fs::copy(from_build("CPPRUN_LINKED"), stage_.directory + "/linked");
    fs::copy(from_build("CPPRUN_EMPTY"), stage_.directory + "/empty", fs::copy_options::recursive);
    if (stage_.python.empty()) stage_.python = "/usr/bin/python3";
    python_ = fs::exists(stage_.python);
    torch_ = python_ && works({stage_.python, "-c", "import torch"});
    mounts_ =
        works({"unshare", "-m", "sh", "-c", "mount --make-rprivate / && mount -t tmpfs x /mnt"});
  }

  const Stage& stage() const { return stage_; }

  // Why that failure cannot be staged here; empty if it can.
  std::string hindrance(const Staged& staged) const {
    if (staged.needs == Needs::root && !mounts_) return "no permission to mount";
    // A bare root has few devices, and in a container pid 1 may have our user id.
    if (staged.cause == "disk_full" && ::access("/dev/full", W_OK) != 0) return "no /dev/full";
    if (staged.cause.starts_with("shared_memory") && ::access("/dev/shm", W_OK) != 0) {
      return "no /dev/shm";
    }
    if (staged.name == "permission" && ::geteuid() != 0 && ::access("/proc/1/environ", R_OK) == 0) {
      return "every environment is readable";
    }
    if (staged.needs == Needs::memory_group && !group_.there()) {
      return "no memory control group can be made";
    }
    if (staged.needs == Needs::python && !python_) return "no Python";
    if (staged.needs == Needs::torch && !torch_) return "no Python with torch";
    return "";
  }

  Words launch(const Staged& staged, int number, int node, int port) const {
    Words words = {from_build("CPPRUN"), "--report=" + report_path(number, node), "--redirects=3",
                   "--log-dir=" + stage_.directory + "/logs"};
    const Words meeting =
        staged.two_nodes ? Words{"--nnodes=2", "--node-rank=" + std::to_string(node),
                                 "--master-addr=127.0.0.1", "--master-port=" + std::to_string(port)}
                         : Words{"--standalone", "--nproc-per-node=2"};
    words.insert(words.end(), meeting.begin(), meeting.end());
    words.insert(words.end(), staged.options.begin(), staged.options.end());
    if (!staged.program.front().ends_with(".py")) words.emplace_back("--no-python");
    words.insert(words.end(), staged.program.begin(), staged.program.end());
    auto before = staged.before;
    if (staged.needs == Needs::memory_group) before = group_.enter();
    if (!before.empty()) {
      const Words shell = {"/bin/sh", "-c", before + " && exec \"$@\"", "sh"};
      words.insert(words.begin(), shell.begin(), shell.end());
    }
    if (staged.needs == Needs::root) words.insert(words.begin(), {"unshare", "-m"});
    return words;
  }

  std::string report_path(int number, int node) const {
    return fmt_path("report_", number) + "_" + std::to_string(node) + ".json";
  }

  Options options() const {
    return {.variables = {{"PYTHON_EXEC", stage_.python}, {"OMP_NUM_THREADS", "1"}}};
  }

 private:
  std::string fmt_path(const char* what, int number) const {
    return stage_.directory + "/" + what + std::to_string(number);
  }

  Directory directory_;
  Stage stage_;
  MemoryGroup group_;
  bool python_ = false;
  bool torch_ = false;
  bool mounts_ = false;
};

// What is wrong with the verdict; empty if it is right.
std::string problem(const Staged& staged, const std::string& report_path, const Ended& ended) {
  std::ifstream in(report_path);
  const auto report = nlohmann::json::parse(in, nullptr, false);
  if (report.is_discarded() || !report.contains("root") || report["root"].is_null()) {
    return "no root in the report; cpprun said:\n" + ended.err;
  }
  const auto& root = report["root"];
  const auto text = [&root](const char* name) { return root.at(name).get<std::string>(); };
  std::string wrong;
  const auto expect = [&wrong](bool holds, const std::string& what) {
    if (!holds) wrong += what + "; ";
  };
  expect(root.at("rank") == staged.rank, "rank " + root.at("rank").dump());
  expect(text("host") == host_name(), "host " + text("host"));
  expect(text("cause") == staged.cause, "cause " + text("cause"));
  expect(contains(text("advice"), staged.advice), "advice " + text("advice"));
  expect(contains(text("message"), staged.message), "message " + text("message"));
  expect(contains(ended.err, "[" + staged.cause + "]"), "not in the text");
  expect(contains(ended.err, "cpprun: hint: "), "no advice in the text");
  return wrong.empty() ? "" : wrong + "message: " + text("message") + "\n" + ended.err;
}

struct Running {
  const Staged* staged;
  int number;
  std::vector<std::unique_ptr<Command>> nodes;
};

Running start(const Theatre& theatre, const Staged& staged, int number) {
  Running running{&staged, number, {}};
  const int port = staged.two_nodes ? free_port() : 0;
  for (int node = 0; node < (staged.two_nodes ? 2 : 1); ++node) {
    running.nodes.push_back(
        std::make_unique<Command>(theatre.launch(staged, number, node, port), theatre.options()));
  }
  return running;
}

// True if every node reports it correctly.
bool judge(const Theatre& theatre, Running& running) {
  bool right = true;
  CAPTURE(running.staged->name);
  for (std::size_t node = 0; node < running.nodes.size(); ++node) {
    const auto ended = running.nodes[node]->wait();
    const auto path = theatre.report_path(running.number, static_cast<int>(node));
    const auto wrong = problem(*running.staged, path, ended);
    CHECK_MESSAGE(wrong.empty(), running.staged->name, " (node ", node, "): ", wrong);
    right = right && wrong.empty();
  }
  return right;
}

}  // namespace

TEST_CASE("every staged failure is reported with its rank, host, cause and advice") {
  const Theatre theatre;
  std::vector<Staged> all;
  for (const auto& act : {crashes, false_starts, python_errors, lost_peers}) {
    for (auto& each : act(theatre.stage())) all.push_back(std::move(each));
  }
  REQUIRE(all.size() >= 40);
  std::size_t staged = 0;
  std::size_t named = 0;
  std::vector<Running> running;
  const auto judge_all = [&] {
    for (auto& each : running) named += judge(theatre, each) ? 1 : 0;
    running.clear();
  };
  for (const Staged& each : all) {
    if (const auto why = theatre.hindrance(each); !why.empty()) {
      std::printf("not staged: %s: %s\n", each.name.c_str(), why.c_str());
      continue;
    }
    running.push_back(start(theatre, each, static_cast<int>(staged)));
    ++staged;
    if (running.size() == at_a_time) judge_all();
  }
  judge_all();
  std::printf("%zu of %zu staged failures named correctly\n", named, staged);
}

TEST_CASE("a report that cannot be written is rejected before anything starts") {
  for (const char* flag : {"--report", "--events"}) {
    const auto ended = run({from_build("CPPRUN"), "--standalone", std::string(flag) + "=/nowhere/x",
                            "--no-python", from_build("CPPRUN_VICTIM"), "0", "silent"});
    CHECK(ended.code == 2);
    CHECK(contains(ended.err, std::string(flag) + ": cannot write \"/nowhere/x\": No such file"));
  }
}

TEST_CASE("the events of a job are in order, including its restart") {
  const Directory directory;
  const auto path = directory.path() + "/events.jsonl";
  const auto ended =
      run({from_build("CPPRUN"), "--standalone", "--max-restarts=1", "--events=" + path,
           "--no-python", from_build("CPPRUN_VICTIM"), "0", "silent"});
  CHECK(ended.code == 7);
  std::ifstream file(path);
  std::string story;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    REQUIRE_FALSE(json.is_discarded());
    const auto event = json.at("event").get<std::string>();
    if (event != "coordinator_note") story += event + " ";
  }
  const std::string attempt = "round_sealed worker_started worker_exited ";
  CHECK(contains(story, "job_started node_joined " + attempt));
  CHECK(count(story, attempt) == 2);
  CHECK(count(story, "worker_failed ") == 2);
  CHECK(story.ends_with("job_ended "));
}

TEST_CASE("the root's error file is written where the parent of cpprun looks for it") {
  const Directory directory;
  const auto path = directory.path() + "/error.json";
  const auto ended = run({from_build("CPPRUN"), "--standalone", "--no-python",
                          from_build("CPPRUN_VICTIM"), "0", "record_error"},
                         {.variables = {{"TORCHELASTIC_ERROR_FILE", path}}});
  CHECK(ended.code == 1);
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  REQUIRE_FALSE(json.is_discarded());
  CHECK(json.at("message").at("errorCode") == 1);
  CHECK(contains(json.at("message").at("message").get<std::string>(), "CUDA out of memory"));
}

TEST_CASE("a worker that ignores TERM is reported with its state") {
  const Directory directory;
  const auto path = directory.path() + "/report.json";
  const auto ended =
      run({from_build("CPPRUN"), "--standalone", "--nproc-per-node=2", "--shutdown-timeout=1",
           "--report=" + path, "--no-python", from_build("CPPRUN_VICTIM"), "1", "silent",
           fifo({.directory = directory.path(), .victim = "", .python = ""}, "meeting")});
  CHECK(ended.code == 7);
  CHECK(contains(ended.err, "in state S (sleeping)"));
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  REQUIRE_FALSE(json.is_discarded());
  CHECK(contains(json.at("others")[0].at("last_seen").get<std::string>(), "failures_victi"));
}

}  // namespace cpprun::failures

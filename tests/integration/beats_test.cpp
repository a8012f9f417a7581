// SPDX-License-Identifier: BSD-3-Clause
// Progress that workers report, seen from outside: statistics of a running job, and a job that ends
// that ends because a worker has stopped. The worker is that of docs/usage.md, in Python.

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/integration/command.h"
#include "tests/integration/directory.h"
#include "tests/integration/sockets.h"

namespace beats_test {

using namespace cpprun::integration;
using nlohmann::json;

namespace {

// Sends heartbeats until it receives SIGUSR1, then hangs; only SIGKILL ends it.
constexpr std::string_view training = R"(
import signal, sys
stopped = False
def stop(*_):
    global stopped
    stopped = True
signal.signal(signal.SIGUSR1, stop)
heartbeat = Heartbeat()
print("epoch 1", file=sys.stderr, flush=True)
heartbeat.saved(1)
step = 1
while not stopped:
    step += 1
    heartbeat.beat(step, 256 * step)
    time.sleep(0.01)
print("the last step was", step, flush=True)
while True:
    signal.pause()
)";

std::string documented_heartbeat() {
  std::ifstream page(std::string(std::getenv("CPPRUN_SOURCE_DIRECTORY")) + "/docs/usage.md");
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  const std::string begin = "```python\nimport mmap";
  const auto at = text.find(begin);
  REQUIRE(at != std::string::npos);
  const auto from = text.find("import mmap", at);
  return text.substr(from, text.find("```", from) - from);
}

std::string get(int port, const std::string& target) {
  const cpprun::FileDescriptor socket =
      speak(port, "GET " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
  std::string text;
  char chunk[4096];
  pollfd watched{socket.get(), POLLIN, 0};
  while (::poll(&watched, 1, 60'000) == 1) {
    const ssize_t count = ::read(socket.get(), chunk, sizeof chunk);
    if (count <= 0) break;
    text.append(chunk, static_cast<std::size_t>(count));
  }
  REQUIRE(text.starts_with("HTTP/1.1 200 OK\r\n"));
  return text.substr(text.find("\r\n\r\n") + 4);
}

// The ranks of the only node, once they satisfy the condition or the timeout has passed.
template <class Shows>
json ranks_until(int port, Shows&& shows) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    const json seen = json::parse(get(port, "/api/v1/jobs/seen/nodes"))["nodes"][0]["ranks"];
    if (shows(seen) || std::chrono::steady_clock::now() > end) return seen;
    std::this_thread::yield();
  }
}

bool all_step(const json& ranks) {
  return ranks.size() == 2 && ranks[0]["step"].is_number() && ranks[1]["step"].is_number();
}

}  // namespace

TEST_CASE("the steps of workers are visible, and a job with a stopped worker ends as hung") {
  Directory directory;
  const int port = free_port();
  const std::string script =
      directory.write("train.py", documented_heartbeat() + std::string(training));
  Command command(with_cpprun({"--nnodes=1", "--nproc-per-node=2", "--rdzv-id=seen",
                               "--master-addr=127.0.0.1", "--master-port=" + std::to_string(port),
                               "--beat-timeout=2", "--shutdown-timeout=0", script}),
                  {.variables = {{"LD_LIBRARY_PATH", from_build("CPPRUN_FAKE_NVML")},
                                 {"CUDA_VISIBLE_DEVICES", "1,0"}}});
  while (speak(port, "").get() < 0) std::this_thread::yield();
  const json ranks = ranks_until(port, all_step);
  REQUIRE(all_step(ranks));
  CHECK(ranks[1]["rank"] == 1);
  CHECK(ranks[1]["state"] == "running");
  CHECK(ranks[1]["step"] > 0);
  CHECK(ranks[1]["samples"] == 256 * ranks[1]["step"].get<int>());
  CHECK(ranks[1]["checkpoint_step"] == 1);
  CHECK(ranks[1]["resident_bytes"] > 1'000'000);
  const json later = ranks_until(port, [&](const json& seen) {
    return all_step(seen) && seen[1]["steps_per_second"].is_number() &&
           seen[1]["step"] > ranks[1]["step"];
  });
  CHECK(later[1]["step"] > ranks[1]["step"]);
  CHECK(later[1]["steps_per_second"] > 0);
  CHECK(later[1]["last_line"] == "epoch 1");
  const json with_gpus = ranks_until(
      port, [](const json& seen) { return seen.size() == 2 && !seen[1]["gpu"].is_null(); });
  CHECK(with_gpus[0]["gpu"] == json{{"index", 1},
                                    {"percent", nullptr},
                                    {"used_bytes", 1 << 30},
                                    {"total_bytes", 80LL << 30}});
  CHECK(with_gpus[1]["gpu"]["index"] == 0);
  CHECK(with_gpus[1]["gpu"]["percent"] == 37);
  CHECK(get(port, "/metrics").find("cpprun_step_min{run_id=\"seen\"}") != std::string::npos);
  const json job = json::parse(get(port, "/api/v1/jobs/seen"));
  CHECK(job["progress"]["beating"] == 2);
  CHECK(job["progress"]["slowest"].size() == 2);

  ::kill(ranks[1]["pid"].get<pid_t>(), SIGUSR1);
  const Ended ended = command.wait();
  CHECK(ended.code == 143);
  CHECK(ended.err.find("rank 1 hangs") != std::string::npos);
  CHECK(ended.err.find("hung: no heartbeat for 2") != std::string::npos);
  CHECK(ended.err.find("the worker stopped sending heartbeats") != std::string::npos);
  CHECK(ended.err.find("was in state S (sleeping)") != std::string::npos);
  command.expect_no_worker_left();
}

TEST_CASE("a Python worker that ignores TERM writes its stack before it is killed") {
  const Directory directory;
  const std::string script = directory.write("train.py", R"(
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def save_for_ever():
    print("here", flush=True)
    time.sleep(600)
save_for_ever()
)");
  const auto start = [&](const std::string& probe) {
    return with_cpprun(
        {"--standalone", "--nproc-per-node=1", "--shutdown-timeout=1", probe, script});
  };
  for (const std::string probe : {"--probe=on", "--probe=off"}) {
    Command command(start(probe));
    command.expect_out("here\n");
    command.signal(SIGTERM);
    const Ended ended = command.wait();
    CAPTURE(ended.err);
    CHECK(ended.code == 143);
    CHECK(ended.err.find("killing the worker with local rank 0, which did not exit within 1 s") !=
          std::string::npos);
    const bool shows_stack = ended.err.find(" in save_for_ever\n") != std::string::npos;
    CHECK(shows_stack == (probe == "--probe=on"));
    command.expect_no_worker_left();
  }
}

TEST_CASE(
    "a worker that fills its heartbeat file with garbage or truncates it affects no other "
    "worker") {
  const std::string script =
      "dd if=/dev/urandom of=$CPPRUN_HEARTBEAT_FILE bs=264 count=1 conv=notrunc 2>/dev/null &&"
      " : > $CPPRUN_HEARTBEAT_FILE && exec sleep 3";
  Command command(with_cpprun({"--standalone", "--nproc-per-node=2", "--beat-timeout=1",
                               "--no-python", "sh", "-c", script}));
  const Ended ended = command.wait();
  CHECK(ended.code == 0);
  CHECK(ended.err.find("hung") == std::string::npos);
}

TEST_CASE("an independent worker that hangs is ended and restarted alone") {
  const Directory directory;
  const std::string gate = directory.path() + "/gate";
  REQUIRE(::mkfifo(gate.c_str(), 0600) == 0);
  const std::string script = directory.write("serve.py", documented_heartbeat() + R"(
if os.environ["RANK"] == "0":
    open(os.environ["GATE"]).read()
elif os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    Heartbeat().beat(1, 1)
    time.sleep(600)
else:
    open(os.environ["GATE"], "w").close()
)");
  Command command(with_cpprun({"--standalone", "--nproc-per-node=2", "--max-restarts=1",
                               "--restart-scope=worker", "--beat-timeout=1", script}),
                  {.variables = {{"GATE", gate}}});
  const Ended ended = command.wait();
  CAPTURE(ended.err);
  CHECK(ended.code == 0);
  CHECK(ended.err.find("hung: no heartbeat for ") != std::string::npos);
  CHECK(ended.err.find("restarting rank 1 alone: restart 1 of 1") != std::string::npos);
  CHECK(ended.err.find("stopping the workers") == std::string::npos);
  command.expect_no_worker_left();
}

}  // namespace beats_test

// SPDX-License-Identifier: BSD-3-Clause
// The functions of <cpprun/job.h>, with the finished program cpprun.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "launcher/embed/io/public/job.h"

namespace {

struct Seen {
  std::string name;
  std::string job;
  std::int64_t rank;
  std::int64_t exit_code;
  std::string cause;
};

// Collects events, and may act on them.
class Events {
 public:
  static void add(void* self, const cpprun_event* event) {
    auto& own = *static_cast<Events*>(self);
    {
      const std::lock_guard lock(own.mutex_);
      own.seen_.push_back({event->name, event->job, event->rank, event->exit_code,
                           event->cause == nullptr ? "" : event->cause});
    }
    if (own.hook) own.hook(*event);
  }
  std::vector<Seen> seen() {
    const std::lock_guard lock(mutex_);
    return seen_;
  }
  long count(const std::string& name) {
    const auto all = seen();
    return std::ranges::count_if(all, [&](const Seen& each) { return each.name == name; });
  }
  std::function<void(const cpprun_event&)> hook;

 private:
  std::mutex mutex_;
  std::vector<Seen> seen_;
};

std::string installed_program() {
  const char* const path = std::getenv("CPPRUN");
  return path == nullptr ? "" : path;
}

// Launches `cpprun ARGUMENTS…`. Its console is /dev/null, to keep the test's output readable.
class Launch {
 public:
  explicit Launch(std::vector<std::string> arguments) : arguments_(std::move(arguments)) {
    options.size = sizeof options;
    options.program = program_.c_str();
    options.output = options.error = nothing_;
  }
  ~Launch() { ::close(nothing_); }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  cpprun_job* operator()(Events& events) {
    pointers_.clear();
    for (const auto& each : arguments_) pointers_.push_back(each.c_str());
    options.arguments = pointers_.data();
    options.argument_count = pointers_.size();
    options.event = &Events::add;
    options.event_user = &events;
    return cpprun_launch(&options);
  }
  cpprun_launch_options options{};

 private:
  std::string program_ = installed_program();
  int nothing_ = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  std::vector<std::string> arguments_;
  std::vector<const char*> pointers_;
};

std::vector<std::string> shell(const std::string& script, const std::string& workers = "1") {
  return {"--standalone", "--nproc-per-node=" + workers, "--no-python", "sh", "-c", script};
}

cpprun_rendezvous* rendezvous(Events& events, const char* secret = nullptr, int status = 0) {
  cpprun_rendezvous_options options{};
  options.size = sizeof options;
  options.secret = secret;
  options.status = status;
  options.event = &Events::add;
  options.event_user = &events;
  return cpprun_rendezvous_open(&options);
}

// Waits for the end of a job that was launched, closes it, and returns its exit code.
int exit_code_of(cpprun_job* job) {
  REQUIRE_MESSAGE(job != nullptr, std::string(cpprun_job_error()));
  int exit_code = -1;
  CHECK(cpprun_job_wait(job, -1, &exit_code) == 0);
  cpprun_job_close(job);
  return exit_code;
}

// Waits until the other end of a pipe is closed by all processes that have it.
bool is_closed_in_time(int descriptor) {
  pollfd wait{descriptor, POLLIN, 0};
  char byte = 0;
  while (::poll(&wait, 1, 30000) > 0) {
    if (::read(descriptor, &byte, 1) <= 0) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("workers meet at a rendezvous in this process, and both report events") {
  Events of_rendezvous;
  Events of_job;
  cpprun_rendezvous* const host = rendezvous(of_rendezvous);
  REQUIRE_MESSAGE(host != nullptr, std::string(cpprun_job_error()));
  CHECK(cpprun_rendezvous_port(host) != 0);
  const std::string address = cpprun_rendezvous_address(host);
  CHECK(address == "127.0.0.1:" + std::to_string(cpprun_rendezvous_port(host)));
  Launch launch({"--rdzv-backend=c10d", "--rdzv-endpoint=" + address, "--rdzv-id=embedded",
                 "--nnodes=1", "--nproc-per-node=2", "--no-python", "true"});
  cpprun_job* const job = launch(of_job);
  REQUIRE_MESSAGE(job != nullptr, std::string(cpprun_job_error()));
  int exit_code = -1;
  CHECK(cpprun_job_wait(job, -1, &exit_code) == 0);
  CHECK(exit_code == 0);
  REQUIRE_FALSE(of_job.seen().empty());
  CHECK(of_job.seen().front().name == "job_started");
  CHECK(of_job.count("worker_exited") == 2);
  CHECK(of_job.seen().back().name == "job_ended");
  CHECK(of_job.seen().back().exit_code == 0);
  CHECK(of_rendezvous.count("round_sealed") == 1);
  for (const auto& each : of_rendezvous.seen()) CHECK(each.job == "embedded");
  CHECK(cpprun_job_signal(job, SIGTERM) == -1);
  CHECK(cpprun_job_error_code() == CPPRUN_JOB_CLOSED);
  CHECK(std::string(cpprun_job_error()) == "cpprun_job_signal: the job has ended");
  cpprun_job_close(job);
  cpprun_rendezvous_close(host);
}

TEST_CASE("a failed worker's event names the cause, and its exit code is that of the job") {
  Events events;
  Launch launch(shell("exit 7"));
  CHECK(exit_code_of(launch(events)) == 7);
  REQUIRE_FALSE(events.seen().empty());
  const Seen last = events.seen().back();
  CHECK(last.name == "job_ended");
  CHECK(last.rank == 0);
  CHECK(last.cause == "silent_exit");
}

TEST_CASE("a job is stopped by a signal, or when it is closed") {
  for (const bool is_closed : {false, true}) {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    Events events;
    // The worker holds the output open while it lives.
    Launch launch(shell("echo begin; exec sleep 600"));
    launch.options.output = ends[1];
    cpprun_job* const job = launch(events);
    REQUIRE_MESSAGE(job != nullptr, std::string(cpprun_job_error()));
    ::close(ends[1]);
    char byte = 0;
    REQUIRE(::read(ends[0], &byte, 1) == 1);
    CHECK(cpprun_job_wait(job, 1, nullptr) == -1);
    CHECK(cpprun_job_error_code() == CPPRUN_JOB_TIMEOUT);
    if (!is_closed) {
      CHECK(cpprun_job_signal(job, SIGTERM) == 0);
      int exit_code = 0;
      CHECK(cpprun_job_wait(job, -1, &exit_code) == 0);
      CHECK(exit_code == 128 + SIGTERM);
    }
    cpprun_job_close(job);
    CHECK(is_closed_in_time(ends[0]));
    CHECK(events.seen().back().name == "job_ended");
    ::close(ends[0]);
  }
}

TEST_CASE("a callback may close its job, and cannot wait for it") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  Events events;
  std::atomic<std::size_t> seen_at_close{0};
  std::atomic<cpprun_job*> job{nullptr};
  std::atomic<int> code{0};
  std::array<int, 2> is_known{};
  REQUIRE(::pipe2(is_known.data(), O_CLOEXEC) == 0);
  events.hook = [&](const cpprun_event& event) {
    if (std::string(event.name) != "worker_started") return;
    char byte = 0;
    if (::read(is_known[0], &byte, 1) != 1) return;
    if (cpprun_job_wait(job, 0, nullptr) == -1) code = cpprun_job_error_code();
    seen_at_close = events.seen().size();
    cpprun_job_close(job);
  };
  Launch launch(shell("exec sleep 600"));
  launch.options.output = ends[1];
  job = launch(events);
  REQUIRE_MESSAGE(job != nullptr, std::string(cpprun_job_error()));
  ::close(ends[1]);
  REQUIRE(::write(is_known[1], "!", 1) == 1);
  CHECK(is_closed_in_time(ends[0]));
  CHECK(code == CPPRUN_JOB_BAD_ARGUMENT);
  CHECK(events.seen().size() == seen_at_close);
  for (const int each : {ends[0], is_known[0], is_known[1]}) ::close(each);
}

// A worker that writes something when it is asked to stop, before it ends.
constexpr const char* saves =
    "trap 'sleep 0.05; echo saved; exit 0' TERM; echo begin; while :; do sleep 0.01; done";

// Reads until the other end is closed by all processes that have it.
std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 256> bytes{};
  pollfd wait{descriptor, POLLIN, 0};
  while (::poll(&wait, 1, 30000) > 0) {
    const ssize_t got = ::read(descriptor, bytes.data(), bytes.size());
    if (got <= 0) return text;
    text.append(bytes.data(), static_cast<std::size_t>(got));
  }
  return text + " and no end";
}

TEST_CASE("workers may save when the program around the library is killed, with many threads") {
  for (int run = 0; run < 5; ++run) {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    const pid_t parent = ::fork();
    if (parent == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (int count = 0; count < 8; ++count) std::thread([] { ::pause(); }).detach();
      Events events;
      Launch launch(shell(saves));
      launch.options.output = ends[1];
      if (launch(events) == nullptr) ::_exit(1);
      ::close(ends[1]);
      ::pause();
    }
    ::close(ends[1]);
    std::array<char, 6> begin{};
    REQUIRE(::read(ends[0], begin.data(), begin.size()) == 6);
    ::kill(parent, SIGKILL);
    CHECK(::waitpid(parent, nullptr, 0) == parent);
    CHECK(read_all(ends[0]) == "saved\n");
    ::close(ends[0]);
  }
}

TEST_CASE("closing a job that was asked to stop does not kill its workers") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  Events events;
  Launch launch(shell(saves));
  launch.options.output = ends[1];
  cpprun_job* const job = launch(events);
  REQUIRE_MESSAGE(job != nullptr, std::string(cpprun_job_error()));
  ::close(ends[1]);
  std::array<char, 6> begin{};
  REQUIRE(::read(ends[0], begin.data(), begin.size()) == 6);
  CHECK(cpprun_job_signal(job, SIGTERM) == 0);
  cpprun_job_close(job);
  CHECK(read_all(ends[0]) == "saved\n");
  CHECK(events.count("worker_killed") == 0);
  ::close(ends[0]);
}

TEST_CASE("events of a slow callback are not lost") {
  Events events;
  events.hook = [](const cpprun_event&) { ::usleep(2000); };
  Launch launch(shell("exit 1", "8"));
  const std::array<const char*, 1> variables = {"PET_MAX_RESTARTS=20"};
  launch.options.variables = variables.data();
  launch.options.variable_count = 1;
  cpprun_job* const job = launch(events);
  REQUIRE_MESSAGE(job != nullptr, std::string(cpprun_job_error()));
  CHECK(cpprun_job_wait(job, -1, nullptr) == 0);
  CHECK(events.seen().back().name == "job_ended");
  CHECK(events.count("round_sealed") == 21);
  CHECK(events.count("events_lost") == 0);
  cpprun_job_close(job);
}

TEST_CASE("a program that has closed its standard streams can launch") {
  const pid_t host = ::fork();
  if (host == 0) {
    for (const int standard : {0, 1, 2}) ::close(standard);
    Events events;
    Launch launch(
        shell("echo '{\"event\":\"forged\"}' >&2; echo '{\"event\":\"forged\"}'; exit 6"));
    launch.options.output = launch.options.error = 0;
    cpprun_job* const job = launch(events);
    int exit_code = 0;
    if (job == nullptr || cpprun_job_wait(job, -1, &exit_code) != 0) ::_exit(1);
    ::_exit(exit_code == 6 && events.count("forged") == 0 ? 0 : 2);
  }
  int status = -1;
  CHECK(::waitpid(host, &status, 0) == host);
  CHECK(status == 0);
}

TEST_CASE("a closed rendezvous frees its port, although a forked child lives on") {
  Events events;
  cpprun_rendezvous* const host = rendezvous(events);
  REQUIRE_MESSAGE(host != nullptr, std::string(cpprun_job_error()));
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[1]);
    char byte = 0;
    ::_exit(::read(ends[0], &byte, 1) == 0 ? 0 : 1);  // until the parent closes its end
  }
  cpprun_rendezvous_options options{};
  options.size = sizeof options;
  options.port = cpprun_rendezvous_port(host);
  cpprun_rendezvous_close(host);
  cpprun_rendezvous* const next = cpprun_rendezvous_open(&options);
  CHECK_MESSAGE(next != nullptr, std::string(cpprun_job_error()));
  cpprun_rendezvous_close(next);
  ::close(ends[0]);
  ::close(ends[1]);
  CHECK(::waitpid(child, nullptr, 0) == child);
}

TEST_CASE("a callback may close its rendezvous, and is the last one") {
  Events of_job;
  static Events events;
  static std::atomic<cpprun_rendezvous*> host{nullptr};
  host = rendezvous(events);
  REQUIRE_MESSAGE(host != nullptr, std::string(cpprun_job_error()));
  events.hook = [](const cpprun_event&) { cpprun_rendezvous_close(host); };
  Launch launch({"--rdzv-backend=c10d",
                 std::string("--rdzv-endpoint=") + cpprun_rendezvous_address(host),
                 "--rdzv-conf=timeout=1", "--no-python", "true"});
  CHECK(exit_code_of(launch(of_job)) == 1);
  CHECK(events.seen().size() == 1);
}

TEST_CASE("options of the first header and of a later one are accepted, or rejected with a code") {
  Events events;
  struct Later {
    cpprun_launch_options options;
    const char* more;
  } later{};
  const std::string program = installed_program();
  const std::array<const char*, 1> arguments = {"--version"};
  later.options.size = sizeof later;
  later.options.program = program.c_str();
  later.options.arguments = arguments.data();
  later.options.argument_count = 1;
  later.options.output = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  cpprun_job* const job = cpprun_launch(&later.options);
  REQUIRE_MESSAGE(job != nullptr, std::string(cpprun_job_error()));
  int exit_code = -1;
  CHECK(cpprun_job_wait(job, -1, &exit_code) == 0);
  CHECK(exit_code == 0);
  cpprun_job_close(job);
  later.more = "new";
  CHECK(cpprun_launch(&later.options) == nullptr);
  CHECK(cpprun_job_error_code() == CPPRUN_JOB_VERSION);
  ::close(later.options.output);
  CHECK(cpprun_job_abi() == CPPRUN_JOB_ABI);
  CHECK(std::string(cpprun_job_version()).starts_with("0."));
  // The sizes of the first header never change.
  CHECK(offsetof(cpprun_launch_options, event_user) + sizeof(void*) == 88);
  CHECK(offsetof(cpprun_rendezvous_options, event_user) + sizeof(void*) == 88);
}

TEST_CASE("a forked child does not own its parent's job and rendezvous") {
  Events of_rendezvous;
  Events of_job;
  cpprun_rendezvous* const host = rendezvous(of_rendezvous);
  REQUIRE_MESSAGE(host != nullptr, std::string(cpprun_job_error()));
  std::array<int, 2> input{};
  REQUIRE(::pipe2(input.data(), O_CLOEXEC) == 0);
  Launch launch({"--rdzv-backend=c10d",
                 std::string("--rdzv-endpoint=") + cpprun_rendezvous_address(host), "--nnodes=1",
                 "--no-python", "sh", "-c", "read line; exit 4"});
  launch.options.input = input[0];
  cpprun_job* const job = launch(of_job);
  REQUIRE_MESSAGE(job != nullptr, std::string(cpprun_job_error()));
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_refused =
        cpprun_job_signal(job, SIGKILL) == -1 && cpprun_job_error_code() == CPPRUN_JOB_FORKED &&
        cpprun_job_wait(job, 0, nullptr) == -1 && cpprun_job_error_code() == CPPRUN_JOB_FORKED;
    cpprun_job_close(job);
    cpprun_rendezvous_close(host);
    ::_exit(is_refused ? 0 : 1);
  }
  int status = -1;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  ::close(input[0]);
  ::close(input[1]);  // the worker's input ends
  int exit_code = -1;
  CHECK(cpprun_job_wait(job, -1, &exit_code) == 0);
  CHECK(exit_code == 4);
  cpprun_job_close(job);
  cpprun_rendezvous_close(host);
}

TEST_CASE("nodes need the secret of a rendezvous that has one") {
  const std::string line =
      "cpprun1:embed:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";
  std::string file = "/tmp/cpprun-job-secret-XXXXXX";
  const int written = ::mkstemp(file.data());
  REQUIRE(::write(written, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
  ::close(written);
  Events of_rendezvous;
  Events of_job;
  cpprun_rendezvous* const host = rendezvous(of_rendezvous, line.c_str());
  REQUIRE_MESSAGE(host != nullptr, std::string(cpprun_job_error()));
  const std::string endpoint = std::string("--rdzv-endpoint=") + cpprun_rendezvous_address(host);
  const std::string backend = "--rdzv-backend=c10d";
  Launch launch({backend, endpoint, "--nnodes=1", "--secret-file=" + file, "--no-python", "true"});
  CHECK(exit_code_of(launch(of_job)) == 0);
  Launch without_secret({backend, endpoint, "--nnodes=1", "--no-python", "true"});
  const std::array<const char*, 1> variables = {"HOME=/nonexistent"};
  without_secret.options.variables = variables.data();
  without_secret.options.variable_count = 1;
  CHECK(exit_code_of(without_secret(of_job)) == 1);
  cpprun_rendezvous_close(host);
  ::unlink(file.c_str());
}

TEST_CASE("the status of a rendezvous is read by HTTP on its port, if that is allowed") {
  Events events;
  for (const int status : {CPPRUN_STATUS_NONE, CPPRUN_STATUS_USER}) {
    cpprun_rendezvous* const host = rendezvous(events, nullptr, status);
    REQUIRE_MESSAGE(host != nullptr, std::string(cpprun_job_error()));
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(cpprun_rendezvous_port(host));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    const std::string request = "GET /api/v1/jobs HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n";
    REQUIRE(::write(socket, request.data(), request.size()) ==
            static_cast<ssize_t>(request.size()));
    std::array<char, 4096> bytes{};
    const ssize_t got = ::read(socket, bytes.data(), bytes.size());
    const std::string answer(bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    CHECK(answer.starts_with("HTTP/1.1 200") == (status == CPPRUN_STATUS_USER));
    ::close(socket);
    cpprun_rendezvous_close(host);
  }
}

TEST_CASE("null pointers are rejected with the names of function and argument, or ignored") {
  CHECK(cpprun_launch(nullptr) == nullptr);
  CHECK(std::string(cpprun_job_error()) == "cpprun_launch: options is a null pointer");
  CHECK(cpprun_rendezvous_open(nullptr) == nullptr);
  CHECK(cpprun_job_wait(nullptr, 0, nullptr) == -1);
  CHECK(std::string(cpprun_job_error()) == "cpprun_job_wait: job is a null pointer");
  cpprun_job_close(nullptr);
  cpprun_rendezvous_close(nullptr);
  CHECK(cpprun_job_pid(nullptr) == 0);
}

TEST_CASE("a job that cannot start is an error that names the cause, and has no events") {
  Events events;
  Launch wrong(shell("true"));
  wrong.options.program = "/no/such/cpprun";
  CHECK(wrong(events) == nullptr);
  CHECK(cpprun_job_error_code() == CPPRUN_JOB_SYSTEM);
  CHECK(std::string(cpprun_job_error()) ==
        "cannot execute \"/no/such/cpprun\": No such file or directory");
  wrong.options.program = "no-such-cpprun";
  CHECK(wrong(events) == nullptr);
  CHECK(std::string(cpprun_job_error()) == "\"no-such-cpprun\" is not on PATH");
  const std::string program = installed_program();
  wrong.options.program = program.c_str();
  wrong.options.directory = "/no/such/directory";
  CHECK(wrong(events) == nullptr);
  CHECK(std::string(cpprun_job_error()) ==
        "cannot enter \"/no/such/directory\": No such file or directory");
  wrong.options.directory = nullptr;
  const std::array<const char*, 1> variables = {"NAME"};
  wrong.options.variables = variables.data();
  wrong.options.variable_count = 1;
  CHECK(wrong(events) == nullptr);
  CHECK(std::string(cpprun_job_error()) ==
        "cpprun_launch: options->variables[0] is not NAME=value");
  wrong.options.variable_count = 0;
  wrong.options.output = 9999;
  CHECK(wrong(events) == nullptr);
  CHECK(cpprun_job_error_code() == CPPRUN_JOB_BAD_ARGUMENT);
  CHECK(std::string(cpprun_job_error()) ==
        "cpprun_launch: options->output is 9999, which is not an open descriptor");
  wrong.options.output = 0;
  wrong.options.size = 1;
  CHECK(wrong(events) == nullptr);
  CHECK(cpprun_job_error_code() == CPPRUN_JOB_BAD_ARGUMENT);
  CHECK(events.seen().empty());

  // A command line that cpprun rejects.
  Launch rejected({"--nproc-per-node=none", "true"});
  CHECK(exit_code_of(rejected(events)) == 2);
}

TEST_CASE("a rendezvous that cannot be opened is an error that names the option") {
  Events events;
  cpprun_rendezvous* const host = rendezvous(events);
  REQUIRE_MESSAGE(host != nullptr, std::string(cpprun_job_error()));
  cpprun_rendezvous_options options{};
  options.size = sizeof options;
  options.port = cpprun_rendezvous_port(host);
  CHECK(cpprun_rendezvous_open(&options) == nullptr);
  CHECK(cpprun_job_error_code() == CPPRUN_JOB_SYSTEM);
  CHECK(std::string(cpprun_job_error()).find("Address already in use") != std::string::npos);
  options.port = 0;
  options.secret = "not a secret";
  CHECK(cpprun_rendezvous_open(&options) == nullptr);
  const std::string why = cpprun_job_error();
  CHECK_MESSAGE(why.starts_with("cpprun_rendezvous_open: options->secret: line 1 "), why);
  CHECK(cpprun_job_error_code() == CPPRUN_JOB_BAD_ARGUMENT);
  options.secret = nullptr;
  options.status = 9;
  CHECK(cpprun_rendezvous_open(&options) == nullptr);
  CHECK(cpprun_job_error_code() == CPPRUN_JOB_BAD_ARGUMENT);
  cpprun_rendezvous_close(host);
}

TEST_CASE("variables are added to those of this process, and PATH is used to find the program") {
  Events events;
  Launch launch(shell("test \"$NEW\" = a=b && test -n \"$PATH\" && exit 3"));
  const std::string program = installed_program();
  const std::string path =
      "PATH=/no/such:" + program.substr(0, program.rfind('/')) + ":/usr/bin:/bin";
  const std::array<const char*, 2> variables = {"NEW=a=b", path.c_str()};
  launch.options.variables = variables.data();
  launch.options.variable_count = variables.size();
  launch.options.program = nullptr;
  CHECK(exit_code_of(launch(events)) == 3);
}

TEST_CASE("the exit code is known even if this process reaps every child") {
  Events events;
  struct sigaction before {};
  struct sigaction ignored {};
  ignored.sa_handler = SIG_IGN;
  REQUIRE(::sigaction(SIGCHLD, &ignored, &before) == 0);  // the kernel reaps
  Launch launch(shell("exit 9"));
  CHECK(exit_code_of(launch(events)) == 9);
  REQUIRE(::sigaction(SIGCHLD, &before, nullptr) == 0);
}

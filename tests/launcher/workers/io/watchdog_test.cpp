// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/io/watchdog.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>

#include "launcher/workers/io/process.h"
#include "launcher/workers/io/process_tree.h"
#include "rendezvous/io/event_loop.h"
#include "tests/launcher/io_probe.h"

namespace watchdog_test {

using namespace cpprun;
using namespace std::chrono_literals;
namespace fs = std::filesystem;
using probe::Pipe;
using probe::victim;

namespace {

std::string fresh_token() {
  return "watchdogtest" + std::to_string(::getpid()) + "x";
}

// Without a mark, as on a machine where none can be set.
io::JobProcesses fresh_job_processes() {
  return {.mark = {}, .token = fresh_token()};
}

// A path that does not exist.
std::string fresh_directory() {
  return (fs::temp_directory_path() / fresh_token()).string();
}

int count_carriers(const std::string& token) {
  int carriers = 0;
  for (const int pid : io::all_processes()) {
    const auto stat = io::read_stat(pid);
    carriers += stat && stat->alive() && io::carries_token(pid, token) ? 1 : 0;
  }
  return carriers;
}

void await_end(int pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
}

// A process with a group of its own, before the watchdog knows it.
pid_t hanging() {
  const pid_t pid = ::fork();
  // It must not keep a watchdog's pipe open.
  if (pid == 0) ::close_range(3, ~0U, 0);
  while (pid == 0) ::pause();
  ::setpgid(pid, pid);
  return pid;
}

// Sets fences of 50 ms until one has ended that process: on a busy machine a fence may have passed
// before the watchdog reads it, which it then ignores as an old message.
void await_end_at_fence(io::Watchdog& watchdog, pid_t pid) {
  pollfd end{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)), POLLIN, 0};
  REQUIRE(end.fd >= 0);
  do {
    watchdog.set_deadline(boot_now() + std::chrono::milliseconds(50));
  } while (::poll(&end, 1, 1000) == 0);
  ::close(end.fd);
}

}  // namespace

TEST_CASE("KILL to the launcher leaves no worker, no child of a worker and no daemon") {
  const auto token = fresh_token();
  Pipe heard;
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    ::dup2(heard.in(), STDOUT_FILENO);
    const auto path = victim();
    ::execl(path.c_str(), path.c_str(), "launcher", token.c_str(), nullptr);
    ::_exit(9);
  }
  heard.close_in();
  REQUIRE(heard.read_line() == "ready");
  CHECK(count_carriers(token) == 3);
  ::kill(launcher, SIGKILL);
  await_end(launcher);
  // The pipe ends when the last of them has closed it.
  CHECK(heard.read_all().empty());
  CHECK(count_carriers(token) == 0);
}

TEST_CASE("the watchdog exits when its owner closes the pipe, and kills no other process") {
  const pid_t bystander = ::fork();
  if (bystander == 0) {
    while (true) ::pause();
  }
  int pid = 0;
  {
    auto watchdog = io::Watchdog::start(fresh_job_processes());
    REQUIRE(watchdog.has_value());
    pid = watchdog->pid();
    // A pid that it knew and that now belongs to another process: the group was removed.
    watchdog->add_group(bystander);
    watchdog->remove_group(bystander);
  }
  await_end(pid);
  CHECK(::waitpid(bystander, nullptr, WNOHANG) == 0);
  ::kill(bystander, SIGKILL);
  await_end(bystander);
}

TEST_CASE("the watchdog ignores the signals that end cpprun, and has another name") {
  auto watchdog = io::Watchdog::start(fresh_job_processes());
  REQUIRE(watchdog.has_value());
  const auto name_file = "/proc/" + std::to_string(watchdog->pid()) + "/comm";
  std::string name;
  // It sets its name last, after its signals.
  while (name != "job-watchdog") {
    std::ifstream file(name_file);
    REQUIRE(std::getline(file, name));
  }
  ::kill(watchdog->pid(), SIGTERM);
  ::kill(watchdog->pid(), SIGINT);
  ::kill(watchdog->pid(), SIGHUP);
  CHECK(::waitpid(watchdog->pid(), nullptr, WNOHANG) == 0);
  const int pid = watchdog->pid();
  { const io::Watchdog let_go = std::move(*watchdog); }
  await_end(pid);
}

TEST_CASE("workers whose cpprun misses its fence are killed, and no other process") {
  auto watchdog = io::Watchdog::start(fresh_job_processes());
  REQUIRE(watchdog.has_value());
  const pid_t bystander = hanging();
  const pid_t worker = hanging();
  watchdog->add_group(worker);
  // This process runs, but sends nothing.
  await_end_at_fence(*watchdog, worker);
  int status = 0;
  CHECK(::waitpid(worker, &status, 0) == worker);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGKILL);
  watchdog->remove_group(worker);
  CHECK(::waitpid(bystander, nullptr, WNOHANG) == 0);
  // The watchdog keeps running, for the workers that start next.
  CHECK(::waitpid(watchdog->pid(), nullptr, WNOHANG) == 0);
  const pid_t next = hanging();
  watchdog->add_group(next);
  const int pid = watchdog->pid();
  { const io::Watchdog let_go = std::move(*watchdog); }
  await_end(pid);
  await_end(next);
  ::kill(bystander, SIGKILL);
  await_end(bystander);
}

TEST_CASE("a fence that is moved or removed in time kills nothing") {
  auto watchdog = io::Watchdog::start(fresh_job_processes());
  REQUIRE(watchdog.has_value());
  const pid_t held = hanging();
  const pid_t witness = hanging();
  watchdog->add_group(held);
  watchdog->set_deadline(boot_now() + std::chrono::hours(1));
  watchdog->set_deadline(std::nullopt);
  // Passed before it is read: a message that waited while the watchdog was stopped.
  watchdog->set_deadline(boot_now());
  // Of another watchdog: when its fence has passed, the first one's would have passed too.
  auto other = io::Watchdog::start({.mark = {}, .token = fresh_token() + "other"});
  REQUIRE(other.has_value());
  other->add_group(witness);
  await_end_at_fence(*other, witness);
  await_end(witness);
  CHECK(::waitpid(held, nullptr, WNOHANG) == 0);
  const int pid = watchdog->pid();
  { const io::Watchdog let_go = std::move(*watchdog); }
  // Closing the pipe is the end of cpprun: now the worker is killed.
  await_end(pid);
  await_end(held);
}

TEST_CASE("the watchdog creates the private directory, and removes it with its content") {
  const auto directory = fresh_directory();
  const auto doors = fresh_directory();
  int pid = 0;
  {
    auto watchdog = io::Watchdog::start(fresh_job_processes(), {directory});
    REQUIRE(watchdog.has_value());
    pid = watchdog->pid();
    REQUIRE(watchdog->await_directory(60s) == 0);
    struct stat found {};
    REQUIRE(::stat(directory.c_str(), &found) == 0);
    CHECK((found.st_mode & 07777U) == 0700U);
    fs::create_directories(directory + "/0");
    std::ofstream(directory + "/0/error.json") << "{}";
    fs::create_directories(doors);
    std::ofstream(doors + "/a.sock") << "as good as a socket";
    watchdog->set_door(doors + "/a.sock");
  }
  await_end(pid);
  CHECK_FALSE(fs::exists(directory));
  CHECK_FALSE(fs::exists(doors));
}

TEST_CASE("a directory that is given up is removed at once, and the watchdog keeps running") {
  const auto directory = fresh_directory();
  auto watchdog = io::Watchdog::start(fresh_job_processes(), {directory});
  REQUIRE(watchdog.has_value());
  REQUIRE(watchdog->await_directory(60s) == 0);
  std::ofstream(directory + "/0.json") << "{}";
  watchdog->give_up_directory();
  while (fs::exists(directory)) {
  }
  const int pid = watchdog->pid();
  CHECK(::waitpid(pid, nullptr, WNOHANG) == 0);
  const pid_t worker = hanging();
  watchdog->add_group(worker);
  { const io::Watchdog let_go = std::move(*watchdog); }
  await_end(pid);
  await_end(worker);
}

TEST_CASE("the directory of a released watchdog is removed when the watchdog exits") {
  const auto directory = fresh_directory();
  int pid = 0;
  {
    auto watchdog = io::Watchdog::start(fresh_job_processes(), {directory});
    REQUIRE(watchdog.has_value());
    pid = watchdog->pid();
    REQUIRE(watchdog->await_directory(60s) == 0);
    CHECK(watchdog->release(24h));
  }
  CHECK_FALSE(fs::exists(directory));
  await_end(pid);
}

TEST_CASE("a private directory that cannot be created is reported with its errno") {
  auto watchdog = io::Watchdog::start(fresh_job_processes(), {fresh_directory() + "/none"});
  REQUIRE(watchdog.has_value());
  CHECK(watchdog->await_directory(60s) == ENOENT);
  CHECK(watchdog->release(60s));
  await_end(watchdog->pid());
}

TEST_CASE("the next directory is used if the first cannot be created, and is removed as well") {
  const auto directory = fresh_directory();
  {
    auto watchdog = io::Watchdog::start(fresh_job_processes(), {directory + "/none", directory});
    REQUIRE(watchdog.has_value());
    REQUIRE(watchdog->await_directory(60s) == 0);
    CHECK(watchdog->directory() == directory);
    CHECK(watchdog->first_refusal() == ENOENT);
    CHECK(fs::exists(directory));
    CHECK(watchdog->release(60s));
  }
  CHECK_FALSE(fs::exists(directory));
}

TEST_CASE("a watchdog that hangs on the directory's disk is waited for once") {
  auto watchdog = io::Watchdog::start(fresh_job_processes(), {fresh_directory()});
  REQUIRE(watchdog.has_value());
  // So late that it may as well hang. It continues when its disk is back.
  CHECK(watchdog->await_directory(0s) == ETIMEDOUT);
  CHECK(watchdog->release(24h));
  await_end(watchdog->pid());
}

TEST_CASE("the directory of a killed watchdog is not waited for") {
  const auto directory = fresh_directory();
  auto watchdog = io::Watchdog::start(fresh_job_processes(), {directory});
  REQUIRE(watchdog.has_value());
  ::kill(watchdog->pid(), SIGKILL);
  await_end(watchdog->pid());
  // It may have created the directory before it was killed, or only started to.
  const auto made = watchdog->await_directory(24h);
  CHECK(made.value_or(0) == 0);
  if (made) CHECK(fs::exists(directory));
  fs::remove(directory);
}

TEST_CASE("a released watchdog exits and kills no process") {
  auto watchdog = io::Watchdog::start(fresh_job_processes());
  REQUIRE(watchdog.has_value());
  const pid_t unidentified = hanging();
  // As if the removal was lost: for the watchdog this group still runs.
  watchdog->add_group(unidentified);
  CHECK(watchdog->release(60s));
  await_end(watchdog->pid());
  CHECK(::waitpid(unidentified, nullptr, WNOHANG) == 0);
  ::kill(unidentified, SIGKILL);
  await_end(unidentified);
}

TEST_CASE("releasing a watchdog that has exited leaves the directory to the caller") {
  ::signal(SIGPIPE, SIG_IGN);  // as cpprun does
  auto watchdog = io::Watchdog::start(fresh_job_processes());
  REQUIRE(watchdog.has_value());
  ::kill(watchdog->pid(), SIGKILL);
  await_end(watchdog->pid());
  CHECK_FALSE(watchdog->release(60s));
}

TEST_CASE("the replacement of a killed watchdog knows its process groups") {
  auto watchdog = io::Watchdog::start(fresh_job_processes());
  REQUIRE(watchdog.has_value());
  const pid_t worker = hanging();
  const pid_t gone = hanging();
  watchdog->add_group(worker);
  watchdog->add_group(gone);
  watchdog->remove_group(gone);
  const int first = watchdog->pid();
  ::kill(first, SIGKILL);
  await_end(first);
  REQUIRE(watchdog->start_again().has_value());
  const int second = watchdog->pid();
  CHECK(second != first);
  { const io::Watchdog let_go = std::move(*watchdog); }
  await_end(second);
  await_end(worker);
  CHECK(::waitpid(gone, nullptr, WNOHANG) == 0);
  ::kill(gone, SIGKILL);
  await_end(gone);
}

}  // namespace watchdog_test

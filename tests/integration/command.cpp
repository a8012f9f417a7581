// SPDX-License-Identifier: BSD-3-Clause
#include "tests/integration/command.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "tests/integration/sockets.h"

namespace cpprun::integration {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* token_name = "CPPRUN_INTEGRATION_TOKEN";
// A worker may write a gigabyte; the output kept for inspection is bounded.
constexpr std::size_t kept_bytes_max = 64UL << 20U;
constexpr std::chrono::seconds watchdog_timeout{15};

std::string random_token() {
  std::random_device device;
  return std::to_string(device()) + "-" + std::to_string(device());
}

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  return left.count() < 0 ? 0 : static_cast<int>(left.count());
}

FileDescriptor open_pidfd(pid_t pid) {
  return FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

// True if the descriptor became readable before the deadline; a pidfd does when its process ends.
bool wait_readable(int fd, Clock::time_point deadline) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, milliseconds_until(deadline)) > 0;
}

bool carries(pid_t pid, const std::string& assignment) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/environ", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return text.find(assignment) != std::string::npos;
}

FileDescriptor pipe_into(FileDescriptor& read_end) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  read_end.reset(ends[0]);
  return FileDescriptor(ends[1]);
}

// Those of this thread. A test that waits for one of them reads what all of them print, because a
// full pipe of one may block what another waits for.
thread_local std::vector<Command*> running;

}  // namespace

Command::Command(const Words& words, const Options& options) : token_(random_token()) {
  for (const auto& word : words) shown_ += word + " ";
  auto variables = options.variables;
  variables[token_name] = token_;
  const Ends ends = options.on_terminal ? open_terminal() : open_pipes();
  pid_ = ::fork();
  REQUIRE(pid_ >= 0);
  if (pid_ == 0) become(words, variables, ends, options.on_terminal);
  pidfd_ = open_pidfd(pid_);
  REQUIRE(pidfd_);
  for (const auto* fd : {&out_pipe_, &err_pipe_}) {
    if (*fd) REQUIRE(::fcntl(fd->get(), F_SETFL, O_NONBLOCK) == 0);
  }
  running.push_back(this);
}

Command::~Command() {
  std::erase(running, this);
  if (std::getenv("CPPRUN_SHOW") != nullptr) std::puts((shown_ + everything()).c_str());
  if (!reaped_) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  // cpprun's watchdog ends the workers and cleans up after it; only what it leaves is killed here.
  const auto deadline = Clock::now() + watchdog_timeout;
  for (auto left = relatives(); !left.empty(); left = relatives()) {
    const auto process = open_pidfd(left.front());
    if (process && !wait_readable(process.get(), deadline)) break;
  }
  for (const auto pid : relatives()) ::kill(pid, SIGKILL);
}

Command::Ends Command::open_terminal() {
  int mine = -1;
  int theirs = -1;
  REQUIRE(::openpty(&mine, &theirs, nullptr, nullptr, nullptr) == 0);
  terminal_.reset(mine);
  out_pipe_.reset(::fcntl(mine, F_DUPFD_CLOEXEC, 3));
  ::fcntl(mine, F_SETFD, FD_CLOEXEC);
  return {FileDescriptor(theirs), FileDescriptor(::dup(theirs))};
}

Command::Ends Command::open_pipes() {
  Ends ends;
  ends.out = pipe_into(out_pipe_);
  ends.err = pipe_into(err_pipe_);
  return ends;
}

// The child's side of the fork, up to exec.
void Command::become(const Words& words, const Variables& variables, const Ends& ends,
                     bool on_terminal) const {
  if (on_terminal) {
    ::setsid();
    ::ioctl(ends.out.get(), TIOCSCTTY, 0);
    ::dup2(ends.out.get(), 0);
  } else {
    ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
  }
  ::dup2(ends.out.get(), 1);
  ::dup2(ends.err.get(), 2);
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv;
  for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  ::perror(argv[0]);
  ::_exit(127);
}

void Command::signal(int number) const {
  ::kill(pid_, number);
}

void Command::type(std::string_view text) const {
  REQUIRE(::write(terminal_.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

void Command::read_from(FileDescriptor& from, std::string& into) {
  std::array<char, 65536> block;
  const auto got = ::read(from.get(), block.data(), block.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  // A terminal whose last user left returns EIO where a pipe returns 0.
  if (got <= 0) return from.reset();
  if (into.size() < kept_bytes_max) into.append(block.data(), static_cast<std::size_t>(got));
}

bool Command::read_some(Clock::time_point deadline) {
  if (!out_pipe_ && !err_pipe_) return false;
  std::vector<pollfd> polled;
  for (const Command* const command : running) {
    polled.push_back({command->out_pipe_.get(), POLLIN, 0});
    polled.push_back({command->err_pipe_.get(), POLLIN, 0});
  }
  if (::poll(polled.data(), polled.size(), milliseconds_until(deadline)) <= 0) return false;
  for (std::size_t i = 0; i < running.size(); ++i) {
    Command& command = *running[i];
    if (polled[2 * i].revents != 0) command.read_from(command.out_pipe_, command.out_);
    if (polled[2 * i + 1].revents != 0) command.read_from(command.err_pipe_, command.err_);
  }
  return true;
}

std::string Command::everything() const {
  return "\n--- stdout\n" + out_ + "\n--- stderr\n" + err_ + "\n---";
}

void Command::expect_out(std::string_view text, std::size_t times) {
  const auto deadline = Clock::now() + timeout;
  while (count(out_, text) < times && read_some(deadline)) {
  }
  REQUIRE_MESSAGE(count(out_, text) >= times, "stdout did not say \"", text, "\" ", times, " times",
                  everything());
}

void Command::expect_err(std::string_view text, std::size_t times) {
  const auto deadline = Clock::now() + timeout;
  while (count(err_, text) < times && read_some(deadline)) {
  }
  REQUIRE_MESSAGE(count(err_, text) >= times, "stderr did not say \"", text, "\" ", times, " times",
                  everything());
}

Ended Command::wait() {
  const auto deadline = Clock::now() + timeout;
  while (read_some(deadline)) {
  }
  const int code = wait_for_exit();
  // The output since then.
  while (read_some(Clock::now())) {
  }
  return {code, out_, err_};
}

int Command::wait_for_exit() {
  if (reaped_) return code_;
  const auto deadline = Clock::now() + timeout;
  const bool ended = wait_readable(pidfd_.get(), deadline);
  REQUIRE_MESSAGE(ended, "did not end", everything());
  int status = 0;
  REQUIRE(::waitpid(pid_, &status, 0) == pid_);
  reaped_ = true;
  code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return code_;
}

std::vector<pid_t> Command::relatives() const {
  std::vector<pid_t> pids;
  const std::string assignment = std::string(token_name) + "=" + token_;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const auto name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const pid_t pid = std::atoi(name.c_str());
    if (pid != pid_ && carries(pid, assignment)) pids.push_back(pid);
  }
  return pids;
}

void Command::expect_no_worker_left() const {
  for (const auto pid : relatives()) {
    std::error_code gone;  // removed between the two calls: as good
    const auto program = fs::read_symlink("/proc/" + std::to_string(pid) + "/exe", gone);
    // A test may run a copy.
    CHECK_MESSAGE((gone || program.filename() == "cpprun"), "process ", pid,
                  " is left: ", program.string());
  }
  expect_no_process_left();
}

void Command::expect_no_process_left() const {
  const auto deadline = Clock::now() + timeout;
  for (auto left = relatives(); !left.empty(); left = relatives()) {
    const auto process = open_pidfd(left.front());
    const bool gone = !process || wait_readable(process.get(), deadline);
    REQUIRE_MESSAGE(gone, "process ", left.front(), " is left", everything());
  }
}

bool ends_in_time(pid_t pid) {
  const auto process = open_pidfd(pid);
  return !process || wait_readable(process.get(), Clock::now() + timeout);
}

Ended run(const Words& words, const Options& options) {
  Command command(words, options);
  return command.wait();
}

Words with_cpprun(const Words& arguments) {
  const auto program = from_build("CPPRUN");
  REQUIRE_MESSAGE(!program.empty(), "CPPRUN does not name the program under test; run it by ctest");
  Words words = {program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

std::string worker() {
  return from_build("CPPRUN_INTEGRATION_WORKER");
}

std::string from_build(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool has_secret() {
  const char* const file = std::getenv("CPPRUN_SECRET_FILE");
  return file != nullptr && *file != '\0';
}

int free_port() {
  std::random_device device;
  std::uniform_int_distribution<int> ports(20000, 29999);
  for (int attempt = 0; attempt < 100; ++attempt) {
    const int port = ports(device);
    if (Listener(port)) return port;
  }
  FAIL("no free port between 20000 and 29999");
  return 0;
}

std::string no_terminal() {
  int mine = -1;
  int theirs = -1;
  if (::openpty(&mine, &theirs, nullptr, nullptr, nullptr) != 0) {
    return std::string("no terminal can be made here (/dev/ptmx, /dev/pts): ") +
           std::strerror(errno);
  }
  const FileDescriptor closing_mine(mine);
  const FileDescriptor closing_theirs(theirs);
  return "";
}

std::string no_mounts() {
  const auto ended = run({"unshare", "--mount", "mount", "-t", "tmpfs", "none", "/tmp"});
  if (ended.code == 0) return "";
  return "cannot mount in a namespace (in a chroot?): " + ended.err.substr(0, ended.err.find('\n'));
}

void kill_at_once(Command& command) {
  command.signal(SIGKILL);
  CHECK(command.wait_for_exit() == 137);
}

void skip(std::string_view reason) {
  // On its own line and at once: doctest's own output comes later.
  std::printf("skipped: %.*s\n", static_cast<int>(reason.size()), reason.data());
  std::fflush(stdout);
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t times = 0;
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) {
    ++times;
  }
  return times;
}

}  // namespace cpprun::integration

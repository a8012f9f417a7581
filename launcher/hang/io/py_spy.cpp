// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/hang/io/py_spy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <utility>

#include "proto/text.h"

namespace cpprun::io {

namespace {

constexpr std::size_t error_bytes_max = 4096;

// In the child, which has one thread.
[[noreturn]] void execute(const std::string& program, const std::string& target, int out, int err) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  ::execl(program.c_str(), program.c_str(), "dump", "--json", "--nonblocking", "--pid",
          target.c_str(), static_cast<char*>(nullptr));
  ::_exit(127);
}

}  // namespace

PySpyRuns::~PySpyRuns() {
  for (const Run& run : runs_) {
    if (run.pid == 0) continue;
    ::kill(run.pid, SIGKILL);
    ::waitpid(run.pid, nullptr, 0);
  }
}

void PySpyRuns::start(const std::string& program, int target_pid) {
  Run& run = runs_.emplace_back();
  std::array<int, 2> out{-1, -1};
  std::array<int, 2> err{-1, -1};
  if (::pipe2(out.data(), O_CLOEXEC) == 0) run.out.reset(out[0]);
  if (::pipe2(err.data(), O_CLOEXEC) == 0) run.err.reset(err[0]);
  FileDescriptor out_end{out[1]};
  FileDescriptor err_end{err[1]};
  run.error = "cannot start it";
  if (!out_end || !err_end) return;
  const std::string target = std::to_string(target_pid);
  const pid_t pid = ::fork();
  if (pid == 0) execute(program, target, out_end.get(), err_end.get());
  if (pid < 0) return;
  run.pid = pid;
  run.error.clear();
  ::fcntl(run.out.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(run.err.get(), F_SETFL, O_NONBLOCK);
}

// False after the end, or if it writes too much.
bool PySpyRuns::read_some(FileDescriptor& from, std::string& text) {
  std::array<char, 16 * 1024> buffer;
  const auto got = ::read(from.get(), buffer.data(), buffer.size());
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  text.append(buffer.data(), static_cast<std::size_t>(got));
  return got > 0 && text.size() <= hang::answer_bytes_max;
}

hang::Answer PySpyRuns::answer_of(Run& run) {
  using Kind = hang::Answer::Kind;
  if (run.pid == 0) return {.kind = Kind::failed, .body = {}, .reason = "py-spy: " + run.error};
  if (run.out || run.err) {
    return {.kind = Kind::silent, .body = {}, .reason = "py-spy did not finish in time"};
  }
  int status = 0;
  if (::waitpid(std::exchange(run.pid, 0), &status, 0) > 0 && status == 0) {
    return {.kind = Kind::answered, .body = std::move(run.text), .reason = {}};
  }
  return {.kind = Kind::failed,
          .body = {},
          .reason = "py-spy: " + plain_line(trimmed(run.error), error_bytes_max)};
}

std::vector<hang::Answer> PySpyRuns::finish(TimePoint deadline) {
  while (true) {
    std::vector<pollfd> polled;
    std::vector<std::pair<FileDescriptor*, std::string*>> streams;
    for (Run& run : runs_) {
      if (run.pid == 0) continue;
      if (run.out) streams.emplace_back(&run.out, &run.text);
      if (run.err) streams.emplace_back(&run.err, &run.error);
    }
    for (const auto& [descriptor, text] : streams) polled.push_back({descriptor->get(), POLLIN, 0});
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (streams.empty() || left.count() <= 0) break;
    if (::poll(polled.data(), polled.size(), static_cast<int>(left.count())) <= 0) continue;
    for (std::size_t index = 0; index < polled.size(); ++index) {
      const auto [descriptor, text] = streams[index];
      if (polled[index].revents != 0 && !read_some(*descriptor, *text)) descriptor->reset();
    }
  }
  std::vector<hang::Answer> answers;
  for (Run& run : runs_) answers.push_back(answer_of(run));
  return answers;
}

}  // namespace cpprun::io

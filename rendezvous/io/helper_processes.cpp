// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/io/helper_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <exception>
#include <vector>

#include "proto/text.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

namespace {

bool is_in(const std::vector<int>& descriptors, int each) {
  return std::find(descriptors.begin(), descriptors.end(), each) != descriptors.end();
}

// Every signal is blocked since before the fork: a handler of our parent's would speak to an event
// loop that is not here.
[[noreturn]] void live(const std::vector<int>& kept, const std::function<void()>& work) {
  // A kill of cpprun by name or process group must not hit the process that writes its last output.
  ::setsid();
  ::prctl(PR_SET_NAME, "job-files", 0, 0, 0);
  const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int standard = 0; standard <= STDERR_FILENO; ++standard) {
    if (!is_in(kept, standard) && nowhere >= 0) ::dup2(nowhere, standard);
  }
  close_from_but(STDERR_FILENO + 1, kept);
  try {
    work();
  } catch (const std::exception&) {
    // The reader sees the end of the pipe without an answer.
  }
  ::_exit(0);
}

}  // namespace

std::optional<std::string> read_until_end(int descriptor, Duration timeout, bool is_of_each) {
  using std::chrono::milliseconds;
  auto deadline = std::chrono::steady_clock::now() + timeout;
  std::string text;
  std::vector<char> buffer(std::size_t{64} * 1024);  // what a pipe holds
  while (true) {
    const auto left =
        std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    pollfd news{descriptor, POLLIN, 0};
    const int ready = left > 0 ? ::poll(&news, 1, static_cast<int>(left)) : 0;
    if (ready == 0) return std::nullopt;
    if (ready < 0) continue;  // a signal came
    const auto got = ::read(descriptor, buffer.data(), buffer.size());
    if (got == 0) return text;
    if (got > 0) text.append(buffer.data(), static_cast<std::size_t>(got));
    if (is_of_each) deadline = std::chrono::steady_clock::now() + timeout;
  }
}

std::string answer_of(const Result<std::string>& result) {
  return result ? "=" + *result : "!" + result.error().reason;
}

Result<std::string> result_of(const std::optional<std::string>& answer,
                              const std::string& no_answer) {
  if (!answer || answer->empty()) return failure(no_answer);
  if (answer->front() == '!') return failure(answer->substr(1));
  return answer->substr(1);
}

Result<int> HelperProcesses::start(const std::vector<int>& kept,
                                   const std::function<void()>& work) {
  reap_ended();
  sigset_t every, before;
  ::sigfillset(&every);
  ::sigprocmask(SIG_SETMASK, &every, &before);
  const auto pid = ::fork();
  if (pid == 0) live(kept, work);
  const int fork_error = errno;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return failure("cannot start a process: " + errno_text(fork_error));
  pids_.push_back(pid);
  return pid;
}

std::optional<std::string> HelperProcesses::ask(const std::function<std::string()>& look,
                                                Duration timeout) {
  return hear([&look](const Say& say) { say(look()); }, timeout, /*is_of_each=*/false);
}

std::optional<std::string> HelperProcesses::ask_within(const std::function<void(const Say&)>& look,
                                                       Duration timeout) {
  return hear(look, timeout, /*is_of_each=*/true);
}

std::optional<std::string> HelperProcesses::hear(const std::function<void(const Say&)>& look,
                                                 Duration timeout, bool is_of_each) {
  const auto look_here = [&look] {
    std::string text;
    look([&text](std::string_view bytes) { text.append(bytes); });
    return text;
  };
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return look_here();
  const FileDescriptor mine{ends[0]};
  FileDescriptor theirs{ends[1]};
  const auto pid = start(
      {ends[1]}, [&] { look([&](std::string_view bytes) { (void)write_all(ends[1], bytes); }); });
  theirs.reset();
  if (!pid) return look_here();
  auto answer = read_until_end(mine.get(), timeout, is_of_each);
  if (!answer) {
    end(*pid);
  } else if (::waitpid(*pid, nullptr, 0) == *pid) {
    reaped(*pid);
  }
  return answer;
}

void HelperProcesses::end(int pid) const {
  if (is_in(pids_, pid)) ::kill(pid, SIGKILL);
}

void HelperProcesses::reap_ended() {
  std::erase_if(pids_, [](int pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; });
}

}  // namespace cpprun

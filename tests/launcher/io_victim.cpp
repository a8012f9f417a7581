// SPDX-License-Identifier: BSD-3-Clause
// A worker that misbehaves as requested, for the tests of processes, pump and watchdog.
//
//   io_victim exit <code>          ends with that code
//   io_victim crash                dies of SIGSEGV
//   io_victim stubborn             ignores TERM, prints "ready", stays
//   io_victim family <end|stay>    leaves children behind: one in its group that ignores TERM, one
//                                  daemon in its own session, then prints "ready"
//   io_victim flood <bytes>        writes that many bytes without a newline
//   io_victim standing             prints its session, group, signal mask and open descriptors
//   io_victim launcher <token>     replaces cpprun: a watchdog, and a worker with a family

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "launcher/workers/io/process.h"
#include "launcher/workers/io/watchdog.h"
#include "proto/worker_contract.h"

namespace {

[[noreturn]] void stay() {
  while (true) ::pause();
}

void say(const char* text) {
  if (::write(STDOUT_FILENO, text, std::strlen(text)) < 0) ::_exit(9);
}

int crash() {
  ::signal(SIGSEGV, SIG_DFL);
  ::raise(SIGSEGV);
  return 0;
}

int stubborn() {
  ::signal(SIGTERM, SIG_IGN);
  say("ready\n");
  stay();
}

int leave_family(bool then_end) {
  int ready[2];
  if (::pipe2(ready, O_CLOEXEC) != 0) return 9;
  if (::fork() == 0) {
    ::signal(SIGTERM, SIG_IGN);
    static_cast<void>(::write(ready[1], "x", 1) == 1);
    ::close(ready[1]);
    stay();
  }
  if (::fork() == 0) {
    ::setsid();
    if (::fork() == 0) {  // a daemon as the textbook has it
      static_cast<void>(::write(ready[1], "x", 1) == 1);
      ::close(ready[1]);
      stay();
    }
    ::_exit(0);
  }
  ::close(ready[1]);
  char both[2];
  std::size_t heard = 0;
  while (heard < 2) {
    const auto got = ::read(ready[0], both, 2 - heard);
    if (got <= 0) return 9;
    heard += static_cast<std::size_t>(got);
  }
  say("ready\n");
  if (then_end) return 0;
  stay();
}

int flood(long bytes) {
  const std::string chunk(1 << 16, 'x');
  while (bytes > 0) {
    const auto put = ::write(STDOUT_FILENO, chunk.data(),
                             std::min<std::size_t>(chunk.size(), static_cast<std::size_t>(bytes)));
    if (put <= 0) return 9;
    bytes -= put;
  }
  return 0;
}

int standing() {
  sigset_t mask;
  ::sigprocmask(SIG_SETMASK, nullptr, &mask);
  int blocked = 0;
  int ignored = 0;
  for (int signal = 1; signal < 32; ++signal) {
    blocked += sigismember(&mask, signal);
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    ignored += action.sa_handler == SIG_IGN ? 1 : 0;
  }
  int descriptors = 0;
  DIR* directory = ::opendir("/proc/self/fd");
  while (const dirent* entry = ::readdir(directory)) descriptors += entry->d_name[0] != '.';
  ::closedir(directory);
  int death_signal = 0;
  ::prctl(PR_GET_PDEATHSIG, &death_signal);
  // The listing itself has one descriptor open.
  std::printf("leader=%d group=%d blocked=%d ignored=%d descriptors=%d death=%d\n",
              ::getsid(0) == ::getpid(), ::getpgid(0) == ::getpid(), blocked, ignored,
              descriptors - 1, death_signal);
  return 0;
}

int launcher(const char* self, const std::string& token) {
  const auto job_processes =
      cpprun::io::make_job_processes(token, static_cast<std::uint32_t>(::getpid()));
  auto watchdog = cpprun::io::Watchdog::start(job_processes);
  if (!watchdog) return 9;
  asio::io_context context;
  cpprun::io::WorkerProcesses processes(context, {[](auto, auto) {}, [](auto, auto) {}},
                                        {watchdog->pid()},
                                        {.open_files = {}, .job_processes = job_processes});
  cpprun::WorkerSpec spec;
  spec.argv = {self, "family", "stay"};
  spec.variables[std::string(cpprun::contract::node_token)] = token;
  const auto pid = processes.spawn(spec, {});
  if (!pid) return 9;
  watchdog->add_group(*pid);
  context.run();
  return 0;
}

}  // namespace

int main(int count, char** words) {
  const std::string what = count > 1 ? words[1] : "";
  const std::string how = count > 2 ? words[2] : "";
  if (what == "exit") return std::atoi(how.c_str());
  if (what == "crash") return crash();
  if (what == "stubborn") return stubborn();
  if (what == "family") return leave_family(how == "end");
  if (what == "flood") return flood(std::atol(how.c_str()));
  if (what == "standing") return standing();
  if (what == "launcher") return launcher(words[0], how);
  return 9;
}

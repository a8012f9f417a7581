// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// One run of cpprund and its output.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

class Program {
 public:
  // Where stderr goes: a pipe that `err_line` reads, nowhere, or a descriptor of the caller.
  static constexpr int read_here = -1;
  static constexpr int closed = -2;

  explicit Program(std::vector<std::string> arguments, int stderr_goes_to = read_here,
                   bool has_few_descriptors = false)
      : Program(std::move(arguments),
                Setting{.stderr_goes_to = stderr_goes_to,
                        .words = has_few_descriptors ? "ulimit -n 300 && exec" : ""}) {}

  // How the daemon is started.
  struct Setting {
    int stderr_goes_to = read_here;
    // a shell prefix for the command, such as "A=$$ exec"; empty: no shell
    std::string words = {};
    std::vector<int> passed = {};  // become descriptor 3 and following
    bool has_no_stdin = false;
  };
  Program(std::vector<std::string> arguments, const Setting& setting) {
    const int stderr_goes_to = setting.stderr_goes_to;
    const char* path = std::getenv("CPPRUND");
    REQUIRE(path != nullptr);
    if (!setting.words.empty()) {
      path = "/bin/sh";
      arguments.insert(arguments.begin(),
                       {"-c", setting.words + " \"$CPPRUND\" \"$@\"", "cpprund"});
    }
    int out[2];
    int err[2];
    REQUIRE(pipe2(out, O_CLOEXEC) == 0);
    REQUIRE(pipe2(err, O_CLOEXEC) == 0);
    out_ = FileDescriptor(out[0]);
    err_ = FileDescriptor(err[0]);
    const FileDescriptor out_writer(out[1]);
    const FileDescriptor err_writer(err[1]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    if (stderr_goes_to == closed) {
      posix_spawn_file_actions_addclose(&actions, 2);
    } else {
      posix_spawn_file_actions_adddup2(&actions,
                                       stderr_goes_to == read_here ? err[1] : stderr_goes_to, 2);
    }
    // Above the target numbers, so that no dup2 overwrites a source.
    std::vector<FileDescriptor> high;
    for (const int each : setting.passed) high.emplace_back(fcntl(each, F_DUPFD_CLOEXEC, 100));
    for (std::size_t at = 0; at < high.size(); ++at) {
      posix_spawn_file_actions_adddup2(&actions, high[at].get(), 3 + static_cast<int>(at));
    }
    if (setting.has_no_stdin) posix_spawn_file_actions_addclose(&actions, 0);
    arguments.insert(arguments.begin(), "cpprund");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    REQUIRE(posix_spawn(&pid_, path, &actions, nullptr, argv.data(), environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Program() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  std::string out_line() { return line_of(out_); }
  // The next log line, except the sandbox line that every daemon prints first.
  std::string err_line() {
    std::string line = any_err_line();
    if (line.find(" cpprund: sandbox: ") != std::string::npos) line = any_err_line();
    return line;
  }
  // The next log line, except the warning about a missing secret.
  std::string any_err_line() {
    std::string line = first_err_line();
    if (line.find(" cpprund: no secret: ") != std::string::npos) line = first_err_line();
    return line;
  }
  std::string first_err_line() { return line_of(err_); }

  // Reads the port from the line `cpprund listening on [::]:43211`.
  std::uint16_t port() {
    const std::string line = out_line();
    REQUIRE(line.starts_with("cpprund listening on "));
    return static_cast<std::uint16_t>(std::stoi(line.substr(line.rfind(':') + 1)));
  }

  // Limits the address space of the daemon from now on.
  void limit_memory(rlim_t bytes) const {
    const rlimit limit{bytes, bytes};
    REQUIRE(prlimit(pid_, RLIMIT_AS, &limit, nullptr) == 0);
  }

  void signal(int number) const { REQUIRE(kill(pid_, number) == 0); }
  pid_t pid() const { return pid_; }

  int end_with(int signal) {
    kill(pid_, signal);
    return exit_code();
  }
  int exit_code() {
    int status = 0;
    REQUIRE(waitpid(pid_, &status, 0) == pid_);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  static std::string line_of(const FileDescriptor& fd) {
    std::string line;
    char letter = 0;
    pollfd watched{fd.get(), POLLIN, 0};
    while (poll(&watched, 1, 10'000) == 1 && read(fd.get(), &letter, 1) == 1 && letter != '\n') {
      line += letter;
    }
    return line;
  }

  pid_t pid_ = 0;
  FileDescriptor out_;
  FileDescriptor err_;
};

}  // namespace cpprun

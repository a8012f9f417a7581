// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A program run from outside, as a person or a script would: started with an environment, its
// output collected, its end awaited. Nothing here sleeps: a test waits for output, for an end or
// for the timeout, and a timeout is a failed test that prints all output.
//
// Each command has a token in its environment. Processes inherit it however far they run away, so
// that leftover processes can be found in /proc; they are killed when the command is destroyed.

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/io/file_descriptor.h"

namespace cpprun::integration {

using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

// Long enough for two busy cores and a sanitizer; no test depends on its value.
inline constexpr std::chrono::seconds timeout{60};

struct Options {
  Variables variables;       // laid over this test's own environment
  bool on_terminal = false;  // stdin, stdout and stderr are a terminal of its own
};

struct Ended {
  int code = 0;  // as a shell shows it: 128 + signal
  std::string out;
  std::string err;  // empty on a terminal, where both are one
};

class Command {
 public:
  explicit Command(const Words& words, const Options& options = {});
  // Kills what remains.
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  pid_t pid() const { return pid_; }
  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }
  const std::string& token() const { return token_; }

  void signal(int number) const;
  void type(std::string_view text) const;  // on the terminal

  // Waits until that text has been printed so many times; fails if the command ends or the timeout
  // passes first.
  void expect_out(std::string_view text, std::size_t times = 1);
  void expect_err(std::string_view text, std::size_t times = 1);

  // Waits for the end. Output is complete when all processes that inherited the pipes have closed
  // them.
  Ended wait();
  // Waits for the end of the process only; other processes may still hold its output.
  int wait_for_exit();

  // The processes that carry the token, except the command itself.
  std::vector<pid_t> relatives() const;
  // After the command's end: no worker and no process of a worker exists. Only cpprun's own
  // watchdog may still be exiting, and is awaited.
  void expect_no_worker_left() const;
  // Waits until no process carries the token.
  void expect_no_process_left() const;

 private:
  enum class Pipe { out, err };
  struct Ends {
    FileDescriptor out;
    FileDescriptor err;
  };

  Ends open_terminal();
  Ends open_pipes();
  [[noreturn]] void become(const Words& words, const Variables& variables, const Ends& ends,
                           bool on_terminal) const;
  // Reads the available output of all commands of this thread; false if the deadline passed or
  // both pipes of this one are closed.
  bool read_some(std::chrono::steady_clock::time_point deadline);
  void read_from(FileDescriptor& from, std::string& into);
  std::string everything() const;

  std::string shown_;  // the command line, for CPPRUN_SHOW, which prints all output
  std::string token_;
  pid_t pid_ = -1;
  FileDescriptor pidfd_;
  FileDescriptor terminal_;
  FileDescriptor out_pipe_;
  FileDescriptor err_pipe_;
  std::string out_;
  std::string err_;
  bool reaped_ = false;
  int code_ = 0;
};

// Waits until that process has ended, reaped or not; false if the timeout passes first.
bool ends_in_time(pid_t pid);

// Runs it to its end.
Ended run(const Words& words, const Options& options = {});
// Sends SIGKILL, and checks that the command ends of it.
void kill_at_once(Command& command);

// The program under test, followed by the arguments.
Words with_cpprun(const Words& arguments);
// The path of the worker that was made for these tests.
std::string worker();

// The value of a variable that the build sets, e.g. CPPRUN; empty if unset.
std::string from_build(const char* name);

// Whether the scene runs with a secret that all its nodes hold (CPPRUN_SECRET_FILE).
bool has_secret();

// Why no terminal is available here, as in a bare root without /dev/pts; empty if one is.
std::string no_terminal();

// Why nothing can be mounted in a namespace of its own: no permission, or a chroot, in which the
// kernel rejects it. Empty if it can.
std::string no_mounts();

// A port without a listener, outside the range of ephemeral ports.
int free_port();

// For a case that cannot run here: prints why, in the form that the tally counts.
void skip(std::string_view reason);

bool contains(std::string_view text, std::string_view part);
std::size_t count(std::string_view text, std::string_view part);

}  // namespace cpprun::integration

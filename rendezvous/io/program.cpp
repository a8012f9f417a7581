// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/io/program.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <new>
#include <string>
#include <system_error>

#include "proto/text.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

namespace {

// The name of the program, for the terminate handler, which has no argument.
std::string& program_name() {
  static std::string name;
  return name;
}

// Does not allocate: memory may be exhausted.
void say_error(std::string_view what, std::string_view hint = {}) {
  for (const std::string_view part :
       {std::string_view(program_name()), std::string_view(": error: "), what,
        std::string_view("\n"), hint}) {
    (void)write_all(STDERR_FILENO, part);
  }
}

// Prints the exception that is being handled.
void say_exception() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    say_error("out of memory",
              "  hint: raise the memory limit (ulimit -v, or the control group's)\n");
  } catch (const std::system_error& error) {
    const bool lacks_files = error.code().value() == EMFILE;  // Asio has a category of its own
    say_error(error.what(),
              lacks_files ? "  hint: raise the limit on open files (ulimit -n)\n" : "");
  } catch (const std::exception& error) {
    say_error(error.what());
  } catch (...) {
    say_error("unknown exception");
  }
}

// The terminate handler: an exception left a thread or a noexcept function. Without an exception it
// is a bug, so it dumps core.
[[noreturn]] void on_terminate() {
  if (std::current_exception() == nullptr) std::abort();
  say_exception();
  ::_exit(EXIT_FAILURE);
}

}  // namespace

int run_program(std::string_view name, const std::function<int()>& body, bool is_continued) {
  program_name() = name;
  fill_standard_streams();
  survive_failed_writes();
  if (!is_continued) reset_inherited_signals();
  std::set_terminate(on_terminate);
  try {
    return body();
  } catch (...) {
    say_exception();
    return EXIT_FAILURE;
  }
}

void reset_inherited_signals() {
  std::signal(SIGCHLD, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void fill_standard_streams() {
  for (const int each : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(each, F_GETFD) >= 0) continue;
    const int opened = ::open("/dev/null", each == STDOUT_FILENO ? O_RDONLY : O_RDWR);
    // A bare root has no /dev. A directory can be neither read nor written, so it fails as a closed
    // descriptor does.
    if (opened < 0 && ::open("/", O_RDONLY | O_DIRECTORY) < 0) return;
  }
}

void open_missing_stdout() {
  const int mode = ::fcntl(STDOUT_FILENO, F_GETFL);
  if (mode < 0 || (mode & O_ACCMODE) != O_RDONLY) return;
  const int opened = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (opened < 0) return;
  ::dup2(opened, STDOUT_FILENO);
  ::close(opened);
}

bool print_or_exit(std::string_view program, std::string_view text) {
  if (write_all(STDOUT_FILENO, text) == text.size()) return true;
  if (errno == EPIPE) return false;
  exit_for_lost_output(program);
}

void exit_for_lost_output(std::string_view program) {
  constexpr int failed = 1;
  std::string message(program);
  message += ": error: cannot write to stdout: " + errno_text(errno) + "\n";
  (void)write_all(STDERR_FILENO, message);
  std::_Exit(failed);
}

void survive_failed_writes() {
  for (const int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_IGN);
}

namespace {

// Ahead of all computation, but behind the services of the system.
constexpr int nice_wanted = -10;

}  // namespace

std::string machine_name() {
  utsname names{};
  return ::uname(&names) == 0 ? names.nodename : "localhost";
}

MemoryAndPriority lock_memory_and_priority() {
  MemoryAndPriority got;
  // Locks the pages that exist now, a few megabytes. A store that grows later is not locked.
  got.locked = ::mlockall(MCL_CURRENT) == 0;
  errno = 0;
  const int now = ::getpriority(PRIO_PROCESS, 0);
  if (now == -1 && errno != 0) return got;
  got.raised = ::setpriority(PRIO_PROCESS, 0, std::min(now, nice_wanted)) == 0;
  return got;
}

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
// The worker that the integration tests launch: each argument is an action, in order. It knows
// nothing of cpprun but its environment.
//
//   say TEXT        a line on stdout           say_err TEXT   a line on stderr
//   environment     every variable, one a line
//   seat            its rank, its world and its restart, in a line
//   pid             its rank and its pid, in a line
//   arguments …     prints the arguments that follow, one a line
//   exit CODE       ends                       crash          segmentation fault
//   ignore_term     TERM no longer ends it     hang           waits for a signal, for ever
//   ignore_int      nor does INT
//   hang_if_not R   hangs unless RANK is R     only R         the rest is for rank R alone
//   children        leaves a child, a grandchild and one in a session of its own, all hanging
//   flood BYTES     that many bytes on stdout without a line's end
//   trickle N       N lines on stdout, each in two writes
//   count_until PATH  numbered lines on stdout, in two writes, and on stderr, until there is a file
//   error_file TEXT writes that into the error file
//   await PATH      waits until a process opens that fifo for writing and closes it
//   devour BYTES   takes that much memory, and uses it
//   stamp PATH      appends the monotonic time and the rank to a file
//   say_on_usr1 R   says "saves" at each SIGUSR1, unless it is rank R

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/integration/worker_words.h"

extern char** environ;

namespace {

using namespace cpprun::integration;

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const auto written = ::write(fd, text.data(), text.size());
    if (written < 0) ::_exit(74);  // no reader is left
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void say(int fd, const std::string& text) {
  write_all(fd, text + "\n");
}

[[noreturn]] void hang() {
  for (;;) ::pause();
}

// Returns when all of them are in their final sessions.
void leave_children() {
  int ready[2] = {-1, -1};
  if (::pipe2(ready, O_CLOEXEC) != 0) ::_exit(71);
  if (::fork() == 0) {
    if (::fork() == 0) {
      ::setsid();  // leaves the session and the group that a launcher would kill
      write_all(ready[1], "x");
    }
    hang();
  }
  char there = 0;
  if (::read(ready[0], &there, 1) != 1) ::_exit(71);
  ::close(ready[0]);
  ::close(ready[1]);
}

void flood(long bytes) {
  const std::string block(65536, 'x');
  for (long left = bytes; left > 0; left -= 65536) {
    write_all(1,
              std::string_view(block).substr(0, static_cast<std::size_t>(std::min(left, 65536L))));
  }
}

void trickle(long lines) {
  for (long i = 0; i < lines; ++i) {
    write_all(1, "line " + std::to_string(i));
    write_all(1, " of rank " + variable("RANK") + "\n");
  }
}

// About a thousand lines a second.
void count_until(const std::string& path) {
  const std::string end = " of rank " + variable("RANK") + "\n";
  for (long i = 0; ::access(path.c_str(), F_OK) != 0; ++i) {
    const std::string begin = "line " + std::to_string(i);
    write_all(1, begin);
    write_all(1, end);
    write_all(2, begin + end);
    static_cast<void>(::poll(nullptr, 0, 1));
  }
}

void devour(long bytes) {
  constexpr std::size_t page = 4096;
  const auto size = static_cast<std::size_t>(bytes);
  void* const memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) ::_exit(71);
  for (std::size_t at = 0; at < size; at += page) static_cast<volatile char*>(memory)[at] = 1;
}

void stamp(const std::string& path) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  std::ofstream(path, std::ios::app) << std::to_string(nanoseconds) + " " + variable("RANK") + "\n";
}

void await(const std::string& path) {
  const int fifo = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  char ignored = 0;
  while (::read(fifo, &ignored, 1) > 0) {
  }
  ::close(fifo);
}

void say_seat() {
  say(1, "rank " + variable("RANK") + " of " + variable("WORLD_SIZE") + ", restart " +
             variable("TORCHELASTIC_RESTART_COUNT"));
}

void say_pid() {
  say(1, "pid of rank " + variable("RANK") + ": " + std::to_string(::getpid()));
}

class Script {
 public:
  Script(int count, char** words) : words_(words + 1, words + count) {}

  void play() {
    while (!words_.empty()) step(next());
  }

 private:
  std::string next() {
    if (words_.empty()) ::_exit(64);
    auto word = words_.front();
    words_.erase(words_.begin());
    return word;
  }

  void step(const std::string& action) {
    if (action == "say") return say(1, next());
    if (action == "say_err") return say(2, next());
    if (action == "exit") ::_exit(static_cast<int>(number(next())));
    if (action == "hang") hang();
    if (action == "seat") return say_seat();
    if (action == "pid") return say_pid();
    if (action == "children") return leave_children();
    if (action == "flood") return flood(number(next()));
    if (action == "trickle") return trickle(number(next()));
    if (action == "count_until") return count_until(next());
    if (action == "await") return await(next());
    if (action == "stamp") return stamp(next());
    if (action == "only") return only(next());
    step_about_process(action);
  }

  void step_about_process(const std::string& action) {
    if (action == "environment") {
      for (char** entry = environ; *entry != nullptr; ++entry) say(1, *entry);
    } else if (action == "arguments") {
      for (const auto& word : words_) say(1, "argument " + word);
      words_.clear();
    } else if (action == "crash") {
      ::signal(SIGSEGV, SIG_DFL);
      ::raise(SIGSEGV);
    } else if (action == "ignore_term") {
      ::signal(SIGTERM, SIG_IGN);
    } else if (action == "ignore_int") {
      ::signal(SIGINT, SIG_IGN);
    } else if (action == "hang_if_not") {
      if (variable("RANK") != next()) hang();
    } else if (action == "say_on_usr1") {
      if (variable("RANK") != next()) ::signal(SIGUSR1, [](int) { write_all(1, "saves\n"); });
    } else if (action == "devour") {
      devour(number(next()));
    } else if (action == "error_file") {
      std::ofstream(variable("TORCHELASTIC_ERROR_FILE")) << next();
    } else {
      say(2, "unknown action " + action);
      ::_exit(64);
    }
  }

  // All following actions are for that rank; the other ranks have finished.
  void only(const std::string& rank) {
    if (variable("RANK") != rank) words_.clear();
  }

  std::vector<std::string> words_;
};

}  // namespace

int main(int count, char** words) {
  Script(count, words).play();
}

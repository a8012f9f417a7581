// SPDX-License-Identifier: BSD-3-Clause
// The physical limit: a launcher that only starts N programs, waits, and starts them once more if
// one fails. No store, two variables, no report, no cleanup.
//
//   bare_launcher N PROGRAM ARGUMENTS…

#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

extern char** environ;

namespace {

constexpr int workers_max = 1024;

struct Group {
  std::array<pid_t, workers_max> pids{};
  int alive = 0;
};

void set_number(const char* name, int value) {
  std::array<char, 12> digits{};
  char* end = digits.data() + digits.size() - 1;
  do {
    *--end = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value > 0);
  ::setenv(name, end, 1);
}

void start(Group& group, int workers, char** words) {
  for (int rank = 0; rank < workers; ++rank) {
    set_number("RANK", rank);
    if (::posix_spawn(&group.pids[static_cast<std::size_t>(rank)], words[0], nullptr, nullptr,
                      words, environ) != 0) {
      ::_exit(71);
    }
    ++group.alive;
  }
}

// Waits for all; the first failure ends the others.
bool wait_for_all(Group& group, int workers) {
  bool good = true;
  while (group.alive > 0) {
    int status = 0;
    if (::waitpid(-1, &status, 0) < 0) ::_exit(71);
    --group.alive;
    if (status == 0 || !good) continue;
    good = false;
    for (int rank = 0; rank < workers; ++rank) {
      ::kill(group.pids[static_cast<std::size_t>(rank)], SIGTERM);
    }
  }
  return good;
}

}  // namespace

int main(int count, char** words) {
  const int workers = count < 3 ? 0 : ::atoi(words[1]);
  if (workers < 1 || workers > workers_max) return 64;
  set_number("WORLD_SIZE", workers);
  Group group;
  start(group, workers, words + 2);
  if (wait_for_all(group, workers)) return 0;
  start(group, workers, words + 2);
  return wait_for_all(group, workers) ? 0 : 1;
}

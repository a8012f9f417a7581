// SPDX-License-Identifier: BSD-3-Clause
// The smallest worker: records when it was executed and exits, hangs, or fails once. Linked
// statically, so that the dynamic linker is not measured.
//
//   launch_worker FILE end|hang|fail_once

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "tests/bench/launch_stamp.h"

using cpprun::bench::ClockPair;
using cpprun::bench::Stamp;

namespace {

int number_of(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? 0 : std::atoi(value);
}

void append(int file, ClockPair moment) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const Stamp stamp{now.tv_sec * 1'000'000'000 + now.tv_nsec,
                    static_cast<std::uint32_t>(number_of("RANK")), moment, ::getpid()};
  if (::write(file, &stamp, sizeof stamp) != static_cast<ssize_t>(sizeof stamp)) ::_exit(74);
}

// A failure is comparable only when all workers are running.
void wait_for_all(int file) {
  const auto wanted = static_cast<off_t>(sizeof(Stamp)) * number_of("WORLD_SIZE");
  struct stat about {};
  while (::fstat(file, &about) == 0 && about.st_size < wanted) ::poll(nullptr, 0, 1);
}

// The variable that counts restarts would not do: torchrun counts per node, and a node whose peer
// failed counts no restart.
bool a_worker_died(const char* path) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  bool found = false;
  for (Stamp stamp; ::read(file, &stamp, sizeof stamp) == static_cast<ssize_t>(sizeof stamp);) {
    found = found || stamp.moment == ClockPair::died;
  }
  ::close(file);
  return found;
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) return 64;
  const int file = ::open(words[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  append(file, ClockPair::executed);
  const bool fails = std::strcmp(words[2], "fail_once") == 0 && !a_worker_died(words[1]);
  if (fails && number_of("RANK") == 0) {
    wait_for_all(file);
    append(file, ClockPair::died);
    return 1;
  }
  if (fails || std::strcmp(words[2], "hang") == 0) ::pause();
  return 0;
}

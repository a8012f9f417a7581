// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/state_place.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <fstream>
#include <optional>
#include <thread>

#include "proto/text.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto lock_look = std::chrono::milliseconds(5);

// Whoever can write there decides who sits in which job.
std::optional<std::string> objection_to(int folder) {
  struct stat facts {};
  if (::fstat(folder, &facts) != 0) return "cannot be looked at: " + errno_text(errno);
  if (facts.st_uid != ::geteuid()) {
    return fmt::format("belongs to uid {}, and cpprund runs as {}: give it a folder of its own",
                       facts.st_uid, ::geteuid());
  }
  if ((facts.st_mode & 022) != 0) {
    return fmt::format("can be written by others (mode {:o}): chmod 700 closes it",
                       facts.st_mode & 0777U);
  }
  return std::nullopt;
}

// Of whoever has locked it; 0 where that does not say.
int pid_in(int lock) {
  char text[32] = {};
  const auto got = ::pread(lock, text, sizeof text, 0);
  int pid = 0;
  const auto [rest, error] = std::from_chars(text, text + std::max<long>(got, 0), pid);
  return error == std::errc{} && rest != text ? pid : 0;
}

}  // namespace

std::string own_boot() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return boot;
}

Result<FileDescriptor> open_state_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return state_refused("cannot make the folder \"{}\": {}", path, errno_text(errno));
  }
  FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return state_refused("cannot open the folder \"{}\": {}", path, errno_text(errno));
  if (const auto wrong = objection_to(folder.get()))
    return state_refused("\"{}\" {}", path, *wrong);
  return folder;
}

Result<FileDescriptor> lock_state_folder(int folder, const std::string& path, Duration patience) {
  FileDescriptor lock(::openat(folder, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) return state_refused("cannot lock \"{}\": {}", path, errno_text(errno));
  for (const auto until = Clock::now() + patience;;) {
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) break;
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return state_refused("cannot lock \"{}\": {}", path, errno_text(errno));
    }
    if (Clock::now() >= until) {
      const int other = pid_in(lock.get());
      if (other > 0 && ::kill(other, 0) != 0 && errno == ESRCH) {
        return state_refused(
            "the last records of pid {}, which is gone, are still being written to \"{}\": its "
            "disk "
            "is slow, or does not answer",
            other, path);
      }
      return state_refused(
          "another cpprund keeps its jobs in \"{}\" (pid {}): give each daemon a folder of its own",
          path, other);
    }
    std::this_thread::sleep_for(lock_look);
  }
  // For the words above, where it can be written.
  if (::ftruncate(lock.get(), 0) == 0) (void)write_all(lock.get(), fmt::format("{}\n", ::getpid()));
  return lock;
}

}  // namespace cpprun

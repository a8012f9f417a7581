// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/io/worker_terminal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <array>

namespace cpprun::io {

namespace {

constexpr int worker_side_flags = O_RDWR | O_NOCTTY | O_CLOEXEC;

// By its number, which is the same in every mount namespace; by its path on kernels before 4.13.
int open_worker_side(int ours) {
#ifdef TIOCGPTPEER
  if (const int peer = ::ioctl(ours, TIOCGPTPEER, worker_side_flags); peer >= 0) return peer;
#endif
  std::array<char, 64> path{};
  if (::ptsname_r(ours, path.data(), path.size()) != 0) return -1;
  return ::open(path.data(), worker_side_flags);
}

}  // namespace

std::optional<WorkerTerminal> open_worker_terminal(int like) {
  termios settings{};
  if (::tcgetattr(like, &settings) != 0) return std::nullopt;
  WorkerTerminal made;
  made.ours.reset(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!made.ours || ::grantpt(made.ours.get()) != 0 || ::unlockpt(made.ours.get()) != 0) {
    return std::nullopt;
  }
  made.worker.reset(open_worker_side(made.ours.get()));
  if (!made.worker) return std::nullopt;
  // The terminal at which the person sits translates line ends; once is enough.
  settings.c_oflag &= ~static_cast<tcflag_t>(OPOST);
  if (::tcsetattr(made.worker.get(), TCSANOW, &settings) != 0) return std::nullopt;
  copy_terminal_size(like, made.worker.get());
  return made;
}

void copy_terminal_size(int from, int to) {
  winsize size{};
  // A terminal without a size leaves the other one as it is.
  if (::ioctl(from, TIOCGWINSZ, &size) == 0) static_cast<void>(::ioctl(to, TIOCSWINSZ, &size));
}

}  // namespace cpprun::io

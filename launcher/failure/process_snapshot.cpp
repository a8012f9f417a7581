// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/failure/process_snapshot.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <syscall.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace cpprun {

namespace {

// The innermost ones say where it hangs; the rest is how it came there.
constexpr std::size_t frames_told_max = 3;

struct SystemCall {
  int number;
  std::string_view name;
};

// Those in which programs stay for long.
constexpr std::array system_calls = {
    SystemCall{SYS_read, "read"},
    SystemCall{SYS_write, "write"},
    SystemCall{SYS_pread64, "pread64"},
    SystemCall{SYS_pwrite64, "pwrite64"},
    SystemCall{SYS_openat, "openat"},
    SystemCall{SYS_close, "close"},
    SystemCall{SYS_fsync, "fsync"},
    SystemCall{SYS_fdatasync, "fdatasync"},
    SystemCall{SYS_flock, "flock"},
    SystemCall{SYS_fcntl, "fcntl"},
    SystemCall{SYS_ioctl, "ioctl"},
    SystemCall{SYS_mmap, "mmap"},
    SystemCall{SYS_munmap, "munmap"},
    SystemCall{SYS_futex, "futex"},
    SystemCall{SYS_ppoll, "ppoll"},
    SystemCall{SYS_pselect6, "pselect"},
    SystemCall{SYS_epoll_pwait, "epoll_pwait"},
    SystemCall{SYS_recvfrom, "recvfrom"},
    SystemCall{SYS_recvmsg, "recvmsg"},
    SystemCall{SYS_sendto, "sendto"},
    SystemCall{SYS_sendmsg, "sendmsg"},
    SystemCall{SYS_accept, "accept"},
    SystemCall{SYS_accept4, "accept4"},
    SystemCall{SYS_connect, "connect"},
    SystemCall{SYS_nanosleep, "nanosleep"},
    SystemCall{SYS_clock_nanosleep, "clock_nanosleep"},
    SystemCall{SYS_wait4, "wait4"},
    SystemCall{SYS_waitid, "waitid"},
    SystemCall{SYS_rt_sigtimedwait, "sigtimedwait"},
    SystemCall{SYS_rt_sigsuspend, "sigsuspend"},
    SystemCall{SYS_exit_group, "exit_group"},
#ifdef SYS_poll  // the newer kinds of processors have only the p… ones
    SystemCall{SYS_poll, "poll"},
    SystemCall{SYS_select, "select"},
    SystemCall{SYS_epoll_wait, "epoll_wait"},
    SystemCall{SYS_pause, "pause"},
#endif
};

}  // namespace

std::string system_call_name(int number) {
  const auto* found = std::find_if(system_calls.begin(), system_calls.end(),
                                   [number](const auto& each) { return each.number == number; });
  return found == system_calls.end() ? std::to_string(number) : std::string(found->name);
}

std::string state_text(char state) {
  switch (state) {
    case 'R':
      return "running";
    case 'S':
      return "sleeping";
    case 'D':
      return "waiting in the kernel for a disk or a driver, which no signal interrupts";
    case 'T':
      return "stopped";
    case 't':
      return "stopped by a debugger";
    case 'Z':
      return "ended, but not yet reaped by its parent";
    default:
      return "unknown";
  }
}

std::string to_text(const ProcessSnapshot& look) {
  auto text = fmt::format("{} (pid {}) was in state {} ({})", look.name, look.pid, look.state,
                          state_text(look.state));
  if (!look.wait_channel.empty()) text += fmt::format(", in {}", look.wait_channel);
  if (look.system_call) {
    text += fmt::format(", system call {}", system_call_name(*look.system_call));
  }
  if (look.threads > 1) text += fmt::format(", {} threads", look.threads);
  if (!look.kernel_stack.empty()) {
    const auto told = std::min(look.kernel_stack.size(), frames_told_max);
    text += fmt::format(
        ", kernel stack {}",
        fmt::join(look.kernel_stack.begin(),
                  look.kernel_stack.begin() + static_cast<std::ptrdiff_t>(told), " < "));
  }
  return text;
}

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/failure/evidence.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <syscall.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace cpprun {

namespace {

constexpr std::size_t name_bytes_max = 128;  // longer names are not compared

// The edit distance: letters changed, added, omitted, or swapped with their neighbor.
std::size_t diagnostics_between(std::string_view one, std::string_view other) {
  std::vector<std::size_t> before(other.size() + 1);
  std::vector<std::size_t> last(other.size() + 1);
  std::vector<std::size_t> row(other.size() + 1);
  for (std::size_t j = 0; j <= other.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= one.size(); ++i) {
    before = last;
    last = row;
    row[0] = i;
    for (std::size_t j = 1; j <= other.size(); ++j) {
      const std::size_t changed = one[i - 1] == other[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + changed});
      const bool exchanged =
          i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1];
      if (exchanged) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[other.size()];
}

bool is_python(std::string_view executable) {
  const auto slash = executable.rfind('/');
  return executable.substr(slash == std::string_view::npos ? 0 : slash + 1).starts_with("python");
}

}  // namespace

std::string missing_module(const std::vector<std::string>& lines) {
  constexpr std::string_view words = "No module named ";
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    const auto at = line->find(words);
    if (at == std::string::npos) continue;
    std::string_view rest = std::string_view(*line).substr(at + words.size());
    if (!rest.empty() && (rest.front() == '\'' || rest.front() == '"')) rest.remove_prefix(1);
    const auto end = std::ranges::find_if(rest, [](char byte) {
      return std::isalnum(static_cast<unsigned char>(byte)) == 0 && byte != '_' && byte != '.' &&
             static_cast<unsigned char>(byte) < 0x80;
    });
    return {rest.begin(), end};
  }
  return "";
}

std::string similar_name(std::string_view wanted, const std::vector<std::string>& names) {
  if (wanted.size() < 3 || wanted.size() > name_bytes_max) return "";
  std::size_t fewest = wanted.size() < 5 ? 1 : 2;
  std::string similar;
  for (const auto& name : names) {
    if (name == wanted || name.size() > name_bytes_max) continue;
    const auto diagnostics = diagnostics_between(wanted, name);
    if (diagnostics > fewest || (diagnostics == fewest && !similar.empty())) continue;
    fewest = diagnostics;
    similar = name;
  }
  return similar;
}

std::string missing_module_advice(std::string_view name, const ModuleSight& sight,
                                  std::string_view executable) {
  if (!sight.similar.empty()) {
    return fmt::format("did you mean \"{}\"?", sight.similar);
  }
  if (!sight.elsewhere.empty()) {
    return fmt::format(
        "set PYTHONPATH={}, which has \"{}\"; Python only searches the directory of the script",
        sight.elsewhere, name);
  }
  if (!sight.own_package.empty()) {
    return fmt::format("check the name: your package \"{}\" has no module \"{}\"",
                       sight.own_package, name.substr(sight.own_package.size() + 1));
  }
  if (!is_python(executable)) {
    return "set PYTHON_EXEC to a Python that has it, or install it in a virtual environment and "
           "set PYTHON_EXEC to the Python of that environment";
  }
  if (sight.in_environment) {
    return fmt::format(
        "install the package that provides \"{}\" ({} -m pip install …), or set PYTHON_EXEC to a "
        "Python that has it",
        name, executable);
  }
  return fmt::format(
      "set PYTHON_EXEC to a Python that has it, or install it in a virtual environment (python3 "
      "-m venv DIR) and set PYTHON_EXEC=DIR/bin/python; {} is the system's Python",
      executable);
}

namespace {

// The innermost frames show where the process hangs.
constexpr std::size_t frames_told_max = 3;

struct SystemCall {
  int number;
  std::string_view name;
};

// System calls in which programs block for long.
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
#ifdef SYS_poll  // newer architectures only have the p… variants
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
      return "uninterruptible sleep, waiting for a disk or driver";
    case 'T':
      return "stopped";
    case 't':
      return "stopped by a debugger";
    case 'Z':
      return "zombie: exited, not yet reaped by its parent";
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

// SPDX-License-Identifier: BSD-3-Clause
#include "proto/signal_names.h"

#include <algorithm>
#include <array>
#include <csignal>

namespace cpprun {

namespace {

struct Name {
  int signal;
  std::string_view name;
  std::string_view meaning;
};

constexpr std::array names = {
    Name{SIGHUP, "SIGHUP", "hang-up"},
    Name{SIGINT, "SIGINT", "interrupt"},
    Name{SIGQUIT, "SIGQUIT", "quit"},
    Name{SIGILL, "SIGILL", "illegal instruction"},
    Name{SIGTRAP, "SIGTRAP", "trap"},
    Name{SIGABRT, "SIGABRT", "aborted"},
    Name{SIGBUS, "SIGBUS", "bus error"},
    Name{SIGFPE, "SIGFPE", "arithmetic error"},
    Name{SIGKILL, "SIGKILL", "killed"},
    Name{SIGUSR1, "SIGUSR1", ""},
    Name{SIGSEGV, "SIGSEGV", "segmentation fault"},
    Name{SIGUSR2, "SIGUSR2", ""},
    Name{SIGPIPE, "SIGPIPE", "broken pipe"},
    Name{SIGALRM, "SIGALRM", "alarm"},
    Name{SIGTERM, "SIGTERM", "terminated"},
    Name{SIGSTKFLT, "SIGSTKFLT", ""},
    Name{SIGCHLD, "SIGCHLD", ""},
    Name{SIGCONT, "SIGCONT", ""},
    Name{SIGSTOP, "SIGSTOP", "stopped"},
    Name{SIGTSTP, "SIGTSTP", "stopped"},
    Name{SIGTTIN, "SIGTTIN", ""},
    Name{SIGTTOU, "SIGTTOU", ""},
    Name{SIGURG, "SIGURG", ""},
    Name{SIGXCPU, "SIGXCPU", "CPU time limit exceeded"},
    Name{SIGXFSZ, "SIGXFSZ", "file size limit exceeded"},
    Name{SIGVTALRM, "SIGVTALRM", ""},
    Name{SIGPROF, "SIGPROF", ""},
    Name{SIGWINCH, "SIGWINCH", ""},
    Name{SIGIO, "SIGIO", ""},
    Name{SIGPWR, "SIGPWR", ""},
    Name{SIGSYS, "SIGSYS", "bad system call"},
};

}  // namespace

std::string signal_name(int signal) {
  for (const auto& each : names) {
    if (each.signal == signal) return std::string(each.name);
  }
  return "signal " + std::to_string(signal);
}

std::string signal_meaning(int signal) {
  for (const auto& each : names) {
    if (each.signal == signal) return std::string(each.meaning);
  }
  return "";
}

bool asks_to_end(int signal) {
  constexpr std::array others = {SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT, SIGURG, SIGIO};
  return std::find(others.begin(), others.end(), signal) == others.end();
}

std::optional<int> signal_number(std::string_view name) {
  for (const auto& each : names) {
    if (each.name == name || each.name.substr(3) == name) return each.signal;
  }
  return std::nullopt;
}

}  // namespace cpprun

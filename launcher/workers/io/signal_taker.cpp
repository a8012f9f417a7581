// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/io/signal_taker.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>

namespace cpprun::io {

namespace {

// Signal 1 is the lowest bit of the number behind that name; 0 where there is none.
std::uint64_t mask_of(std::string_view status, std::string_view name) {
  const auto at = status.find(name);
  if (at == std::string_view::npos) return 0;
  std::string_view text = status.substr(at + name.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::uint64_t mask = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), mask, 16);  // else it stays 0
  return mask;
}

}  // namespace

bool takes_signal(int pid, int signal) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  const std::string status{std::istreambuf_iterator<char>(file), {}};
  return takes_signal_by(status, signal);
}

bool takes_signal_by(std::string_view status, int signal) {
  // Nobody ends of these, handler or not.
  for (const int harmless : {SIGWINCH, SIGCONT, SIGURG, SIGCHLD}) {
    if (signal == harmless) return true;
  }
  const std::uint64_t bit = std::uint64_t{1} << (signal - 1);
  for (const std::string_view name : {"\nSigCgt:", "\nSigIgn:", "\nSigBlk:"}) {
    if ((mask_of(status, name) & bit) != 0) return true;
  }
  return false;
}

}  // namespace cpprun::io

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/io/signals.h"

#include <fmt/format.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include "launcher/workers/io/process_tree.h"
#include "proto/signal_names.h"

namespace cpprun::io {

namespace {

constexpr std::size_t name_bytes_max = 64;

bool ignored_since_before(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// Includes the sender's name if it still runs.
SignalSender sender_of(const signalfd_siginfo& info) {
  if (info.ssi_code > 0) return {.is_kernel = true};
  SignalSender sender{.pid = static_cast<int>(info.ssi_pid)};
  if (sender.pid == 0) return sender;
  auto name = read_proc("/proc/" + std::to_string(sender.pid) + "/comm", name_bytes_max);
  if (!name) return sender;
  name->erase(name->find_last_not_of('\n') + 1);
  sender.name = *std::move(name);
  return sender;
}

}  // namespace

// The signals are blocked and read from a signalfd, because only there does the kernel report the
// sender. Workers are started with no signal blocked.
Signals::Signals(asio::io_context& context, const std::vector<int>& signals,
                 std::function<void(int, const SignalSender&)> on_signal)
    : arrivals_(context), on_signal_(std::move(on_signal)) {
  ::sigemptyset(&handled_);
  for (const int signal : signals) {
    // Respect nohup. torchrun would end the job with the terminal all the same.
    const bool may_stay_ignored = signal == SIGHUP || !asks_to_end(signal);
    if (may_stay_ignored && ignored_since_before(signal)) continue;
    const bool refused =
        signal == SIGKILL || signal == SIGSTOP || ::sigaddset(&handled_, signal) != 0;
    if (refused) not_handled_.push_back(signal_name(signal));
  }
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &handled_, &before);
  ::sigemptyset(&blocked_);
  for (const int signal : signals) {
    const bool is_new =
        ::sigismember(&handled_, signal) == 1 && ::sigismember(&before, signal) == 0;
    if (is_new) ::sigaddset(&blocked_, signal);
  }
  const int descriptor = ::signalfd(-1, &handled_, SFD_NONBLOCK | SFD_CLOEXEC);
  if (descriptor < 0) throw std::system_error(errno, std::generic_category(), "signalfd");
  arrivals_.assign(descriptor);
  wait();
}

Signals::~Signals() {
  ::sigprocmask(SIG_UNBLOCK, &blocked_, nullptr);
}

void Signals::wait() {
  arrivals_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [this](const asio::error_code& error) {
                         if (error || !arrivals_.is_open()) return;
                         take();
                       });
}

void Signals::take() {
  signalfd_siginfo info{};
  const auto got = ::read(arrivals_.native_handle(), &info, sizeof info);
  wait();
  if (got != static_cast<ssize_t>(sizeof info)) return;
  on_signal_(static_cast<int>(info.ssi_signo), sender_of(info));
}

namespace {

// The mask after that name, where signal 1 is the lowest bit. 0 if there is none.
std::uint64_t mask_of(std::string_view status, std::string_view name) {
  const auto at = status.find(name);
  if (at == std::string_view::npos) return 0;
  std::string_view text = status.substr(at + name.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::uint64_t mask = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), mask, 16);  // stays 0 on error
  return mask;
}

}  // namespace

bool takes_signal(int pid, int signal) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  const std::string status{std::istreambuf_iterator<char>(file), {}};
  return takes_signal_by(status, signal);
}

bool takes_signal_by(std::string_view status, int signal) {
  // These terminate no process, with or without a handler.
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

// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/thread_stacks.h"

#include <dirent.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <utility>
#include <vector>

#include "proto/bounds.h"
#include "proto/text.h"
#include "worker/env/io/fatal_signals.h"

namespace cpprun {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t threads_max = 64;
constexpr std::chrono::milliseconds thread_timeout{100};
constexpr std::chrono::milliseconds total_timeout{500};

// Shared with the signal handler. A handler takes a request by swapping its thread's id for 0, so a
// handler that runs too late finds none.
struct Request {
  std::atomic<pid_t> wanted{0};
  std::atomic<int> count{-1};  // of the frames, once they are stored
  std::array<void*, bounds::worker_backtrace_frames_max> frames{};
};
Request request;
static_assert(std::atomic<pid_t>::is_always_lock_free);

void on_request(int) {
  const int error = errno;
  auto self = static_cast<pid_t>(::syscall(SYS_gettid));
  if (request.wanted.compare_exchange_strong(self, 0)) {
    request.count = ::backtrace(request.frames.data(), static_cast<int>(request.frames.size()));
  }
  errno = error;
}

// A real-time signal that nothing else uses, with our handler; 0: there is none. It stays
// installed: a late signal must not end the process.
int install_handler() {
  for (int number = SIGRTMAX - 1; number > SIGRTMIN; --number) {
    struct sigaction present {};
    if (::sigaction(number, nullptr, &present) != 0 || present.sa_handler != SIG_DFL) continue;
    struct sigaction ours {};
    ours.sa_handler = &on_request;
    ours.sa_flags = SA_RESTART | SA_ONSTACK;
    sigfillset(&ours.sa_mask);
    if (::sigaction(number, &ours, nullptr) == 0) return number;
  }
  return 0;
}

struct Thread {
  pid_t tid = 0;
  std::string name = {};
  bool blocks = false;  // the signal
};

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool blocks_signal(pid_t tid, int number) {
  std::ifstream status(fmt::format("/proc/self/task/{}/status", tid));
  constexpr std::string_view field = "SigBlk:\t";
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(field)) continue;
    const auto mask = hex_number<std::uint64_t>(std::string_view(line).substr(field.size()));
    return mask && (*mask >> static_cast<unsigned>(number - 1) & 1U) != 0;
  }
  return true;
}

// At most threads_max, the main thread first.
std::vector<Thread> threads_but(std::string_view left_out, int signal) {
  std::vector<Thread> threads;
  DIR* const open = ::opendir("/proc/self/task");
  if (open == nullptr) return threads;
  while (const dirent* entry = ::readdir(open)) {
    const auto tid = exact_number<pid_t>(entry->d_name);
    if (!tid) continue;
    Thread thread{.tid = *tid};
    thread.name = first_line(fmt::format("/proc/self/task/{}/comm", *tid));
    if (!left_out.empty() && thread.name == left_out) continue;
    if (thread.tid == ::getpid()) thread.name = "main";
    thread.blocks = blocks_signal(thread.tid, signal);
    threads.push_back(std::move(thread));
    if (threads.size() == threads_max) break;
  }
  ::closedir(open);
  std::stable_partition(threads.begin(), threads.end(),
                        [](const Thread& thread) { return thread.tid == ::getpid(); });
  return threads;
}

// Waits until the condition holds; false after the timeout.
template <typename Condition>
bool await(const Condition& holds) {
  const auto deadline = Clock::now() + thread_timeout;
  while (!holds()) {
    if (Clock::now() >= deadline) return false;
    const std::timespec pause{0, 100'000};
    ::nanosleep(&pause, nullptr);
  }
  return true;
}

// The number of frames stored, or negative with a reason in `reason`.
int request_frames(const Thread& thread, int signal, std::string& reason) {
  if (signal == 0) return reason = "no real-time signal is unused", -1;
  if (thread.blocks) return reason = "blocks signals", -1;
  // A handler that took the last request and never came back still owns the frames.
  if (request.count == -2) return reason = "the handler of another thread has not returned", -1;
  struct sigaction present {};
  if (::sigaction(signal, nullptr, &present) != 0 || present.sa_handler != &on_request) {
    return reason = "another handler has replaced ours", -1;
  }
  request.count = -1;
  request.wanted = thread.tid;
  const auto has_answered = [] { return request.count >= 0; };
  if (::syscall(SYS_tgkill, ::getpid(), thread.tid, signal) != 0) {
    request.wanted = 0;
    return reason = "has ended", -1;
  }
  if (await(has_answered)) return request.count;
  if (request.wanted.exchange(0) != 0) return reason = "did not react", -1;
  if (await(has_answered)) return request.count;
  request.count = -2;
  return reason = "its handler has not returned", -1;
}

}  // namespace

std::string native_traceback(std::string_view left_out) {
  static const int signal = install_handler();
  const auto deadline = Clock::now() + total_timeout;
  std::string text;
  std::string main_text;  // printed last, but read first, as it matters most
  for (const Thread& thread : threads_but(left_out, signal)) {
    std::string reason = "no time was left";
    const int count = Clock::now() < deadline ? request_frames(thread, signal, reason) : -1;
    std::string one =
        fmt::format("Thread {:#018x} [{}] (most recent call first):\n", thread.tid, thread.name);
    // The first two are the handler, and the function to which it returns.
    constexpr int skipped = 2;
    for (int i = skipped; i < count; ++i) {
      one += traceback_line(request.frames[static_cast<std::size_t>(i)]);
    }
    if (count <= skipped) one += fmt::format("  <no frames: {}>\n", reason);
    (thread.tid == ::getpid() ? main_text : text) += one + '\n';
  }
  return "native\n" + text + main_text;
}

}  // namespace cpprun

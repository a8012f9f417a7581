// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/fatal_signals.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string_view>

#include "proto/bounds.h"
#include "worker/env/bounds.h"
#include "worker/env/io/error_report.h"

namespace cpprun {

namespace {

using Frames = std::array<void*, bounds::worker_backtrace_frames_max>;

struct CodeLocation {
  const char* function = nullptr;  // null if no symbol is known
  const char* object = nullptr;
  std::uintptr_t offset = 0;  // from the function, or from the object
};

// A return address may already belong to the next function; one byte before it is the call.
CodeLocation location_of(void* frame) noexcept {
  Dl_info info{};
  void* const call = static_cast<char*>(frame) - 1;
  if (::dladdr(call, &info) == 0 || info.dli_fname == nullptr) return {};
  const char* const slash = std::strrchr(info.dli_fname, '/');
  void* const base = info.dli_sname != nullptr ? info.dli_saddr : info.dli_fbase;
  return {
      .function = info.dli_sname,
      .object = slash != nullptr ? slash + 1 : info.dli_fname,
      .offset = static_cast<std::uintptr_t>(static_cast<char*>(frame) - static_cast<char*>(base))};
}

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 && readable ? readable.get() : name;
}

std::string line_of(std::size_t number, void* frame) {
  const CodeLocation place = location_of(frame);
  if (place.object == nullptr) return fmt::format("#{} {}\n", number, frame);
  if (place.function == nullptr) {
    return fmt::format("#{} {}+{:#x}\n", number, place.object, place.offset);
  }
  return fmt::format("#{} {} ({}+{:#x})\n", number, demangled(place.function), place.object,
                     place.offset);
}

// Skips the frames between the throw and this function: the path through std::terminate.
std::size_t first_of_interest(const Frames& frames, std::size_t count) {
  constexpr std::size_t searched_max = 16;
  std::size_t first = 0;
  for (std::size_t i = 0; i < std::min(count, searched_max); ++i) {
    const char* const function = location_of(frames[i]).function;
    if (function == nullptr) continue;
    const std::string_view name(function);
    // std::terminate() is _ZSt9terminatev.
    if (name == "__cxa_throw" || name == "__cxa_rethrow" || name == "_ZSt9terminatev") {
      first = i + 1;
    }
  }
  return first;
}

}  // namespace

std::string backtrace_of_throw() {
  Frames frames{};
  const auto count = static_cast<std::size_t>(
      std::max(0, ::backtrace(frames.data(), static_cast<int>(frames.size()))));
  const std::size_t first = first_of_interest(frames, count);
  std::string text;
  for (std::size_t i = first; i < count; ++i) text += line_of(i - first, frames[i]);
  if (text.size() > bounds::worker_backtrace_bytes_max) {
    text.resize(bounds::worker_backtrace_bytes_max);
  }
  return text;
}

std::string traceback_line(void* frame) {
  const CodeLocation place = location_of(frame);
  if (place.function != nullptr) {
    return fmt::format("  File \"{}\", line 0 in {}\n", place.object, demangled(place.function));
  }
  if (place.object == nullptr) return fmt::format("  File \"{}\", line 0 in ?\n", frame);
  return fmt::format("  File \"{}+{:#x}\", line 0 in ?\n", place.object, place.offset);
}

void prepare_backtrace() {
  std::array<void*, 1> frame{};
  static_cast<void>(::backtrace(frame.data(), 1));
}

std::size_t backtrace_in_signal(char* text, std::size_t size) noexcept {
  // Static, because a handler's stack may be small.
  static Frames frames;
  const int count = ::backtrace(frames.data(), static_cast<int>(frames.size()));
  FixedText lines(text, size);
  for (int i = 0; i < count; ++i) {
    const CodeLocation place = location_of(frames[static_cast<std::size_t>(i)]);
    lines.text("#").number(static_cast<std::uintmax_t>(i)).text(" ");
    lines.text(place.function != nullptr ? place.function : "?").text(" (");
    lines.text(place.object != nullptr ? place.object : "?").text("+0x");
    lines.number(place.offset, 16).text(")\n");
  }
  return lines.size();
}

namespace {

// A handler must not allocate or lock, so everything it needs is prepared here.
struct Prepared {
  std::array<char, PATH_MAX> path{};
  std::array<char, PATH_MAX> temporary_path{};
  std::array<char, 32> prefix{};
};
Prepared prepared;

// The handler's own stack, needed when the ordinary stack has overflowed.
alignas(16) std::array<char, 64 * 1024> alternate_stack;

// SIGALRM ends a handler that hangs (on a lock of the loader that the dying thread holds).
constexpr unsigned handling_seconds_max = 20;

const char* signal_name(int number) noexcept {
  switch (number) {
    case SIGSEGV:
      return "SIGSEGV";
    case SIGBUS:
      return "SIGBUS";
    case SIGFPE:
      return "SIGFPE";
    case SIGILL:
      return "SIGILL";
    case SIGABRT:
      return "SIGABRT";
    default:
      return "signal";
  }
}

void describe_death(FixedText& out, int number) noexcept {
  out.text("Signal ").number(static_cast<std::uintmax_t>(number));
  out.text(" (").text(signal_name(number)).text(") received by PID ");
  out.number(static_cast<std::uintmax_t>(::getpid()));
}

// The first thread that died; 0 if none has.
std::atomic<pid_t> dying{0};
static_assert(std::atomic<pid_t>::is_always_lock_free);
std::array<char, bounds::worker_backtrace_bytes_max> trace;

// Returns the length of the back-trace in `trace`. If reading a broken stack is fatal too, the
// handler runs again and skips the back-trace.
std::size_t trace_once() {
  const auto self = static_cast<pid_t>(::syscall(SYS_gettid));
  pid_t no_thread = 0;
  if (dying.compare_exchange_strong(no_thread, self)) {
    return backtrace_in_signal(trace.data(), trace.size());
  }
  // Another thread is already dying and will end the process in a moment.
  while (dying != self) ::pause();
  return 0;
}

void write_report(int number, std::size_t trace_bytes) {
  // Static, because the handler's stack is small. Every byte may need a backslash.
  static std::array<char, 2 * bounds::worker_backtrace_bytes_max + 1024> room;
  constexpr std::size_t tail_bytes = 256;
  FixedText json(room.data(), room.size());
  json.text("{\"message\": {\"message\": \"");
  describe_death(json, number);
  json.text("\", \"extraInfo\": {\"py_callstack\": \"")
      .quoted(trace.data(), trace_bytes, tail_bytes);
  json.text("\", \"timestamp\": \"").number(static_cast<std::uintmax_t>(::time(nullptr)));
  json.text("\"}}}");
  write_error_file_in_signal(prepared.path.data(), prepared.temporary_path.data(), json.data(),
                             json.size());
}

void on_fatal_signal(int number) {
  ::signal(SIGALRM, SIG_DFL);
  ::alarm(handling_seconds_max);
  const std::size_t trace_bytes = trace_once();
  std::array<char, 128> bytes{};
  FixedText line(bytes.data(), bytes.size());
  line.text(prepared.prefix.data());
  describe_death(line, number);
  line.text("\n");
  static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
  if (prepared.path[0] != '\0') {
    write_report(number, trace_bytes);
  } else {
    // Without an error file, print the back-trace.
    static_cast<void>(!::write(STDERR_FILENO, trace.data(), trace_bytes));
  }
  // SA_NODEFER delivers the signal at once, with its default action.
  ::signal(number, SIG_DFL);
  ::raise(number);
}

template <std::size_t N>
bool fill(std::array<char, N>& field, const std::string& text) {
  if (text.size() >= field.size()) return false;
  std::memcpy(field.data(), text.c_str(), text.size() + 1);
  return true;
}

}  // namespace

void name_rank_in_signals(int rank) {
  static_cast<void>(fill(prepared.prefix, fmt::format("rank {}: ", rank)));
}

void install_fatal_signal_handlers(const std::string& error_file, int rank) {
  if (!error_file.empty()) {
    // The kernel would reject a longer path: write no file, only the line on stderr.
    const bool fits =
        fill(prepared.temporary_path, fmt::format("{}.{}.signal.tmp", error_file, ::getpid())) &&
        fill(prepared.path, error_file);
    if (!fits) prepared.path[0] = '\0';
  }
  prepare_backtrace();
  name_rank_in_signals(rank);
  stack_t stack{};
  stack.ss_sp = alternate_stack.data();
  stack.ss_size = alternate_stack.size();
  // If this fails, only stack overflows go unrecorded.
  static_cast<void>(::sigaltstack(&stack, nullptr));
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    struct sigaction present {};
    if (::sigaction(number, nullptr, &present) != 0 || present.sa_handler != SIG_DFL) continue;
    struct sigaction ours {};
    ours.sa_handler = &on_fatal_signal;
    ours.sa_flags = SA_NODEFER | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    static_cast<void>(::sigaction(number, &ours, nullptr));
  }
}

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/worker.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cassert>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <utility>

#include "proto/worker_contract.h"
#include "worker/env/io/environment.h"
#include "worker/env/io/error_report.h"
#include "worker/env/io/fatal_signals.h"
#include "worker/env/io/probe_server.h"
#include "worker/env/io/round_client.h"

namespace cpprun {

namespace {

// Global, because a terminate handler takes no argument.
Context& handler_context() {
  // Never destroyed: a thread may still terminate during process exit.
  static Context* const context = std::make_unique<Context>().release();
  return *context;
}

// A report to a dead file server must not keep a failed worker alive.
constexpr unsigned ending_seconds_max = 20;

// Earlier output explains the error. Does not wait for the lock: the thread that holds it may be
// stuck forever.
void flush_without_waiting(std::FILE* stream) {
  if (::ftrylockfile(stream) != 0) return;
  ::fflush_unlocked(stream);
  ::funlockfile(stream);
}

void print(const Context& context, const ErrorReport& report, bool stack = true) {
  std::string lines = fmt::format("rank {}: {}\n", context.rank.value, report.message);
  // With an error file the launcher shows the stack; the shared terminal stays short.
  const bool shown = stack && context.error_file.empty() && !report.callstack.empty();
  if (shown) lines += report.callstack + '\n';
  // One write, so that lines of several ranks do not mix on one terminal.
  static_cast<void>(!::write(STDERR_FILENO, lines.data(), lines.size()));
}

// The first line of `text`, in one write.
void print_line(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n')) + '\n';
  static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
}

// A usage error: the user needs the message, not the place in the library that detected it. The
// error file still has that stack.
bool is_about_usage(const std::exception_ptr& error) {
  if (!error) return false;
  try {
    std::rethrow_exception(error);
  } catch (const std::invalid_argument&) {
    return true;
  } catch (...) {
    return false;
  }
}

[[noreturn]] void on_terminate() {
  end_with_error(handler_context(), std::current_exception());
}

// What a worker does before its body. Exits with code 2 if the environment is invalid.
Context start(const Environment& environment) {
  Result<Context> context = parse_context(environment);
  if (!context) {
    // Even without a rank, the worker knows the launcher's error file.
    Context unknown;
    if (const auto file = environment.find(std::string(contract::error_file));
        file != environment.end()) {
      unknown.error_file = file->second;
    }
    constexpr int usage_exit_code = 2;
    end_with_error(unknown, std::make_exception_ptr(std::invalid_argument(context.error().reason)),
                   usage_exit_code);
  }
  install_error_handlers(*context);
  if (const auto* socket = find_variable(environment, contract::probe_socket)) {
    start_probe_server(*socket);
  }
  return *context;
}

}  // namespace

namespace {

// `is_thrown_below`: the stack of the throw is still below this function.
[[noreturn]] void end(const Context& context, const std::exception_ptr& error, int exit_code,
                      bool is_thrown_below) noexcept {
  static std::atomic_flag is_ending = ATOMIC_FLAG_INIT;
  // Another thread is already reporting the first error and will end the process in a moment.
  while (is_ending.test_and_set()) ::pause();
  std::signal(SIGALRM, SIG_DFL);
  ::alarm(ending_seconds_max);
  flush_without_waiting(stdout);
  ErrorReport report = describe(error, std::time(nullptr));
  // LibTorch's errors have their own stack, from where they were created.
  if (report.callstack.empty() && is_thrown_below) report.callstack = backtrace_of_throw();
  print(context, report, !is_about_usage(error));
  if (!context.error_file.empty()) {
    const auto written = write_error_file(context.error_file, to_json(report));
    if (!written) {
      print(context, {.message = written.error().reason, .callstack = {}, .unix_seconds = 0});
    }
  }
  flush_without_waiting(stderr);
  ::_exit(exit_code);
}

}  // namespace

inline namespace v1 {

void end_with_error(const Context& context, const std::exception_ptr& error,
                    int exit_code) noexcept {
  end(context, error, exit_code, /*is_thrown_below=*/true);
}

void install_error_handlers(const Context& context) {
  handler_context() = context;
  std::set_terminate(&on_terminate);
  install_fatal_signal_handlers(context.error_file, context.rank.value);
}

void name_rank_in_errors(int rank) {
  handler_context().rank = Rank{rank};
  name_rank_in_signals(rank);
}

Context read_context() {
  Result<Context> context = parse_context(read_environment());
  if (!context) throw std::invalid_argument(context.error().reason);
  return *context;
}

int run(const WorkerMain& body) {
  // No catch here: an uncaught exception calls std::terminate where it was thrown, so the report
  // shows that stack.
  return body(start(read_environment()));
}

int run_restartable(const WorkerMain& body, std::chrono::milliseconds broken_wait) {
  Environment environment = read_environment();
  Context context = start(environment);
  const auto* const path = find_variable(environment, contract::round_socket);
  if (path == nullptr) return body(context);
  RoundClient rounds(*path, context.local_rank);
  for (;;) {
    RoundClient::Place place = rounds.await_place();
    place.variables.merge(environment);
    environment = std::move(place.variables);
    Result<Context> here = parse_context(environment);
    if (!here) throw std::runtime_error(here.error().reason);
    context = *here;
    name_rank_in_errors(context.rank.value);
    try {
      return body(context);
    } catch (const std::exception& error) {
      if (!rounds.await_broken(broken_wait)) {
        end(context, std::current_exception(), 1, /*is_thrown_below=*/false);
      }
      print_line(fmt::format("rank {} leaves the broken round {}: {}", context.rank.value,
                             place.round, error.what()));
    }
  }
}

}  // namespace v1

namespace {

// Global, because signal handlers take no argument.
std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);
struct sigaction previous_action {};
bool installed = false;

void on_stop(int) {
  stop_requested.store(true, std::memory_order_relaxed);
}

}  // namespace

StopSignal::StopSignal() {
  assert(!installed);
  stop_requested = false;
  struct sigaction ours {};
  ours.sa_handler = &on_stop;
  // A library that does not expect EINTR must not fail because of a stop request.
  ours.sa_flags = SA_RESTART;
  sigemptyset(&ours.sa_mask);
  installed = ::sigaction(SIGTERM, &ours, &previous_action) == 0;
}

StopSignal::~StopSignal() {
  if (installed) static_cast<void>(::sigaction(SIGTERM, &previous_action, nullptr));
  installed = false;
}

bool StopSignal::requested() const {
  return stop_requested.load(std::memory_order_relaxed);
}

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// All that a worker needs from cpprun without LibTorch: its ranks and meeting point (Context),
// error reports (run), rounds (run_restartable), heartbeats (Heartbeat), and SIGTERM as a flag
// (StopSignal). A public header.
//
//   int main() {
//     return cpprun::run([](const cpprun::Context& context) {
//       cpprun::Heartbeat heartbeat(context);
//       for (…) { …; heartbeat.beat(); }
//       return 0;
//     });
//   }

#include <chrono>
#include <exception>
#include <functional>

#include "worker/env/context.h"
#include "worker/env/io/heartbeat.h"

namespace cpprun::inline v1 {

// run() and what follows it are the C++ counterpart of torchrun's @record. An error that ends a
// worker (an exception, a std::terminate on any thread, a fatal signal) is printed on stderr and
// written to the launcher's error file. The process then ends at once, because its peers would only
// wait for it.

using WorkerMain = std::function<int(const Context&)>;

// A whole main() is `return cpprun::run([&](const cpprun::Context& context) { …; return 0; });`.
// Returns the result of `body`. On an error it does not return: the process exits with code 1
// without unwinding, and the report has the stack of the throw. (A `try` around run() would catch
// the exception first.) If the environment is invalid, it exits with code 2 and does not call
// `body`.
int run(const WorkerMain& body);

// Like run(), for a worker that survives the loss of others (cpprun --on-failure=reconfigure): it
// calls `body` once for each round, with the ranks of that round, until `body` returns.
//
//   Training training;  // outlives the rounds
//   return cpprun::run_restartable([&](const cpprun::Context& context) {
//     const auto group = cpprun::init_process_group(context);
//     training.train(group);
//     return 0;
//   });
//
// When another worker is lost, the connections of the process group are closed, so its collectives
// throw. After an exception, waits up to `broken_wait` until cpprun reports that the round is
// broken. Then `body` is called again for the next round. Otherwise the error is this worker's own
// and is reported as by run(), without the stack of the throw. Without that flag, calls `body`
// once.
//
// `body` must create everything that depends on ranks: process groups, DistributedDataParallel,
// samplers. The environment keeps the variables of the round in which the process was started.
int run_restartable(const WorkerMain& body,
                    std::chrono::milliseconds broken_wait = std::chrono::seconds(60));

// The context from this process's environment, for programs with their own main(). Throws
// std::invalid_argument with all errors, each with the variable, its value and what is valid.
Context read_context();

// For programs with their own main(): from now on, std::terminate and fatal signals leave a report.
// Copies `context`.
void install_error_handlers(const Context& context);

// Sets the rank in error messages, for programs that learn it after reading the environment, as
// from tcp://host:port?rank=3. Does nothing without install_error_handlers().
void name_rank_in_errors(int rank);

// Reports `error` and exits with `exit_code`. Runs no destructors: one may wait for peers that
// never answer.
[[noreturn]] void end_with_error(const Context& context, const std::exception_ptr& error,
                                 int exit_code = 1) noexcept;

// While an object exists, SIGTERM sets a flag and does not end the process. The training loop
// should check it once per step, agree on it with the other ranks, save, and exit. The launcher
// sends SIGKILL after its grace period. Only one object may exist at a time.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool requested() const;
};

}  // namespace cpprun::inline v1

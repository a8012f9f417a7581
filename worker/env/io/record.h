// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The C++ counterpart of torchrun's @record. An error that ends a worker — an exception, a
// std::terminate on some library's thread, a fatal signal — is printed on stderr and written to the
// launcher's error file. The process then ends at once, because its peers would wait for it in
// vain. A public header.

#include <exception>
#include <functional>

#include "worker/env/context.h"

namespace cpprun::inline v1 {

using WorkerMain = std::function<int(const Context&)>;

// `return cpprun::run([&](const cpprun::Context& context) { …; return 0; });` is all of a main().
// Returns what `body` returns. An error does not return: the process ends with exit code 1, without
// unwinding, and the report has the stack from where the exception was thrown. (A `try` around
// run() would catch it first.) If the environment makes no sense, it ends with 2 before `body` is
// called.
int run(const WorkerMain& body);

// The context in this process's environment, for programs with a main of their own. Throws
// std::invalid_argument that lists every mistake, each with the variable, its value and what would
// be right.
Context read_context();

// For programs with a main of their own: from here on std::terminate and fatal signals leave a
// report. `context` is copied.
void install_error_handlers(const Context& context);

// The rank with which error messages begin from here on, for programs that learn it only after
// reading the environment, as from tcp://host:port?rank=3. Does nothing without handlers.
void name_rank_in_errors(int rank);

// Reports `error` and ends the process with `exit_code`. Destructors do not run: one of them may
// wait for peers that will never answer.
[[noreturn]] void end_with_error(const Context& context, const std::exception_ptr& error,
                                 int exit_code = 1) noexcept;

}  // namespace cpprun::inline v1

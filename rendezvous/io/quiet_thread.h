// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Threads of a library inside another program: they receive none of its signals, which its own
// threads handle, except those of a fault in the thread itself.

#include <pthread.h>
#include <signal.h>

#include <functional>
#include <memory>
#include <utility>

namespace cpprun {

// Returns an errno, or 0. `started` receives the thread, which must be joined or detached; null: it
// is detached. The body must not throw. While it runs, only its thread's stack refers to it.
inline int start_quiet_thread(std::function<void()> body, pthread_t* started = nullptr) {
  auto given = std::make_unique<std::function<void()>>(std::move(body));
  // A new thread inherits the signal mask of its creator.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
    sigdelset(&all, fault);
  }
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const int error = pthread_create(
      &thread, nullptr,
      [](void* passed) -> void* {
        auto* const taken = static_cast<std::function<void()>*>(passed);
        const std::function<void()> own = std::move(*taken);
        delete taken;
        own();
        return nullptr;
      },
      given.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) return error;
  (void)given.release();  // owned by the thread
  if (started == nullptr) {
    pthread_detach(thread);
  } else {
    *started = thread;
  }
  return 0;
}

}  // namespace cpprun

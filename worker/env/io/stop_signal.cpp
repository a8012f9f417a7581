// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/stop_signal.h"

#include <atomic>
#include <cassert>
#include <csignal>

namespace cpprun {
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

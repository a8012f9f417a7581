// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/io/signals.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <csignal>

namespace signal_taker_test {

using namespace cpprun::io;

TEST_CASE("a process takes a signal that it catches, ignores or waits for") {
  CHECK(takes_signal_by("Name:\tx\nSigCgt:\t0000000000000200\n", SIGUSR1));
  CHECK(takes_signal_by("Name:\tx\nSigIgn:\t0000000000000200\n", SIGUSR1));
  CHECK(takes_signal_by("Name:\tx\nSigBlk:\t0000000000000200\n", SIGUSR1));
  CHECK_FALSE(takes_signal_by("Name:\tx\nSigCgt:\t0000000000000100\nSigIgn:\t0\n", SIGUSR1));
  CHECK_FALSE(takes_signal_by("Name:\tx\nSigPnd:\t0000000000000200\n", SIGUSR1));
  CHECK_FALSE(takes_signal_by("", SIGUSR1));
}

TEST_CASE("every process takes a signal that the kernel ignores by default") {
  CHECK(takes_signal_by("", SIGWINCH));
  CHECK(takes_signal_by("", SIGCONT));
}

TEST_CASE("this process takes a signal once it has a handler") {
  CHECK_FALSE(takes_signal(::getpid(), SIGUSR2));
  const auto before = std::signal(SIGUSR2, [](int) {});
  CHECK(takes_signal(::getpid(), SIGUSR2));
  std::signal(SIGUSR2, before);
}

}  // namespace signal_taker_test

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/io/signals.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <csignal>

namespace signal_taker_test {

using namespace cpprun::io;

TEST_CASE("a signal is taken that is caught, ignored or waited for") {
  CHECK(takes_signal_by("Name:\tx\nSigCgt:\t0000000000000200\n", SIGUSR1));
  CHECK(takes_signal_by("Name:\tx\nSigIgn:\t0000000000000200\n", SIGUSR1));
  CHECK(takes_signal_by("Name:\tx\nSigBlk:\t0000000000000200\n", SIGUSR1));
  CHECK_FALSE(takes_signal_by("Name:\tx\nSigCgt:\t0000000000000100\nSigIgn:\t0\n", SIGUSR1));
  CHECK_FALSE(takes_signal_by("Name:\tx\nSigPnd:\t0000000000000200\n", SIGUSR1));
  CHECK_FALSE(takes_signal_by("", SIGUSR1));
}

TEST_CASE("nobody ends of a signal that the kernel ignores by itself") {
  CHECK(takes_signal_by("", SIGWINCH));
  CHECK(takes_signal_by("", SIGCONT));
}

TEST_CASE("this very process takes a signal from when it has a handler") {
  CHECK_FALSE(takes_signal(::getpid(), SIGUSR2));
  const auto before = std::signal(SIGUSR2, [](int) {});
  CHECK(takes_signal(::getpid(), SIGUSR2));
  std::signal(SIGUSR2, before);
}

}  // namespace signal_taker_test

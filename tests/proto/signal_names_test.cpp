// SPDX-License-Identifier: BSD-3-Clause
#include "proto/signal_names.h"

#include <doctest/doctest.h>

#include <csignal>

namespace signal_names_test {

using namespace cpprun;

TEST_CASE("signals are found by either name") {
  CHECK(signal_number("SIGTERM") == SIGTERM);
  CHECK(signal_number("TERM") == SIGTERM);
  CHECK(signal_number("SIGNOPE") == std::nullopt);
  CHECK(signal_number("SIG") == std::nullopt);
}

TEST_CASE("a signal has a name and, if the name is unclear, a meaning") {
  CHECK(signal_name(SIGSEGV) == "SIGSEGV");
  CHECK(signal_meaning(SIGSEGV) == "segmentation fault");
  CHECK(signal_name(60) == "signal 60");
  CHECK(signal_meaning(60).empty());
}

TEST_CASE("signals that end a process are distinguished from notifications") {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGALRM}) CHECK(asks_to_end(signal));
  for (const int signal : {SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT}) CHECK_FALSE(asks_to_end(signal));
}

}  // namespace signal_names_test

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/io/signals.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "tests/launcher/io_probe.h"

namespace signals_test {

using namespace cpprun;

TEST_CASE("handled signals call the handler each time") {
  asio::io_context context;
  std::vector<int> seen;
  std::vector<SignalSender> senders;
  io::Signals signals(context, {SIGUSR1, SIGUSR2}, [&](int signal, const SignalSender& sender) {
    seen.push_back(signal);
    senders.push_back(sender);
  });
  CHECK(signals.not_handled().empty());
  std::raise(SIGUSR1);
  REQUIRE(probe::run_until(context, [&] { return seen.size() == 1; }));
  std::raise(SIGUSR2);
  REQUIRE(probe::run_until(context, [&] { return seen.size() == 2; }));
  CHECK(seen == std::vector<int>{SIGUSR1, SIGUSR2});
  CHECK(to_text(senders.front())
            .starts_with("pid " + std::to_string(::getpid()) + " (launcher_test"));
}

TEST_CASE("SIGHUP that was ignored at the start stays ignored, as nohup requires") {
  std::signal(SIGHUP, SIG_IGN);
  asio::io_context context;
  const io::Signals signals(context, {SIGHUP}, [](int, const SignalSender&) {});
  struct sigaction action {};
  ::sigaction(SIGHUP, nullptr, &action);
  CHECK((action.sa_handler == SIG_IGN));
  std::signal(SIGHUP, SIG_DFL);
}

TEST_CASE("a signal that cannot be handled is named") {
  asio::io_context context;
  const io::Signals signals(context, {SIGKILL, SIGUSR1}, [](int, const SignalSender&) {});
  CHECK(signals.not_handled() == std::vector<std::string>{"SIGKILL"});
}

}  // namespace signals_test

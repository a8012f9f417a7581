// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/io/disk_helper.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <vector>

#include "tests/launcher/io_probe.h"

namespace async_task_test {

using namespace cpprun;
using namespace std::chrono_literals;
using probe::run_until;

namespace {

using Answer = std::optional<std::string>;

}  // namespace

TEST_CASE("what answers is told as it was found, and what is asked meanwhile comes after it") {
  asio::io_context context;
  probe::Side side;
  io::AsyncTask async_task(context, side, 1h);
  std::vector<Answer> told;
  for (const std::string each : {"one", "", "three"}) {
    async_task.ask([each] { return each; },
                   [&told](const Answer& answer) { told.push_back(answer); });
  }
  REQUIRE(run_until(context, [&] { return told.size() == 3; }));
  CHECK(told == std::vector<Answer>{"one", "", "three"});
}

TEST_CASE("what does not answer is given up, and the next is asked all the same") {
  asio::io_context context;
  probe::Side side;
  std::vector<Answer> told;
  const auto hear = [&](const Answer& answer) { told.push_back(answer); };
  {
    io::AsyncTask async_task(context, side, 50ms);
    async_task.ask(
        [] {
          ::pause();
          return std::string("late");
        },
        hear);
    async_task.ask([] { return std::string("next"); }, hear);
    REQUIRE(run_until(context, [&] { return told.size() == 2; }));
    CHECK(told[0] == std::nullopt);
  }
  io::AsyncTask patient(context, side, 1h);
  patient.ask([] { return std::string("well"); }, hear);
  REQUIRE(run_until(context, [&] { return told.size() == 3; }));
  CHECK(told[2] == "well");
}

TEST_CASE("a request for a helper process never runs here, and its process ends with the task") {
  asio::io_context context;
  probe::Side side;
  std::vector<Answer> told;
  const auto hear = [&](const Answer& answer) { told.push_back(answer); };
  bool was_run = false;
  {
    io::AsyncTask async_task(context, side, 1h, /*only_in_helper=*/true);
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
    async_task.ask(
        [&] {
          was_run = true;
          return std::string();
        },
        hear);
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    REQUIRE(run_until(context, [&] { return told.size() == 1; }));
    CHECK(told[0] == std::nullopt);
    CHECK_FALSE(was_run);
    async_task.ask(
        [] {
          ::pause();
          return std::string();
        },
        hear);
    REQUIRE(side.pids().size() == 1);
  }
  siginfo_t end{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(side.pids().front()), &end, WEXITED | WNOWAIT) == 0);
  CHECK(end.si_status == SIGKILL);
}

TEST_CASE("whoever is told may ask again, and what was asked before comes first") {
  asio::io_context context;
  probe::Side side;
  io::AsyncTask async_task(context, side, 1h);
  std::string told;
  const auto hear = [&](const Answer& answer) { told += answer.value_or("?"); };
  async_task.ask([] { return std::string("1"); },
                 [&](const Answer& answer) {
                   hear(answer);
                   async_task.ask([] { return std::string("3"); }, hear);
                 });
  async_task.ask([] { return std::string("2"); }, hear);
  REQUIRE(run_until(context, [&] { return told.size() == 3; }));
  CHECK(told == "123");
}

TEST_CASE("what was known of a descriptor that is closed does not stand for an answer") {
  asio::io_context context;
  probe::Side side;
  io::AsyncTask async_task(context, side, 1h);
  // Two that can be read when the event loop looks: whichever it serves first closes the other and
  // asks, so that the news of the other is still on its way when the question's pipe is opened.
  struct Both {
    explicit Both(asio::io_context& io) : first(io), second(io) {
      int ends[2] = {-1, -1};
      for (auto* each : {&first, &second}) {
        REQUIRE(::pipe(ends) == 0);
        REQUIRE(::write(ends[1], "x", 1) == 1);
        ::close(ends[1]);
        each->assign(ends[0]);
      }
    }
    asio::posix::stream_descriptor first;
    asio::posix::stream_descriptor second;
  } both(context);
  bool told = false;
  bool told_early = false;
  const auto served = [&](asio::posix::stream_descriptor& other) {
    other.close();
    async_task.ask([] { return std::string("looked"); },
                   [&](const Answer& answer) {
                     told_early = answer != "looked";
                     told = true;
                   });
  };
  const auto readable = asio::posix::stream_descriptor::wait_read;
  both.first.async_wait(readable, [&](const asio::error_code& closed) {
    if (!closed) served(both.second);
  });
  both.second.async_wait(readable, [&](const asio::error_code& closed) {
    if (!closed) served(both.first);
  });
  REQUIRE(run_until(context, [&] { return told; }));
  CHECK_FALSE(told_early);
}

}  // namespace async_task_test

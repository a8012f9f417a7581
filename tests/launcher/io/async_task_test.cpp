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

TEST_CASE("answers arrive unchanged, in the order of the requests") {
  asio::io_context context;
  probe::Side side;
  io::AsyncTask async_task(context, side, 1h);
  std::vector<Answer> answers;
  for (const std::string each : {"one", "", "three"}) {
    async_task.ask([each] { return each; },
                   [&answers](const Answer& answer) { answers.push_back(answer); });
  }
  REQUIRE(run_until(context, [&] { return answers.size() == 3; }));
  CHECK(answers == std::vector<Answer>{"one", "", "three"});
}

TEST_CASE("a request without an answer times out, and the next one runs") {
  asio::io_context context;
  probe::Side side;
  std::vector<Answer> answers;
  const auto keep = [&](const Answer& answer) { answers.push_back(answer); };
  {
    io::AsyncTask async_task(context, side, 50ms);
    async_task.ask(
        [] {
          ::pause();
          return std::string("late");
        },
        keep);
    async_task.ask([] { return std::string("next"); }, keep);
    REQUIRE(run_until(context, [&] { return answers.size() == 2; }));
    CHECK(answers[0] == std::nullopt);
  }
  io::AsyncTask second(context, side, 1h);
  second.ask([] { return std::string("well"); }, keep);
  REQUIRE(run_until(context, [&] { return answers.size() == 3; }));
  CHECK(answers[2] == "well");
}

TEST_CASE("a request for a helper process never runs here, and its process ends with the task") {
  asio::io_context context;
  probe::Side side;
  std::vector<Answer> answers;
  const auto keep = [&](const Answer& answer) { answers.push_back(answer); };
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
        keep);
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    REQUIRE(run_until(context, [&] { return answers.size() == 1; }));
    CHECK(answers[0] == std::nullopt);
    CHECK_FALSE(was_run);
    async_task.ask(
        [] {
          ::pause();
          return std::string();
        },
        keep);
    REQUIRE(side.pids().size() == 1);
  }
  siginfo_t end{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(side.pids().front()), &end, WEXITED | WNOWAIT) == 0);
  CHECK(end.si_status == SIGKILL);
}

TEST_CASE("a callback may send a request, which comes after the pending ones") {
  asio::io_context context;
  probe::Side side;
  io::AsyncTask async_task(context, side, 1h);
  std::string answers;
  const auto keep = [&](const Answer& answer) { answers += answer.value_or("?"); };
  async_task.ask([] { return std::string("1"); },
                 [&](const Answer& answer) {
                   keep(answer);
                   async_task.ask([] { return std::string("3"); }, keep);
                 });
  async_task.ask([] { return std::string("2"); }, keep);
  REQUIRE(run_until(context, [&] { return answers.size() == 3; }));
  CHECK(answers == "123");
}

TEST_CASE("the state of a closed descriptor is not taken for an answer") {
  asio::io_context context;
  probe::Side side;
  io::AsyncTask async_task(context, side, 1h);
  // Two descriptors are readable when the event loop polls: the first that it serves closes the
  // other one and asks, so the event of the other is pending when the request's pipe is opened.
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
  bool answered = false;
  bool was_early = false;
  const auto served = [&](asio::posix::stream_descriptor& other) {
    other.close();
    async_task.ask([] { return std::string("looked"); },
                   [&](const Answer& answer) {
                     was_early = answer != "looked";
                     answered = true;
                   });
  };
  const auto readable = asio::posix::stream_descriptor::wait_read;
  both.first.async_wait(readable, [&](const asio::error_code& closed) {
    if (!closed) served(both.second);
  });
  both.second.async_wait(readable, [&](const asio::error_code& closed) {
    if (!closed) served(both.first);
  });
  REQUIRE(run_until(context, [&] { return answered; }));
  CHECK_FALSE(was_early);
}

}  // namespace async_task_test

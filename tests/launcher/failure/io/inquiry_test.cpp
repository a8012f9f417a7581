// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/failure/io/inquiry.h"

#include <doctest/doctest.h>
#include <unistd.h>
#include <asio/post.hpp>

#include <atomic>
#include <chrono>
#include <vector>

#include "tests/launcher/io_probe.h"

using namespace cpprun;
using namespace std::chrono_literals;
using probe::run_until;

TEST_CASE("what answers is told as it was found, and what is asked meanwhile comes after it") {
  asio::io_context context;
  io::Inquiry inquiry(context, 1h);
  std::vector<int> told;
  auto found = std::make_shared<std::vector<int>>();
  for (const int each : {1, 2, 3}) {
    inquiry.ask([found, each] { found->push_back(each); },
                [&told, found, each](bool in_time) {
                  CHECK(in_time);
                  told.push_back(each);
                });
  }
  REQUIRE(run_until(context, [&] { return told.size() == 3; }));
  CHECK(*found == std::vector<int>{1, 2, 3});
}

TEST_CASE("what does not answer is given up, and the next is asked all the same") {
  asio::io_context context;
  // Of the test's whole life: the thread that hangs may outlive everything else.
  static std::atomic<bool> thawed = false;
  std::vector<bool> in_time;
  {
    io::Inquiry inquiry(context, 50ms);
    inquiry.ask([] { thawed.wait(false); }, [&](bool answered) { in_time.push_back(answered); });
    REQUIRE(run_until(context, [&] { return in_time.size() == 1; }));
    CHECK_FALSE(in_time[0]);
  }
  io::Inquiry patient(context, 1h);
  patient.ask([] {}, [&](bool answered) { in_time.push_back(answered); });
  REQUIRE(run_until(context, [&] { return in_time.size() == 2; }));
  CHECK(in_time[1]);
  thawed = true;
  thawed.notify_all();
}

TEST_CASE("what was known of a descriptor that is closed does not stand for an answer") {
  asio::io_context context;
  io::Inquiry inquiry(context, 1h);
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
  const auto looked = std::make_shared<std::atomic<bool>>(false);
  const auto go = std::make_shared<std::atomic<bool>>(false);
  bool told = false;
  bool told_early = false;
  const auto served = [&](asio::posix::stream_descriptor& other) {
    other.close();
    inquiry.ask(
        [looked, go] {
          go->wait(false);
          *looked = true;
        },
        [&, looked](bool in_time) {
          CHECK(in_time);
          told_early = !*looked;
          told = true;
        });
    // After everything that the event loop has in hand.
    asio::post(context, [&context, go] {
      asio::post(context, [go] {
        *go = true;
        go->notify_all();
      });
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

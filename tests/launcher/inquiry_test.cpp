#include "launcher/io/inquiry.h"

#include <doctest/doctest.h>
#include <unistd.h>

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

// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/logging.h"

#include <doctest/doctest.h>

#include "rendezvous/bounds.h"

namespace log_limiter_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {
constexpr TimePoint start{1h};
}

TEST_CASE("similar lines are counted after the first few and summarised when the window ends") {
  LogLimiter limiter;
  int passed = 0;
  for (int at = 0; at < 100; ++at) {
    if (limiter.pass(start, "closed: unknown opcode " + std::to_string(at))) ++passed;
  }
  CHECK(passed == static_cast<int>(bounds::log_alike_max));
  REQUIRE(limiter.next_deadline() == start + bounds::log_window);
  CHECK(limiter.advance(start).empty());
  CHECK(limiter.advance(start + bounds::log_window) ==
        std::vector<std::string>{"95 more lines like: closed: unknown opcode 99"});
  CHECK_FALSE(limiter.next_deadline());
}

TEST_CASE("different lines do not suppress each other") {
  LogLimiter limiter;
  for (int at = 0; at < 10; ++at) limiter.pass(start, "one");
  CHECK(limiter.pass(start, "another"));
}

TEST_CASE("no line passes while the reader is behind, and each is counted") {
  LogLimiter limiter;
  CHECK(limiter.pass(start, "line 1"));
  CHECK_FALSE(limiter.pass(start, "line 2", true));
  CHECK_FALSE(limiter.pass(start, "other", true));
  CHECK(limiter.pass(start, "line 3"));
  CHECK(limiter.advance(start + bounds::log_window) ==
        std::vector<std::string>{"1 more line like: line 2", "1 more line like: other"});
}

TEST_CASE("a window without suppressed lines makes room for a new one") {
  LogLimiter limiter;
  for (std::size_t at = 0; at < bounds::log_alike_max; ++at) CHECK(limiter.pass(start, "line"));
  CHECK(limiter.pass(start + bounds::log_window, "line"));
}

TEST_CASE("an unlimited number of kinds shares one window") {
  LogLimiter limiter;
  std::string kind;
  std::size_t passed = 0;
  for (int at = 0; at < 1000; ++at) {
    kind += 'x';
    if (limiter.pass(start, kind)) ++passed;
  }
  CHECK(passed <= bounds::log_kinds_max + bounds::log_alike_max);
}

}  // namespace log_limiter_test

// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/fatal_signals.h"

#include <doctest/doctest.h>

#include <array>
#include <string_view>

#include "worker/env/bounds.h"

using namespace cpprun;

std::string trace_from_here();
[[gnu::noinline]] std::string trace_from_here() {
  return backtrace_of_throw() + "end";
}

TEST_CASE("a backtrace names the functions in it, readably") {
  const std::string trace = trace_from_here();
  CHECK(trace.find("trace_from_here[abi:cxx11]() (worker_env_test+0x") != std::string::npos);
}

TEST_CASE("a handler's backtrace is the same with the linker's names") {
  prepare_backtrace();
  std::array<char, bounds::worker_backtrace_bytes_max> room{};
  const std::size_t size = backtrace_in_signal(room.data(), room.size());
  const std::string_view trace(room.data(), size);
  CHECK(trace.find("backtrace_in_signal") != std::string_view::npos);
  CHECK(trace.ends_with("\n"));
}

TEST_CASE("text stops at the end of its buffer") {
  std::array<char, 8> room{};
  FixedText text(room.data(), room.size());
  text.text("abc").number(1234).text("too much");
  CHECK(std::string_view(text.data(), text.size()) == "abc1234t");
  CHECK(backtrace_in_signal(room.data(), room.size()) == 8);
}

TEST_CASE("quoted text is safe inside JSON, and leaves space for what follows") {
  std::array<char, 16> room{};
  FixedText text(room.data(), room.size());
  text.quoted("a\"b\\c\n\x01", 7, 0);
  CHECK(std::string_view(text.data(), text.size()) == "a\\\"b\\\\c\\n");
  FixedText short_of_room(room.data(), room.size());
  short_of_room.quoted("aaaaaaaaaaaaaaaaaaaa", 20, 6).text("\"}");
  CHECK(std::string_view(short_of_room.data(), short_of_room.size()) == "aaaaaaaaa\"}");
}

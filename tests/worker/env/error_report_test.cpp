// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/error_report.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "worker/env/bounds.h"

using namespace cpprun;

TEST_CASE("an exception is described by its type and its message") {
  const auto error = std::make_exception_ptr(std::out_of_range("no such class: 11"));
  CHECK(describe(error, 17) == ErrorReport{.message = "std::out_of_range: no such class: 11",
                                           .callstack = "",
                                           .unix_seconds = 17});
}

TEST_CASE("the stack that LibTorch hides in its message becomes the call stack") {
  const auto error = std::make_exception_ptr(
      std::runtime_error("sizes differ\nException raised from add at op.cpp:7\nframe #0"));
  const ErrorReport report = describe(error, 0);
  CHECK(report.message == "std::runtime_error: sizes differ");
  CHECK(report.callstack == "Exception raised from add at op.cpp:7\nframe #0");
}

TEST_CASE("a thrown value that is not an exception is still described") {
  CHECK(describe(std::make_exception_ptr(42), 0).message == "int: not derived from std::exception");
  CHECK(describe(std::make_exception_ptr(std::string("tired")), 0).message == "std::string: tired");
  CHECK(describe(nullptr, 0).message == "std::terminate was called without an exception");
}

TEST_CASE("the error file has the nesting that torchrun's agent reads") {
  const auto file = nlohmann::json::parse(
      to_json({.message = "E: \"quoted\"\n", .callstack = "frames", .unix_seconds = 1700000000}));
  CHECK(file["message"]["message"] == "E: \"quoted\"\n");
  CHECK(file["message"]["extraInfo"]["py_callstack"] == "frames");
  CHECK(file["message"]["extraInfo"]["timestamp"] == "1700000000");
}

TEST_CASE("invalid UTF-8 does not corrupt the error file") {
  const std::string json =
      to_json({.message = "bad \xff byte", .callstack = "", .unix_seconds = 1});
  CHECK(nlohmann::json::accept(json));
}

TEST_CASE("a message beyond the limit is truncated with a note") {
  const std::string json = to_json({.message = std::string(bounds::worker_error_bytes_max + 1, 'x'),
                                    .callstack = "",
                                    .unix_seconds = 1});
  const std::string message = nlohmann::json::parse(json)["message"]["message"];
  CHECK(message.size() < bounds::worker_error_bytes_max + 32);
  CHECK(message.find("(cut)") != std::string::npos);
}

// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include "launcher/failure/evidence.h"

namespace evidence_json_test {

using namespace cpprun;

TEST_CASE("the nested schema of torch's record decorator is read") {
  const auto error = parse_error_file(
      R"({"message": {"message": "ValueError: bad", "extraInfo":
          {"py_callstack": "Traceback:\nValueError: bad", "timestamp": "1700000000"}}})");
  CHECK(error == WorkerError{"ValueError: bad", "Traceback:\nValueError: bad", 1700000000});
}

TEST_CASE("the flat schema is read, with a time as number, as text, or without") {
  CHECK(parse_error_file(R"({"message": "boom", "timestamp": 5})") == WorkerError{"boom", "", 5});
  CHECK(parse_error_file(R"({"message": "boom", "timestamp": "5"})") == WorkerError{"boom", "", 5});
  CHECK(parse_error_file(R"({"message": "boom", "timestamp": 5.9})") == WorkerError{"boom", "", 5});
  CHECK(parse_error_file(R"({"message": "boom"})") == WorkerError{"boom", "", std::nullopt});
}

TEST_CASE("an invalid time is ignored") {
  for (const std::string time : {"10e030", "-1e300", "18446744073709551615", "true", "[5]"}) {
    CAPTURE(time);
    CHECK(parse_error_file(R"({"message": "boom", "timestamp": )" + time + "}") ==
          WorkerError{"boom", "", std::nullopt});
  }
}

TEST_CASE("invalid JSON is an error that names the problem") {
  CHECK(parse_error_file("Segmentation fault").error().reason == "the error file is not JSON");
  CHECK(parse_error_file("[1]").error().reason == "the error file has no \"message\"");
  CHECK(parse_error_file(R"({"message": 5})").error().reason ==
        "the error file's \"message\" is neither text nor an object with text");
  CHECK_FALSE(parse_error_file(R"({"message": {"message": [1]}})").has_value());
  CHECK(parse_error_file(R"({"message": {"message": "m", "extraInfo": 5}})").has_value());
}

TEST_CASE("an error file with endless nesting is rejected without a stack overflow") {
  std::string deep(100'000, '[');
  deep += std::string(100'000, ']');
  const auto text = R"({"message": {"message": "m", "more": )" + deep + "}}";
  CHECK(parse_error_file(text).error().reason ==
        "the error file is nested more than 64 levels deep");
  CHECK_FALSE(with_exit_code(text, 3).has_value());
  // Brackets inside a string are text.
  CHECK(parse_error_file(R"({"message": "\"[[{{ )" + std::string(1000, '[') + "\"}").has_value());
}

TEST_CASE("control sequences are removed from a message and its traceback") {
  const auto error = parse_error_file(
      "{\"message\": {\"message\": \"\\u001b[31mValueError\\u001b[0m: a\\u0000b\", \"extraInfo\": "
      "{\"py_callstack\": \"Traceback\\r\\n\\u009b31m\\u202e\"}}}");
  CHECK(error->message == "ValueError: a b");
  CHECK(error->traceback == "Traceback\n?31m?");
}

TEST_CASE("the exit code is added where torchrun's agent adds it") {
  CHECK(with_exit_code(R"({"message": {"message": "m"}})", 3) ==
        R"({"message":{"errorCode":3,"message":"m"}})");
  CHECK(with_exit_code(R"({"message": "m"})", 3) == R"({"message":"m"})");
  CHECK_FALSE(with_exit_code("garbage", 3).has_value());
}

}  // namespace evidence_json_test

#include <doctest/doctest.h>

#include "launcher/error_file.h"

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
  CHECK(parse_error_file(R"({"message": "boom"})") == WorkerError{"boom", "", std::nullopt});
}

TEST_CASE("garbage is an error that says in what way") {
  CHECK(parse_error_file("Segmentation fault").error().reason == "its error file is not JSON");
  CHECK(parse_error_file("[1]").error().reason == "its error file has no \"message\"");
  CHECK(parse_error_file(R"({"message": 5})").error().reason ==
        "its error file has a \"message\" that is neither text nor holds one");
  CHECK_FALSE(parse_error_file(R"({"message": {"message": [1]}})").has_value());
  CHECK(parse_error_file(R"({"message": {"message": "m", "extraInfo": 5}})").has_value());
}

TEST_CASE("the exit code is added where torchrun's agent adds it") {
  CHECK(with_exit_code(R"({"message": {"message": "m"}})", 3) ==
        R"({"message":{"errorCode":3,"message":"m"}})");
  CHECK(with_exit_code(R"({"message": "m"})", 3) == R"({"message":"m"})");
  CHECK_FALSE(with_exit_code("garbage", 3).has_value());
}

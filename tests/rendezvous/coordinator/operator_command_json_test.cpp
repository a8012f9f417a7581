// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/http_routes.h"

#include <doctest/doctest.h>

#include <csignal>

namespace order_json_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

using Kind = OperatorCommand::Kind;

OperatorCommand read(Kind kind, const std::string& body) {
  OperatorCommand command{.kind = kind};
  const auto result = read_command(body, command);
  CAPTURE(body);
  REQUIRE(result);
  return command;
}

std::string objection(Kind kind, const std::string& body) {
  OperatorCommand command{.kind = kind};
  const auto result = read_command(body, command);
  return result ? "" : result.error().reason;
}

}  // namespace

TEST_CASE("a command needs no body") {
  CHECK(read(Kind::stop, "") == OperatorCommand{.kind = Kind::stop});
  CHECK(read(Kind::restart, "{}") == OperatorCommand{.kind = Kind::restart});
  CHECK(read(Kind::save, "").signal == SIGUSR1);
  CHECK(read(Kind::exclude, "{}").length == 0s);
}

TEST_CASE("the members of a body are read") {
  CHECK(read(Kind::stop, R"({"reason": "the disk\n is full"})").reason == "the disk? is full");
  CHECK(read(Kind::save, R"({"signal": "SIGUSR2"})").signal == SIGUSR2);
  CHECK(read(Kind::drain, R"({"node": "host-b"})").whom == "host-b");
  CHECK(read(Kind::drain, R"({"node": 3})").whom == "3");
  CHECK(read(Kind::drain, R"({"node": 3.0})").whom == "3");
  CHECK(objection(Kind::drain, R"({"node": 3.5})") == "node must be a string");
  CHECK(read(Kind::exclude, R"({"for_s": 7200})").length == 2h);
  CHECK(read(Kind::exclude, R"({"for_s": 0.5})").length == 500ms);
  CHECK(read(Kind::exclude, R"({"job": "a"})").job == "a");
  CHECK(read(Kind::include, R"({"job": "a"})").job == "a");
}

TEST_CASE("an invalid member is named") {
  CHECK(objection(Kind::stop, "stop").find("JSON object") != std::string::npos);
  CHECK(objection(Kind::stop, "[]").find("JSON object") != std::string::npos);
  CHECK(objection(Kind::stop, R"({"reason": 7})") == "reason must be a string");
  CHECK(objection(Kind::stop, "{\"reason\": \"" + std::string(300, 'x') + "\"}") ==
        "reason has 300 bytes, and the maximum is 200");
  CHECK(objection(Kind::stop, R"({"node": "3"})") == "stop takes no \"node\"");
  CHECK(objection(Kind::stop, R"({"job": "a"})") == "stop takes no \"job\"");
  CHECK(objection(Kind::exclude, R"({"job": ""})").starts_with("job must be the name of a job"));
  CHECK(objection(Kind::save, R"({"signal": "SIGKILL"})").starts_with("SIGKILL would terminate"));
  CHECK(objection(Kind::save, R"({"signal": "now"})").starts_with("unknown signal \"now\""));
  CHECK(objection(Kind::drain, "").starts_with("no node given"));
  CHECK(objection(Kind::drain, R"({"node": -3})") == "node must be a string");
  for (const char* length : {"0", "-1", "1e9", "\"2h\"", "null"}) {
    CAPTURE(length);
    CHECK(objection(Kind::exclude, std::string("{\"for_s\": ") + length + "}")
              .starts_with("for_s must be a number"));
  }
}

TEST_CASE("the answer says what was done, or why not") {
  CHECK(outcome_json({CommandResult::Kind::done, "it \"is\""}) == "{\"said\":\"it \\\"is\\\"\"}\n");
  CHECK(outcome_json({CommandResult::Kind::done, "it is", {"a", "b"}}) ==
        "{\"kept_by\":[\"a\",\"b\"],\"said\":\"it is\"}\n");
  CHECK(outcome_json({CommandResult::Kind::unknown, "no"}) == "{\"error\":\"no\"}\n");
}

}  // namespace order_json_test

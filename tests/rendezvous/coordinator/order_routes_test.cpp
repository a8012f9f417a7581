// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/http_routes.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace order_routes_test {

using namespace cpprun;

namespace {

constexpr std::uint32_t own = 1000;
const StatusClient mine{.by_loopback = true, .user = own};
const HostNames names{"node-7"};

http::Request post(std::string target, std::string body = {}) {
  return {.method = http::Method::post,
          .target = std::move(target),
          .host = "127.0.0.1:29400",
          .body = std::move(body),
          .content_type = "application/json"};
}

OperatorCommand ordered(const http::Request& request, const StatusClient& client = mine) {
  CAPTURE(request.target);
  const auto taken = order_of(request, client, {names, own});
  REQUIRE(std::holds_alternative<OperatorCommand>(taken));
  return std::get<OperatorCommand>(taken);
}

http::Response refused(const http::Request& request, const StatusClient& client = mine) {
  CAPTURE(request.target);
  const auto taken = order_of(request, client, {names, own});
  REQUIRE(std::holds_alternative<http::Response>(taken));
  const auto& response = std::get<http::Response>(taken);
  CHECK_FALSE(nlohmann::json::parse(response.body)["error"].get<std::string>().empty());
  return response;
}

}  // namespace

TEST_CASE("a path names the target and the command") {
  CHECK(ordered(post("/api/v1/jobs/a/stop", R"({"reason": "enough"})")) ==
        OperatorCommand{
            .kind = OperatorCommand::Kind::stop, .job = "a", .reason = "enough", .by = "uid 1000"});
  CHECK(ordered(post("/api/v1/jobs/a%2Fb/restart")).job == "a/b");
  CHECK(ordered(post("/api/v1/jobs/a/drain", R"({"node": "3"})")).whom == "3");
  CHECK(ordered(post("/api/v1/hosts/10.0.0.1/exclude")).whom == "10.0.0.1");
  CHECK(ordered(post("/api/v1/hosts/b/include")).kind == OperatorCommand::Kind::include);
  CHECK(ordered(post("/api/v1/jobs/a/forget"), {.by_loopback = true, .user = 0}).by ==
        "uid 0 (root)");
  CHECK(ordered(post("/api/v1/daemon/handover", R"({"reason": "upgrade"})")) ==
        OperatorCommand{
            .kind = OperatorCommand::Kind::handover, .reason = "upgrade", .by = "uid 1000"});
}

TEST_CASE("an unknown target is rejected with a status") {
  CHECK(refused(post("/api/v1/jobs/a/explode")).status == 404);
  CHECK(refused(post("/api/v1/jobs/a/exclude")).status == 404);
  CHECK(refused(post("/api/v1/hosts/a/stop")).status == 404);
  CHECK(refused(post("/api/v1/jobs//stop")).status == 404);
  CHECK(refused(post("/api/v1/jobs/a/stop/now")).status == 404);
  CHECK(refused(post("/api/v1/jobs/a/stop?now")).status == 404);
  CHECK(refused(post("/api/v1/daemon/stop")).status == 404);
  CHECK(refused(post("/api/v1/jobs/a/handover")).status == 404);
  CHECK(refused(post("/api/v1/hosts/a/handover")).status == 404);
  CHECK(refused(post("/metrics")).status == 405);
  for (const char* shown : {"/api/v1/daemon", "/api/v1/jobs/a", "/api/v1/jobs/a/nodes",
                            "/api/v1/jobs/a%20b?ranks=0", "/api/v1/events"}) {
    const auto response = refused(post(shown));
    CHECK(response.status == 405);
    REQUIRE(response.fields.size() == 1);
    CHECK(response.fields[0].second == "GET, HEAD");
  }
  CHECK(refused(post("/api/v1/jobs/%/stop")).status == 400);
  CHECK(refused(post("/api/v1/jobs/a/stop", "{")).status == 400);
}

TEST_CASE("the status page gives commands as the user whose browser shows it") {
  http::Request request = post("/api/v1/jobs/a/stop");
  request.origin = "http://" + request.host;
  CHECK(ordered(request).job == "a");
  CHECK(refused(request, {.by_loopback = true, .user = 1001}).status == 403);
  request.content_type = "text/plain";
  CHECK(refused(request).status == 415);
}

TEST_CASE("other pages in a browser, and unauthenticated clients, cannot give commands") {
  http::Request request = post("/api/v1/jobs/a/stop");
  for (const char* origin : {"", "null", "http://evil.example", "http://127.0.0.1", "https://",
                             "http://127.0.0.1:29401", "http://127.0.0.1:29400.evil.example"}) {
    request.origin = origin;
    CAPTURE(origin);
    CHECK(refused(request).status == 403);
  }
  request.origin = "http://";
  request.host.clear();
  CHECK(refused(request).status == 403);
  request = post("/api/v1/jobs/a/stop");
  request.host = "evil.example";
  CHECK(refused(request).status == 421);
  for (const char* type : {"", "text/plain", "application/x-www-form-urlencoded"}) {
    request = post("/api/v1/jobs/a/stop");
    request.content_type = type;
    CHECK(refused(request).status == 415);
  }
  request.content_type = "Application/JSON ; charset=utf-8";
  CHECK(ordered(request).job == "a");
  CHECK(refused(post("/api/v1/jobs/a/stop"), {.by_loopback = true, .user = 1001}).status == 403);
  CHECK(refused(post("/api/v1/jobs/a/stop"), {.by_loopback = false, .user = own}).status == 403);
}

TEST_CASE("each result has a status") {
  using Kind = CommandResult::Kind;
  CHECK(answer_to({Kind::done, "it is"}).status == 200);
  CHECK(answer_to({Kind::done, "it is"}).body == "{\"said\":\"it is\"}\n");
  CHECK(answer_to({Kind::malformed, "no"}).status == 400);
  CHECK(answer_to({Kind::unknown, "no"}).status == 404);
  CHECK(answer_to({Kind::not_now, "no"}).status == 409);
}

TEST_CASE("paths of commands are distinguished from readable paths") {
  CHECK(is_command_path("/api/v1/jobs/a/stop"));
  CHECK(is_command_path("/api/v1/hosts/a/include"));
  CHECK(is_command_path("/api/v1/daemon/handover"));
  CHECK_FALSE(is_command_path("/api/v1/daemon"));
  CHECK_FALSE(is_command_path("/api/v1/jobs/stop"));
  CHECK_FALSE(is_command_path("/api/v1/jobs/a/nodes"));
}

}  // namespace order_routes_test

// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/codec.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "rendezvous/etcd/bounds.h"
#include "tests/sim/random.h"

namespace codec_test {

using namespace cpprun;
using namespace cpprun::etcd;
using nlohmann::json;
using Kind = Failure::Kind;

namespace {

const Request grant = Grant{77, 2};
const Request keep_alive = KeepAlive{1234567890123456789};
const Request revoking = Revoke{77};
const Request reading = Transaction{.success = {Read{"/a"}, Read{"/b"}}};

// As etcd 3.4.23 responds.
const std::string header =
    R"("header":{"cluster_id":"2448350252072622750","member_id":"16439771487272050292",)"
    R"("revision":"4","raft_term":"2"})";
const Header read_header{2448350252072622750ULL, 16439771487272050292ULL, 4, 2};

json body_of(const Request& request) {
  return json::parse(to_post(request).body);
}

Failure failure_of(const Request& request, unsigned status, const std::string& body) {
  const auto heard = read_answer(request, status, body);
  REQUIRE_FALSE(heard);
  CHECK_FALSE(heard.error().said.empty());
  return heard.error();
}

std::string in_braces(const std::string& members) {
  return "{" + header + members + "}";
}

}  // namespace

TEST_CASE("lease requests have the form that the gateway requires") {
  CHECK(to_post(grant).path == "/v3/lease/grant");
  CHECK(body_of(grant) == json{{"ID", "77"}, {"TTL", "2"}});
  CHECK(to_post(keep_alive).path == "/v3/lease/keepalive");
  CHECK(body_of(keep_alive) == json{{"ID", "1234567890123456789"}});
  CHECK(to_post(revoking).path == "/v3/lease/revoke");
  CHECK(body_of(revoking) == json{{"ID", "77"}});
}

TEST_CASE("alarms are read for any member") {
  CHECK(to_post(GetAlarms{}).path == "/v3/maintenance/status");
  CHECK(body_of(GetAlarms{}) == json::object());
  CHECK(read_answer(GetAlarms{}, 200, in_braces("")) == Heard(Alarms{}));
  CHECK(read_answer(GetAlarms{}, 200,
                    in_braces(R"(,"version":"3.4.23","errors":["memberID:1 alarm:CORRUPT ",
                                  "memberID:1258326739051996497 alarm:NOSPACE "])")) ==
        Heard(Alarms{.has_no_space = true}));
  CHECK_FALSE(read_answer(GetAlarms{}, 200, in_braces(R"(,"errors":[7])")).has_value());
}

TEST_CASE("a transaction is encoded with all its parts") {
  using Target = Compare::Target;
  const Transaction transaction{.compares = {{"/a", Target::created, 0},
                                             {"/b", Target::changed, 12},
                                             {"/c", Target::value, 0, "x"}},
                                .success = {Put{"/a", "v", 77}, Put{"/b", ""}, Delete{"/c"}},
                                .otherwise = {Read{"/a"}, Read{"/d", "/e", 16}}};
  CHECK(to_post(transaction).path == "/v3/kv/txn");
  CHECK(body_of(transaction) == json::parse(R"({
    "compare": [
      {"key": "L2E=", "target": "CREATE", "result": "EQUAL", "create_revision": "0"},
      {"key": "L2I=", "target": "MOD", "result": "EQUAL", "mod_revision": "12"},
      {"key": "L2M=", "target": "VALUE", "result": "EQUAL", "value": "eA=="}],
    "success": [
      {"request_put": {"key": "L2E=", "value": "dg==", "lease": "77"}},
      {"request_put": {"key": "L2I=", "value": ""}},
      {"request_delete_range": {"key": "L2M="}}],
    "failure": [
      {"request_range": {"key": "L2E="}},
      {"request_range": {"key": "L2Q=", "range_end": "L2U=", "limit": "16"}}]})"));
  CHECK(body_of(Transaction{}) == json::object());
}

TEST_CASE("a user name that is not UTF-8 is still encoded") {
  const Authenticate who{"me", "\xff"};
  CHECK(to_post(who).path == "/v3/auth/authenticate");
  CHECK(body_of(who)["name"] == "me");
}

TEST_CASE("responses to granting, renewing and revoking a lease are decoded") {
  CHECK(read_answer(grant, 200, in_braces(R"(,"ID":"77","TTL":"3")")) ==
        Heard(Granted{read_header, 77, 3}));
  CHECK(read_answer(keep_alive, 200,
                    "{\"result\":" + in_braces(R"(,"ID":"1234567890123456789","TTL":"2")") +
                        "}\n") == Heard(KeptAlive{read_header, 1234567890123456789, 2}));
  // An expired lease has no TTL, although the HTTP status is 200.
  CHECK(read_answer(keep_alive, 200,
                    "{\"result\":" + in_braces(R"(,"ID":"1234567890123456789")") + "}") ==
        Heard(KeptAlive{read_header, 1234567890123456789, 0}));
  CHECK(read_answer(revoking, 200, in_braces("")) == Heard(Revoked{read_header}));
}

TEST_CASE("a transaction's response has the pairs that were found, or none") {
  const auto heard = read_answer(reading, 200, in_braces(R"(,"succeeded":true,"responses":[
        {"response_range":{"header":{"revision":"4"},"kvs":[
          {"key":"L2E=","create_revision":"2","mod_revision":"3","version":"2",
           "value":"eHg=","lease":"1234567890123456789"}],"more":true,"count":"2"}},
        {"response_range":{"header":{"revision":"4"}}}])"));
  REQUIRE(heard);
  CHECK(std::get<Decided>(*heard) ==
        Decided{read_header, true, {{{{"/a", "xx", 2, 3, 1234567890123456789}}, true}, Outcome{}}});
  const Request guarded = Transaction{
      .compares = {{"/a"}}, .success = {Put{"/a", "1"}, Delete{"/b"}}, .otherwise = {Read{"/a"}}};
  const auto refused =
      read_answer(guarded, 200, in_braces(R"(,"responses":[{"response_range":{"count":"0"}}])"));
  REQUIRE(refused);
  CHECK(std::get<Decided>(*refused) == Decided{read_header, false, {Outcome{}}});
  CHECK(read_answer(guarded, 200,
                    in_braces(R"(,"succeeded":true,"responses":[{"response_put":{}},{}])")) ==
        Heard(Decided{read_header, true, {Outcome{}, Outcome{}}}));
}

TEST_CASE("a response may have numbers instead of strings") {
  CHECK(read_answer(grant, 200, R"({"header":{"revision":4,"raft_term":2},"ID":77,"TTL":2})") ==
        Heard(Granted{{0, 0, 4, 2}, 77, 2}));
}

TEST_CASE("a token is accepted only if it is valid") {
  const Request who = Authenticate{"me", "x"};
  CHECK(read_answer(who, 200, in_braces(R"(,"token":"abc.12")")) == Heard(Authenticated{"abc.12"}));
  CHECK(failure_of(who, 200, in_braces("")).kind == Kind::nonsense);
  CHECK(failure_of(who, 200, in_braces(R"(,"token":"a\r\nHost: b")")).kind == Kind::nonsense);
  CHECK(failure_of(who, 200, in_braces(",\"token\":\"" + std::string(100'000, 'x') + "\"")).kind ==
        Kind::nonsense);
}

TEST_CASE("every form of an error response is decoded") {
  const std::string words = "etcdserver: requested lease not found";
  const Failure gone{Kind::no_such_lease, words};
  CHECK(failure_of(revoking, 404,
                   R"({"error":")" + words + R"(","message":")" + words + R"(","code":5})") ==
        gone);
  CHECK(failure_of(revoking, 404, R"({"code":5,"message":")" + words + R"(","details":[]})") ==
        gone);
  CHECK(failure_of(revoking, 404, R"({"error":")" + words + R"(","code":5})") == gone);
  CHECK(failure_of(
            keep_alive, 200,
            R"({"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader"}})") ==
        Failure{Kind::unavailable, "etcdserver: no leader"});
  CHECK(failure_of(grant, 503, R"({"code":14,"message":"a\nb\u001b[31m"})").said == "a?b?[31m");
  CHECK(failure_of(grant, 503, R"({"code":14,"message":")" + std::string(10'000, 'x') + "\"}")
            .said.size() <= bounds::etcd_words_bytes_max + 4);
}

TEST_CASE("a response that is not from etcd is reported as such") {
  for (const char* body :
       {"", "Not Found\n", "[]", "7", "null", "{", "{}", R"({"header":7})", R"({"code":"x"})"}) {
    CAPTURE(body);
    CHECK(failure_of(grant, 200, body).kind == Kind::nonsense);
    CHECK(failure_of(reading, 200, body).kind == Kind::nonsense);
    CHECK(failure_of(keep_alive, 200, body).kind == Kind::nonsense);
  }
  CHECK(failure_of(grant, 404, "404 page not found").said ==
        "HTTP 404: \"404 page not found\" is not a JSON object");
  // Well-formed, but not a response to this request.
  CHECK(failure_of(grant, 200, in_braces(R"(,"ID":"78","TTL":"3")")).said.find("another lease") !=
        std::string::npos);
  CHECK(failure_of(grant, 200, in_braces(R"(,"ID":"77")")).said.find("without a duration") !=
        std::string::npos);
  CHECK(failure_of(grant, 200, in_braces(R"(,"ID":"77","TTL":"9999999999999999999")")).kind ==
        Kind::nonsense);
  CHECK(failure_of(reading, 200, in_braces(R"(,"succeeded":true,"responses":[{}])"))
            .said.find("1 results for 2 operations") != std::string::npos);
  CHECK(failure_of(reading, 200, in_braces(R"(,"succeeded":"yes"})")).kind == Kind::nonsense);
  CHECK(failure_of(reading, 200, in_braces(R"(,"succeeded":true,"responses":[
                     {"response_range":{"kvs":[{"key":"?"}]}},{}])"))
            .said.find("is not base64") != std::string::npos);
}

TEST_CASE("responses with too much nesting or too many elements are rejected") {
  CHECK(failure_of(grant, 200, std::string(1'000'000, '[')).said.find("nested too deeply") !=
        std::string::npos);
  std::string many = "{}";
  for (int each = 0; each < 300; ++each) many += ",{}";
  CHECK(failure_of(reading, 200, in_braces(R"(,"succeeded":true,"responses":[)" + many + "]"))
            .said.find("has 301 elements, the maximum is 256") != std::string::npos);
}

TEST_CASE("damaged responses are rejected with a reason") {
  const std::vector<std::pair<Request, std::string>> answers = {
      {grant, in_braces(R"(,"ID":"77","TTL":"3")")},
      {keep_alive, "{\"result\":" + in_braces(R"(,"ID":"1234567890123456789","TTL":"2")") + "}"},
      {reading, in_braces(R"(,"succeeded":true,"responses":[{"response_range":{"kvs":[
        {"key":"L2E=","create_revision":"2","value":"eHg="}]}},{"response_range":{}}])")},
      {revoking, R"({"error":{"grpc_code":14,"message":"etcdserver: no leader"},"code":5})"}};
  sim::Random chance(1);
  for (int round = 0; round < 20'000; ++round) {
    auto [request, body] = answers[chance.next() % answers.size()];
    for (int damage = chance.between(1, 3); damage > 0; --damage) {
      const auto at = static_cast<std::size_t>(chance.next() % body.size());
      if (chance.chance(0.3)) body.erase(at, static_cast<std::size_t>(chance.between(1, 9)));
      if (body.empty()) break;
      body[at % body.size()] = static_cast<char>(chance.between(0, 255));
    }
    CAPTURE(body);
    const auto heard = read_answer(request, 200, body);
    if (!heard) REQUIRE_FALSE(heard.error().said.empty());
  }
}

}  // namespace codec_test

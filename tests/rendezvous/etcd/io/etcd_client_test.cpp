// SPDX-License-Identifier: BSD-3-Clause
// The client with servers that misbehave: the outcome of a request, and its description.

#include "rendezvous/etcd/io/etcd_client.h"

#include <doctest/doctest.h>

#include <array>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/command.h"

namespace etcd_client_test {

using namespace cpprun;
using namespace std::chrono_literals;
using asio::ip::tcp;
using election::Lane;
using integration::contains;
using Kind = etcd::Failure::Kind;

namespace {

const std::string granted = R"({"header":{"revision":"4","raft_term":"2"},"ID":"7","TTL":"2"})";

std::string with_length(const std::string& body, const std::string& fields = "") {
  return "HTTP/1.1 200 OK\r\n" + fields + "Content-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

// Accepts connections and answers each request with `Answer`.
class Server {
 public:
  // Nothing: no response. An empty response closes the connection.
  using Answer = std::function<std::optional<std::string>(const std::string& question)>;

  Server(asio::io_context& context, Answer answer)
      : answer_(std::move(answer)), acceptor_(context, {asio::ip::address_v4::loopback(), 0}) {
    accept();
  }
  EtcdEndpoint endpoint() const { return {false, "127.0.0.1", acceptor_.local_endpoint().port()}; }
  int connections() const { return connections_; }
  const std::vector<std::string>& questions() const { return questions_; }
  void close_all() {
    for (auto& each : open_) each->close();
    open_.clear();
  }

 private:
  void accept() {
    acceptor_.async_accept([this](const asio::error_code& error, tcp::socket socket) {
      if (error) return;
      ++connections_;
      open_.push_back(std::make_shared<tcp::socket>(std::move(socket)));
      read(open_.back());
      accept();
    });
  }
  void read(const std::shared_ptr<tcp::socket>& socket) {
    auto chunk = std::make_shared<std::array<char, 65536>>();
    socket->async_read_some(asio::buffer(*chunk),
                            [this, socket, chunk](const asio::error_code& error, std::size_t size) {
                              if (error) return;
                              questions_.emplace_back(chunk->data(), size);
                              const auto answer = answer_(questions_.back());
                              if (answer && answer->empty()) return socket->close();
                              if (answer) asio::write(*socket, asio::buffer(*answer));
                              read(socket);
                            });
  }

  Answer answer_;
  tcp::acceptor acceptor_;
  int connections_ = 0;
  std::vector<std::string> questions_;
  std::vector<std::shared_ptr<tcp::socket>> open_;
};

// A server with one kind of response, and its client.
struct Scene {
  explicit Scene(Server::Answer answer, std::string user = {})
      : server(context, std::move(answer)),
        client(context,
               {.endpoints = {server.endpoint()}, .user = std::move(user), .password = "secret"},
               nullptr) {}
  etcd::Heard ask(Duration timeout = 60s) {
    std::optional<etcd::Heard> heard;
    client.ask(Lane::lease, 0, etcd::Grant{7, 2}, timeout, [&heard](etcd::Heard answer) {
      CHECK_FALSE(heard);
      heard = std::move(answer);
    });
    CHECK_FALSE(heard);  // no callback from within ask()
    const auto deadline = std::chrono::steady_clock::now() + integration::timeout;
    while (!heard) {
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      context.restart();
      context.run_one_for(50ms);
    }
    return *heard;
  }
  etcd::Failure failure(Duration timeout = 60s) {
    const auto heard = ask(timeout);
    REQUIRE_FALSE(heard);
    return heard.error();
  }
  asio::io_context context;
  Server server;
  EtcdClient client;
};

etcd::Failure failure_of(Server::Answer answer) {
  return Scene(std::move(answer)).failure();
}

}  // namespace

TEST_CASE("each lane has one connection, which serves one request after another") {
  Scene scene([](const std::string&) { return with_length(granted); });
  for (int round = 0; round < 3; ++round) {
    bool is_written = false;
    scene.client.ask(Lane::writes, 0, etcd::Grant{7, 2}, 60s,
                     [&](const etcd::Heard& heard) { is_written = heard.has_value(); });
    CHECK(scene.ask() == etcd::Heard(etcd::Granted{{0, 0, 4, 2}, 7, 2}));
    while (!is_written) scene.context.run_one();
  }
  CHECK(scene.server.connections() == 2);
  CHECK(scene.server.questions().size() == 6);
  const auto& question = scene.server.questions().front();
  CHECK(question.starts_with("POST /v3/lease/grant HTTP/1.1\r\nHost: 127.0.0.1:"));
  CHECK_FALSE(contains(question, "Connection: close"));
  CHECK_FALSE(contains(question, "Authorization"));
}

TEST_CASE("a connection that the server has closed is replaced unnoticed") {
  Scene scene([](const std::string&) { return with_length(granted); });
  for (int round = 1; round <= 3; ++round) {
    CHECK(scene.ask().has_value());
    scene.server.close_all();
    // The end of the connection arrives before the next request.
    while (scene.context.run_one_for(20ms) > 0) {
    }
    scene.context.restart();
  }
  CHECK(scene.server.connections() == 3);
}

TEST_CASE("a server that closes its connections is dialled for each request") {
  Scene scene([](const std::string&) { return with_length(granted, "Connection: close\r\n"); });
  for (int round = 0; round < 3; ++round) CHECK(scene.ask().has_value());
  CHECK(scene.server.connections() == 3);
}

TEST_CASE("a refused connection is known to have no effect, a missing response is not") {
  asio::io_context context;
  const int closed =
      tcp::acceptor(context, {asio::ip::address_v4::loopback(), 0}).local_endpoint().port();
  EtcdClient client(context, {.endpoints = {{false, "127.0.0.1", closed}}}, nullptr);
  std::optional<etcd::Heard> heard;
  client.ask(Lane::lease, 0, etcd::Grant{7, 2}, 60s,
             [&](etcd::Heard answer) { heard = std::move(answer); });
  while (!heard) context.run_one();
  CHECK(heard->error() ==
        etcd::Failure{Kind::unreachable, "connection refused: nothing listens there (yet)"});

  Scene silent([](const std::string&) { return std::nullopt; });
  const auto failed = silent.failure(50ms);
  CHECK(failed.kind == Kind::silent);
  CHECK(contains(failed.said, "s: the member is stopped, or cut off from the other members"));
  // A late response is dropped: the next request uses another connection.
  CHECK(silent.failure(50ms).kind == Kind::silent);
  CHECK(silent.server.connections() == 2);
}

TEST_CASE("a host name that cannot be resolved is reported") {
  asio::io_context context;
  EtcdClient client(context, {.endpoints = {{false, "no-such-host.invalid", 2379}}}, nullptr);
  std::optional<etcd::Heard> heard;
  client.ask(Lane::lease, 0, etcd::Grant{7, 2}, 60s,
             [&](etcd::Heard answer) { heard = std::move(answer); });
  while (!heard) context.run_one();
  CHECK(heard->error().kind == Kind::unreachable);
  CHECK(contains(heard->error().said, "cannot resolve \"no-such-host.invalid\""));
}

TEST_CASE("a server that is not etcd is reported as such") {
  const auto closes = failure_of([](const std::string&) { return std::string(); });
  CHECK(closes ==
        etcd::Failure{Kind::silent, "connection closed without a response; try https://"});
  const auto other = failure_of([](const std::string&) { return "SSH-2.0-OpenSSH\r\n\r\n"; });
  CHECK(other == etcd::Failure{Kind::nonsense, "the response is not HTTP"});
  const auto page = failure_of([](const std::string&) { return with_length("<html>"); });
  CHECK(page.kind == Kind::nonsense);
  CHECK(contains(page.said, "\"<html>\" is not a JSON object"));
  const auto twice =
      failure_of([](const std::string&) { return with_length(granted) + with_length(granted); });
  CHECK(twice == etcd::Failure{Kind::nonsense, "received data after the end of the response"});
  const auto endless = failure_of(
      [](const std::string&) { return "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"; });
  CHECK(contains(endless.said, "the response has more than 33554432 bytes"));
}

TEST_CASE("a response that breaks off is not a response") {
  Scene scene([](const std::string&) { return "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{"; });
  std::optional<etcd::Heard> heard;
  scene.client.ask(Lane::lease, 0, etcd::Grant{7, 2}, 60s,
                   [&](etcd::Heard answer) { heard = std::move(answer); });
  while (scene.server.questions().empty()) scene.context.run_one();
  scene.server.close_all();
  while (!heard) scene.context.run_one();
  CHECK(heard->error() ==
        etcd::Failure{Kind::silent, "connection closed in the middle of the response"});
}

TEST_CASE("a token is fetched first, and again when it has expired") {
  int tokens = 0;
  Scene scene(
      [&tokens](const std::string& question) -> std::optional<std::string> {
        if (contains(question, "/v3/auth/authenticate")) {
          return with_length(R"({"header":{"revision":"1","raft_term":"1"},"token":"t)" +
                             std::to_string(++tokens) + "\"}");
        }
        if (contains(question, "Authorization: t" + std::to_string(tokens) + "\r\n") &&
            tokens != 1) {
          return with_length(granted);
        }
        return with_length(R"({"message":"etcdserver: invalid auth token","code":16})");
      },
      "me");
  CHECK(scene.ask().has_value());
  CHECK(tokens == 2);
  CHECK(scene.ask().has_value());
  CHECK(tokens == 2);
  CHECK(contains(scene.server.questions().front(), R"({"name":"me","password":"secret"})"));
  CHECK_FALSE(contains(scene.server.questions().front(), "Authorization"));
}

TEST_CASE("a request with a wrong password is known to have no effect") {
  Scene scene(
      [](const std::string&) {
        return with_length(
            R"({"message":"etcdserver: authentication failed, invalid user ID","code":3})");
      },
      "me");
  CHECK(scene.failure().kind == Kind::forbidden);
  Scene silent([](const std::string&) { return std::nullopt; }, "me");
  // Only the token was requested.
  CHECK(silent.failure(50ms).kind == Kind::unreachable);
}

TEST_CASE("a destroyed client calls no callback") {
  bool is_called = false;
  asio::io_context context;
  Server server(context, [](const std::string&) { return with_length(granted); });
  {
    EtcdClient client(context, {.endpoints = {server.endpoint()}}, nullptr);
    client.ask(Lane::lease, 0, etcd::Grant{7, 2}, 60s,
               [&](const etcd::Heard&) { is_called = true; });
    while (server.questions().empty()) context.run_one();
  }
  while (context.run_one_for(20ms) > 0) {
  }
  CHECK_FALSE(is_called);
}

}  // namespace etcd_client_test

// SPDX-License-Identifier: BSD-3-Clause
// Tools and clients at a port behind the secret: what they may read, and for how long.

#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/coordinator/http_routes.h"
#include "rendezvous/status/event_ring.h"
#include "rendezvous/status/io/status_server.h"
#include "tests/proto/secure_pair.h"
#include "tests/rendezvous/io/link_kit.h"

namespace secure_tools_test {

using namespace cpprun;
using namespace cpprun::test;
using asio::ip::tcp;

namespace {

// Serves only events, to every admitted client.
std::unique_ptr<StatusServer> server_of_events(asio::io_context& context, EventRing& ring) {
  return std::make_unique<StatusServer>(
      context, StatusAccess::user,
      StatusServer::Callbacks{
          .answer =
              [&ring](const http::Request& request, const StatusClient& client) {
                return events_answer(ring, request, client.credential->owner);
              },
          .refused = [](const std::string&) {}});
}

}  // namespace

TEST_CASE("a tool that holds the secret has its user's access, and may give commands") {
  asio::io_context context;
  const Secret secret = secret_named("blue");
  std::vector<std::string> orders;
  CoordinatorServer server(context, {.to_local_agent = [](const link::Message&) {},
                                     .note = [](const Note&) {},
                                     .done = nullptr,
                                     .ordered =
                                         [&](const coordinator::Answered& answered) {
                                           orders.push_back(answered.command.by);
                                         }});
  server.require_secret(server_of({secret}));
  const auto opened = server.open(
      {.host = loopback},
      {.only = JobTerms{.id = "j", .nodes_min = 1, .nodes_max = 1}, .options = {.lease = 60s}},
      PlainStore::refused, {.access = StatusAccess::user});
  REQUIRE(opened.has_value());
  tcp::socket socket = dial(context, opened->port);
  SecureChannel channel{client_of(secret)};
  channel.say(
      "GET /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\n\r\n"
      "POST /api/v1/jobs/j/stop HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
      "application/json\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  Reader reader{socket};
  std::string heard;
  run_until(context, [&] {
    channel.hear(std::exchange(reader.heard, {}));
    heard += channel.take_heard();
    const std::string bytes = channel.take_outgoing();
    asio::error_code gone;
    if (!bytes.empty()) asio::write(socket, asio::buffer(bytes), gone);
    return channel.is_finished();
  });
  CHECK(heard.starts_with("cpprun1\nHTTP/1.1 200"));
  CHECK_MESSAGE(heard.find("\"j\"") != heard.npos, heard);
  REQUIRE(orders.size() == 1);
  CHECK(orders[0] == "127.0.0.1 with the secret \"blue\"");
}

TEST_CASE("a watching tool behind the secret that does not read is dropped without side effects") {
  asio::io_context context;
  const Secret secret = secret_named("blue");
  CoordinatorServer server(
      context,
      {.to_local_agent = [](const link::Message&) {}, .note = [](const Note&) {}, .done = nullptr});
  server.require_secret(server_of({secret}));
  const auto opened = server.open(
      {.host = loopback},
      {.only = JobTerms{.id = "j", .nodes_min = 2, .nodes_max = 2}, .options = {.lease = 60s}},
      PlainStore::refused, {.access = StatusAccess::user});
  REQUIRE(opened.has_value());
  LinkPeer agent{context, opened->port, loopback, client_of(secret)};
  agent.client.dial();
  run_until(context, [&] { return !agent.local.empty(); });
  tcp::socket socket{context};
  socket.open(tcp::v4());
  socket.set_option(asio::socket_base::receive_buffer_size(4096));
  socket.connect({asio::ip::make_address(loopback), static_cast<unsigned short>(opened->port)});
  SecureChannel channel{client_of(secret)};
  channel.say("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  asio::write(socket, asio::buffer(channel.take_outgoing()));
  socket.non_blocking(true);
  run_until(context, [&] {
    std::array<char, 4096> chunk{};
    asio::error_code error;
    const std::size_t count = socket.read_some(asio::buffer(chunk), error);
    channel.hear({chunk.data(), count});
    const std::string bytes = channel.take_outgoing();
    if (!bytes.empty()) asio::write(socket, asio::buffer(bytes));
    return server.is_watched();
  });
  // From here on it reads nothing.
  const std::string event = "{\"event\":\"" + std::string(30'000, 'x') + "\"}";
  int sent_count = 0;
  for (; server.is_watched() && sent_count < 2000; ++sent_count) {
    server.tell_event(event);
    context.poll();
  }
  CHECK_FALSE(server.is_watched());
  CHECK(sent_count < 2000);
  agent.client.send(node(1));
  run_until(context, [&] { return !agent.heard.empty(); });
  CHECK(agent.reason == "");
  // It can still read what was sent, and then the end.
  socket.non_blocking(false);
  Reader reader{socket};
  run_until(context, [&] { return reader.is_closed; });
  channel.hear(reader.heard);
  CHECK(channel.take_heard().find("text/event-stream") != std::string::npos);
}

TEST_CASE("a client without access is asked for a token, and the token is checked") {
  asio::io_context context;
  const Secret secret = secret_named("blue");
  const auto secure = server_of({secret});
  std::vector<std::string> refused;
  StatusServer status(
      context, StatusAccess::user,
      {.answer = [](const http::Request&,
                    const StatusClient&) { return http::Response{.body = "figures\n"}; },
       .refused = [&](std::string why) { refused.push_back(std::move(why)); },
       .credential =
           [&](const http::Request& request) {
             return credential_of(request, *secure, WallTime{});
           }});
  tcp::acceptor acceptor{context, tcp::endpoint{asio::ip::make_address(loopback), 0}};
  const auto ask = [&](const std::string& field) {
    tcp::socket socket = dial(context, acceptor.local_endpoint().port());
    tcp::socket taken = acceptor.accept();
    // From another machine, as far as the server can tell.
    PeerAddress peer;
    status.adopt(
        FileDescriptor(taken.release()), peer,
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + field + "\r\n");
    Reader reader{socket};
    run_until(context, [&] { return reader.is_closed; });
    return reader.heard;
  };
  const std::string none = ask("");
  CHECK(none.starts_with("HTTP/1.1 401"));
  CHECK(none.find("WWW-Authenticate: Bearer") != none.npos);
  CHECK(ask("Authorization: Bearer nonsense\r\n").starts_with("HTTP/1.1 401"));
  const std::string token = make_token(openssl(), secret, {.expiry_unix_seconds = 60});
  const std::string shown = ask("Authorization: Bearer " + token + "\r\n");
  CHECK(shown.starts_with("HTTP/1.1 200"));
  CHECK(shown.ends_with("figures\n"));
  CHECK(refused.size() == 2);
}

TEST_CASE("tools that use a replaced secret have to reconnect") {
  asio::io_context context;
  StatusServer status(
      context, StatusAccess::user,
      {.answer = [](const http::Request&,
                    const StatusClient&) { return http::Response{.body = "figures\n"}; },
       .refused = [](const std::string&) {}});
  tcp::acceptor acceptor{context, tcp::endpoint{asio::ip::make_address(loopback), 0}};
  const auto come = [&](bool by_secret) {
    tcp::socket socket = dial(context, acceptor.local_endpoint().port());
    FileDescriptor taken(acceptor.accept().release());
    if (by_secret) {
      status.adopt_holder(std::move(taken), {.holder = "alice", .may_control = true});
    } else {
      status.adopt_local(std::move(taken), ::geteuid());
    }
    return socket;
  };
  tcp::socket holder = come(true);
  tcp::socket owner = come(false);
  Reader reader{holder};
  CHECK(status.size() == 2);
  status.end_holders();
  CHECK(status.size() == 1);
  run_until(context, [&] { return reader.is_closed; });
}

TEST_CASE("a client that watches as one owner receives nothing of another owner's jobs") {
  asio::io_context context;
  EventRing ring("run");
  const std::string alice = "alice";
  const std::string bob = "bob";
  ring.add("{\"n\":1}", alice);
  ring.add("{\"n\":2}", bob);
  CHECK(ring.since("", alice) == "id: run-1\ndata: {\"n\":1}\n\n");
  const auto status = server_of_events(context, ring);
  tcp::acceptor acceptor{context, tcp::endpoint{asio::ip::make_address(loopback), 0}};
  tcp::socket socket = dial(context, acceptor.local_endpoint().port());
  status->adopt_holder(FileDescriptor(acceptor.accept().release()),
                       {.holder = "bob's", .may_control = true, .owner = bob});
  asio::write(socket,
              asio::buffer(std::string("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")));
  Reader reader{socket};
  run_until(context, [&] { return status->watchers() == 1; });
  status->tell_watchers(ring.add("{\"n\":3}", alice), &alice);
  status->tell_watchers(ring.add("{\"n\":4}", bob), &bob);
  run_until(context, [&] { return reader.heard.find("\"n\":4") != std::string::npos; });
  CHECK(reader.heard.find("\"n\":2") != std::string::npos);
  CHECK(reader.heard.find("\"n\":1") == std::string::npos);
  CHECK(reader.heard.find("\"n\":3") == std::string::npos);
}

TEST_CASE("a client that watches with a token receives nothing after the token expires") {
  asio::io_context context;
  EventRing ring("run");
  ring.add("{\"n\":1}", "alice");
  const auto status = server_of_events(context, ring);
  tcp::acceptor acceptor{context, tcp::endpoint{asio::ip::make_address(loopback), 0}};
  tcp::socket socket = dial(context, acceptor.local_endpoint().port());
  status->adopt_holder(FileDescriptor(acceptor.accept().release()),
                       {.holder = "a token", .lasts = std::chrono::milliseconds(1)});
  asio::write(socket,
              asio::buffer(std::string("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")));
  Reader reader{socket};
  run_until(context, [&] { return reader.is_closed; });
  CHECK(reader.heard.find("\"n\":1") != std::string::npos);
  CHECK(status->size() == 0);
}

}  // namespace secure_tools_test

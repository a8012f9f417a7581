// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <string>
#include <vector>

#include "proto/link/codec.h"
#include "rendezvous/store/memory_accounting.h"
#include "tests/proto/secure_pair.h"
#include "tests/rendezvous/io/link_kit.h"

namespace secure_link_test {

using namespace cpprun;
using namespace cpprun::test;
using asio::ip::tcp;

namespace {

bool was_noted(const Master& master, std::string_view text) {
  return std::ranges::any_of(master.notes,
                             [&](const std::string& note) { return note.find(text) != note.npos; });
}

}  // namespace

TEST_CASE("agents that hold the secret are seated, and their messages are encrypted") {
  asio::io_context context;
  const Secret secret = secret_named("blue");
  Master master{context, false, server_of({secret})};
  LinkPeer peer{context, master.port, loopback, client_of(secret)};
  peer.client.dial();
  run_until(context, [&] { return !peer.local.empty(); });
  peer.client.send(node(1));
  master.server.hear_local_agent(node(0));
  run_until(context, [&] { return !peer.heard.empty(); });
  const auto* sealed = std::get_if<link::Sealed>(&peer.heard[0]);
  REQUIRE(sealed != nullptr);
  peer.client.send(link::Succeeded{sealed->round});
  master.server.hear_local_agent(link::Succeeded{sealed->round});
  run_until(context, [&] { return peer.heard.size() == 2; });
  CHECK(std::get<link::Finish>(peer.heard[1]).exit_code == 0);
  peer.client.hang_up();
  master.server.local_agent_left();
  run_until(context, [&] { return master.done; });
}

TEST_CASE("an agent with no secret or a wrong one is rejected with a reason") {
  asio::io_context context;
  Master master{context, false, server_of({secret_named("blue")})};
  LinkPeer open{context, master.port};
  open.client.dial();
  run_until(context, [&] { return !open.heard.empty(); });
  CHECK(std::get<link::Refused>(open.heard[0]).reason.starts_with("this master requires a secret"));
  CHECK(was_noted(master, "refused: the client has no secret"));

  LinkPeer other{context, master.port, loopback, client_of(secret_named("red"))};
  other.client.dial();
  run_until(context, [&] { return !other.reason.empty(); });
  CHECK(other.reason == "wrong secret: the server has no secret with the id \"red\"");
  CHECK(was_noted(master,
                  "refused: wrong secret: the client has \"red\", and the server has \"blue\""));
  CHECK(other.local.empty());
  CHECK(other.heard.empty());
}

TEST_CASE("an agent with a secret learns that its master has none") {
  asio::io_context context;
  Master master{context};
  LinkPeer peer{context, master.port, loopback, client_of(secret_named("blue"))};
  peer.client.dial();
  run_until(context, [&] { return !peer.reason.empty(); });
  CHECK(peer.reason.starts_with("the client uses secret \"blue\", but the server has none"));
  CHECK(was_noted(master, "the client uses a secret, but the server has none"));
}

TEST_CASE("an agent with a secret rejects a master that answers in plaintext") {
  asio::io_context context;
  tcp::acceptor acceptor{context, tcp::endpoint{asio::ip::make_address(loopback), 0}};
  acceptor.async_accept([](const asio::error_code& error, tcp::socket socket) {
    const std::string answer = std::string(link::preamble) + link::encode(link::Drain{});
    if (!error) asio::write(socket, asio::buffer(answer));
  });
  LinkPeer peer{context, acceptor.local_endpoint().port(), loopback,
                client_of(secret_named("blue"))};
  peer.client.dial();
  run_until(context, [&] { return !peer.reason.empty(); });
  CHECK(peer.reason ==
        "the response is not TLS; check that a cpprun master with a secret listens there");
  CHECK(peer.heard.empty());
}

TEST_CASE("a record that was changed in transit ends only its link") {
  asio::io_context context;
  const Secret secret = secret_named("blue");
  Master master{context, false, server_of({secret})};
  LinkPeer peer{context, master.port, loopback, client_of(secret)};
  peer.client.dial();
  run_until(context, [&] { return !peer.local.empty(); });

  // By hand, so that a byte can be changed.
  tcp::socket socket = dial(context, master.port);
  SecureChannel channel{client_of(secret)};
  Reader reader{socket};
  asio::write(socket, asio::buffer(channel.take_outgoing()));
  run_until(context, [&] {
    channel.hear(std::exchange(reader.heard, {}));
    return channel.is_established();
  });
  asio::write(socket, asio::buffer(channel.take_outgoing()));
  REQUIRE(channel.say(std::string(link::preamble) + link::encode(node(1))));
  std::string record = channel.take_outgoing();
  record[20] = static_cast<char>(record[20] ^ 1);
  asio::write(socket, asio::buffer(record));
  run_until(context, [&] { return reader.is_closed; });

  peer.client.send(node(1));
  master.server.hear_local_agent(node(0));
  run_until(context, [&] { return !peer.heard.empty(); });
  CHECK(std::holds_alternative<link::Sealed>(peer.heard[0]));
}

TEST_CASE("incomplete handshakes displace each other, and no client that holds the secret") {
  asio::io_context context;
  const Secret secret = secret_named("blue");
  std::size_t through = 0;
  std::vector<std::string> refused;
  TlsAcceptor door(context, server_of({secret}),
                   {.through = [&](SecureHandshake::Done, const PeerAddress&) { ++through; },
                    .refused = [&](const PeerAddress&,
                                   const std::string& reason) { refused.push_back(reason); }},
                   std::make_shared<MemoryAccounting>(), HandshakeAdmission(4, 60s));
  tcp::acceptor acceptor{context, tcp::endpoint{asio::ip::make_address(loopback), 0}};
  const int port = acceptor.local_endpoint().port();
  const auto take = [&] { door.adopt(acceptor.accept(), PeerAddress{}, std::string()); };
  std::vector<tcp::socket> unidentified_connections;
  for (int n = 0; n < 20; ++n) {
    unidentified_connections.push_back(dial(context, port));
    asio::write(unidentified_connections.back(), asio::buffer(std::string("\x16\x03\x01\x02", 4)));
    take();
  }
  CHECK(door.size() == 4);
  CHECK(refused.size() == 16);
  CHECK(refused.front() == "evicted before authentication to make room for newer clients");

  tcp::socket agent = dial(context, port);
  take();
  SecureChannel channel{client_of(secret)};
  channel.say(link::preamble);
  Reader reader{agent};
  run_until(context, [&] {
    channel.hear(std::exchange(reader.heard, {}));
    const std::string bytes = channel.take_outgoing();
    if (!bytes.empty()) asio::write(agent, asio::buffer(bytes));
    return through == 1;
  });
  CHECK(door.size() == 3);
}

TEST_CASE("a client that does not authenticate in time is disconnected") {
  asio::io_context context;
  std::vector<std::string> refused;
  TlsAcceptor door(context, server_of({secret_named("blue")}),
                   {.through = [](SecureHandshake::Done, const PeerAddress&) {},
                    .refused = [&](const PeerAddress&,
                                   const std::string& reason) { refused.push_back(reason); }},
                   std::make_shared<MemoryAccounting>(), HandshakeAdmission(4, 1ms));
  tcp::acceptor acceptor{context, tcp::endpoint{asio::ip::make_address(loopback), 0}};
  tcp::socket unidentified = dial(context, acceptor.local_endpoint().port());
  door.adopt(acceptor.accept(), PeerAddress{}, std::string("\x16\x03", 2));
  Reader reader{unidentified};
  run_until(context, [&] { return reader.is_closed; });
  CHECK(refused ==
        std::vector<std::string>{"the peer did not prove in time that it has the secret"});
  CHECK(door.size() == 0);
}

TEST_CASE("a client that speaks another protocol behind the secret is distinguished from agents") {
  asio::io_context context;
  const Secret secret = secret_named("blue");
  Master master{context, true, server_of({secret})};
  tcp::socket socket = dial(context, master.port);
  SecureChannel channel{client_of(secret)};
  channel.say("GET / HTTP/1.1\r\n\r\n");
  Reader reader{socket};
  asio::write(socket, asio::buffer(channel.take_outgoing()));
  run_until(context, [&] {
    channel.hear(std::exchange(reader.heard, {}));
    const std::string bytes = channel.take_outgoing();
    asio::error_code gone;
    if (!bytes.empty()) asio::write(socket, asio::buffer(bytes), gone);
    return reader.is_closed;
  });
  CHECK(was_noted(master, "refused: an HTTP request behind its secret"));
}

TEST_CASE("a client that sends more than a handshake is disconnected") {
  asio::io_context context;
  std::vector<std::string> refused;
  TlsAcceptor door(context, server_of({secret_named("blue")}),
                   {.through = [](SecureHandshake::Done, const PeerAddress&) {},
                    .refused = [&](const PeerAddress&,
                                   const std::string& reason) { refused.push_back(reason); }},
                   std::make_shared<MemoryAccounting>());
  tcp::acceptor acceptor{context, tcp::endpoint{asio::ip::make_address(loopback), 0}};
  tcp::socket unidentified = dial(context, acceptor.local_endpoint().port());
  door.adopt(acceptor.accept(), PeerAddress{}, std::string());
  // A greeting that announces 128 KB, in records of 4 KB.
  std::string greeting("\x16\x03\x01\x10\x00\x01\x01\xff\x00", 9);
  greeting.resize(5 + 4096, 'x');
  for (int record = 0; record < 5; ++record) {
    asio::write(unidentified, asio::buffer(greeting));
    greeting.replace(5, 4, "xxxx");
  }
  run_until(context, [&] { return !refused.empty(); });
  CHECK(refused.front() == "the peer sent more bytes than a handshake can have");
  CHECK(door.size() == 0);
}

}  // namespace secure_link_test

// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proto/c10d/codec.h"
#include "proto/link/codec.h"
#include "tests/rendezvous/io/link_kit.h"

namespace link_io_test {

using namespace cpprun;
using namespace cpprun::test;
using namespace std::chrono_literals;
using asio::ip::tcp;

namespace {

// A server that is not a cpprun: sends `greeting` to each client, then closes.
std::unique_ptr<tcp::acceptor> unidentified(asio::io_context& context, std::string greeting) {
  auto acceptor = std::make_unique<tcp::acceptor>(
      context, tcp::endpoint{asio::ip::make_address("127.0.0.1"), 0});
  acceptor->async_accept([greeting](const asio::error_code& error, tcp::socket socket) {
    if (!error) asio::write(socket, asio::buffer(greeting));
  });
  return acceptor;
}

}  // namespace

TEST_CASE("a remote agent and the master's own agent are seated in one round") {
  asio::io_context context;
  Master master{context};
  LinkPeer peer{context, master.port};
  peer.client.dial();
  run_until(context, [&] { return !peer.local.empty(); });
  CHECK(peer.local == "127.0.0.1");
  peer.client.send(node(1));
  master.server.hear_local_agent(node(0));
  run_until(context, [&] { return !peer.heard.empty(); });
  const auto* sealed = std::get_if<link::Sealed>(&peer.heard[0]);
  REQUIRE(sealed != nullptr);
  CHECK(sealed->group_rank == GroupRank{1});
  CHECK(sealed->store_port == master.port);
  CHECK(std::get<link::Sealed>(master.heard.at(0)).group_rank == GroupRank{0});

  peer.client.send(link::Succeeded{sealed->round});
  master.server.hear_local_agent(link::Succeeded{sealed->round});
  run_until(context, [&] { return peer.heard.size() == 2; });
  CHECK(std::get<link::Finish>(peer.heard[1]).exit_code == 0);
  peer.client.hang_up();
  master.server.local_agent_left();
  run_until(context, [&] { return master.done; });
}

TEST_CASE("an immediate answer of the local agent does not overtake messages to other agents") {
  asio::io_context context;
  Master master{context};
  master.answer = [&](const link::Message& message) {
    // Its worker cannot even be started.
    const auto* sealed = std::get_if<link::Sealed>(&message);
    if (sealed != nullptr) master.server.hear_local_agent(link::Failed{sealed->round, {}});
  };
  LinkPeer peer{context, master.port};
  peer.client.dial();
  run_until(context, [&] { return !peer.local.empty(); });
  peer.client.send(node(1));
  master.server.hear_local_agent(node(0));
  run_until(context, [&] { return peer.heard.size() == 2; });
  CHECK(std::holds_alternative<link::Sealed>(peer.heard[0]));
  CHECK(std::holds_alternative<link::Drain>(peer.heard[1]));
}

TEST_CASE("a link to the only address of its host has no other addresses") {
  asio::io_context context;
  Master master{context};
  LinkPeer peer{context, master.port};
  peer.client.dial();
  run_until(context, [&] { return !peer.local.empty(); });
  CHECK(peer.client.other_addresses().empty());
}

TEST_CASE("a node of another job receives the name of the job whose port it has reached") {
  asio::io_context context;
  Master master{context};
  LinkPeer peer{context, master.port};
  peer.client.dial();
  run_until(context, [&] { return !peer.local.empty(); });
  auto other = node(1);
  other.job = "other";
  peer.client.send(other);
  run_until(context, [&] { return !peer.heard.empty(); });
  CHECK(std::get<link::Refused>(peer.heard[0]).reason.find("runs job \"j\"") != std::string::npos);
  run_until(context, [&] { return !peer.reason.empty(); });
  CHECK(master.notes.size() == 1);
}

TEST_CASE("without a listener the agent reports that the connection was refused") {
  asio::io_context context;
  int port = 0;
  {
    tcp::acceptor taken{context, tcp::endpoint{asio::ip::make_address("127.0.0.1"), 0}};
    port = taken.local_endpoint().port();
  }
  LinkPeer peer{context, port};
  peer.client.dial();
  run_until(context, [&] { return !peer.reason.empty(); });
  CHECK(peer.reason == "connection refused: nothing listens there (yet)");
}

TEST_CASE("a server that is not a cpprun is identified by its greeting") {
  asio::io_context context;
  const auto http = unidentified(context, "HTTP/1.1 400 Bad Request\r\n\r\n");
  LinkPeer peer{context, http->local_endpoint().port()};
  peer.client.dial();
  run_until(context, [&] { return !peer.reason.empty(); });
  CHECK(peer.reason.find("not a cpprun master (it sent \"HTTP/1.1\")") != std::string::npos);
}

TEST_CASE("a server that closes silently is reported as suspicious") {
  asio::io_context context;
  const auto silent = unidentified(context, "");
  LinkPeer peer{context, silent->local_endpoint().port()};
  peer.client.dial();
  run_until(context, [&] { return !peer.reason.empty(); });
  CHECK(peer.reason ==
        "connection closed without a greeting; check that a cpprun master listens there");
}

TEST_CASE("only an agent that sends garbage after its greeting is closed") {
  asio::io_context context;
  Master master{context};
  tcp::socket liar{context};
  liar.connect({asio::ip::make_address("127.0.0.1"), static_cast<unsigned short>(master.port)});
  asio::write(liar, asio::buffer(std::string{link::preamble} + "\xff\xff\xff\xff nonsense"));
  std::string received;
  asio::error_code ended;
  std::array<char, 64> chunk{};
  std::function<void()> read = [&] {
    liar.async_read_some(asio::buffer(chunk), [&](const asio::error_code& error, std::size_t n) {
      received.append(chunk.data(), n);
      ended = error;
      if (!error) read();
    });
  };
  read();
  run_until(context, [&] { return static_cast<bool>(ended); });
  CHECK(received == link::preamble);

  LinkPeer peer{context, master.port};
  peer.client.dial();
  run_until(context, [&] { return !peer.local.empty(); });
}

TEST_CASE("an agent that hangs up while it connects receives no event of that attempt") {
  asio::io_context context;
  Master master{context};
  LinkPeer gone{context, master.port};
  LinkPeer other{context, master.port};
  gone.client.dial();
  gone.client.hang_up();
  other.client.dial();
  run_until(context, [&] { return !other.local.empty(); });
  while (context.poll_one() > 0) continue;
  CHECK(gone.local.empty());
  CHECK(gone.reason.empty());
}

TEST_CASE("a cancelled connection attempt reports nothing") {
  asio::io_context context;
  Master master{context};
  LinkPeer peer{context, master.port};
  peer.client.dial();
  peer.client.dial();
  run_until(context, [&] { return !peer.local.empty(); });
  CHECK(peer.reason.empty());
}

TEST_CASE("a daemon runs several jobs at once, each with its own store port") {
  asio::io_context context;
  Master master{context, true};
  LinkPeer one{context, master.port};
  LinkPeer two{context, master.port};
  for (LinkPeer* peer : {&one, &two}) {
    peer->client.dial();
    run_until(context, [&] { return !peer->local.empty(); });
  }
  auto join = node(0);
  join.nodes_min = join.nodes_max = 1;
  one.client.send(join);
  join.job = "k";
  two.client.send(join);
  run_until(context, [&] { return !one.heard.empty() && !two.heard.empty(); });
  const int port_one = std::get<link::Sealed>(one.heard[0]).store_port;
  const int port_two = std::get<link::Sealed>(two.heard[0]).store_port;
  CHECK(port_one != port_two);
  CHECK(port_one != master.port);

  // Only the client that still uses a forgotten store is closed.
  tcp::socket holder{context};
  holder.connect({asio::ip::make_address("127.0.0.1"), static_cast<unsigned short>(port_one)});
  std::string bytes;
  REQUIRE(c10d::encode(c10d::Validate{}, c10d::Dialect::d, bytes));
  REQUIRE(c10d::encode(c10d::Add{"n", 1}, c10d::Dialect::d, bytes));
  asio::write(holder, asio::buffer(bytes));
  std::array<char, 64> chunk{};
  bool answered = false;
  bool closed = false;
  holder.async_read_some(asio::buffer(chunk), [&](const asio::error_code&, std::size_t count) {
    answered = count == 8;
    holder.async_read_some(asio::buffer(chunk), [&](const asio::error_code& error, std::size_t) {
      closed = error == asio::error::eof;
    });
  });
  run_until(context, [&] { return answered; });

  one.client.send(link::Succeeded{RoundNumber{1}});
  run_until(context, [&] { return one.heard.size() == 2; });
  one.client.hang_up();
  run_until(context, [&] {
    return std::find(master.notes.begin(), master.notes.end(), "job \"j\" is over") !=
           master.notes.end();
  });
  run_until(context, [&] { return closed; });
  // Its port is closed with it; the other job's is not.
  asio::error_code refused;
  tcp::socket late{context};
  late.connect({asio::ip::make_address("127.0.0.1"), static_cast<unsigned short>(port_one)},
               refused);
  CHECK(refused == asio::error::connection_refused);
  tcp::socket fine{context};
  fine.connect({asio::ip::make_address("127.0.0.1"), static_cast<unsigned short>(port_two)},
               refused);
  CHECK_FALSE(refused);
}

TEST_CASE("the memory of a link is accounted for, and a link over its limit is closed") {
  asio::io_context context;
  std::vector<std::string> notes;
  CoordinatorServer server(context,
                           {.to_local_agent = [](const link::Message&) {},
                            .note = [&](const Note& note) { notes.push_back(note.text); },
                            .done = nullptr},
                           {.memory = {.address_bytes_max = 10'000}});
  const auto opened = server.open({.host = "127.0.0.1"}, {.only = {}, .options = {.lease = 60s}});
  REQUIRE(opened.has_value());
  tcp::socket agent{context};
  agent.connect({asio::ip::make_address("127.0.0.1"), opened->port});
  // The start of a frame of the maximum size.
  const std::string beginning = std::string(link::preamble) + std::string("\x00\x7d\x00\x00", 4);
  asio::write(agent, asio::buffer(beginning + std::string(20'000, 'x')));
  bool is_closed = false;
  std::array<char, 64> chunk{};
  std::function<void()> listen = [&] {
    agent.async_read_some(asio::buffer(chunk), [&](const asio::error_code& error, std::size_t) {
      is_closed = static_cast<bool>(error);
      if (!error) listen();
    });
  };
  listen();
  run_until(context, [&] { return is_closed; });
}

}  // namespace link_io_test

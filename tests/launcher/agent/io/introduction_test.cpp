// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/io/coordinator_client.h"

#include <doctest/doctest.h>

#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <memory>

#include "rendezvous/coordinator/io/coordinator_server.h"

namespace introduction_test {

using namespace cpprun;
using namespace std::chrono_literals;
using asio::ip::tcp;

namespace {

const link::WhoHosts node{.job = "j", .host = "alpha", .pid = 1, .agent = 9, .joins = true};

// A daemon that listens on 127.0.0.1 only, and a node that introduces itself there.
struct Meeting {
  Meeting() : server(context, {.to_local_agent = {}, .note = [](const Note&) {}, .done = {}}) {
    const auto opened =
        server.open({.host = "127.0.0.1"}, CoordinatorOptions{.only = {}, .options = {}});
    REQUIRE(opened.has_value());
    port = opened->port;
  }
  // Introduces itself and waits, with a limit, until that is done.
  bool meet(std::vector<std::string> addresses) {
    bool done = false;
    introduction.begin(std::move(addresses), port, node, [&done] { done = true; });
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (!done && std::chrono::steady_clock::now() < deadline) context.run_one_for(100ms);
    return done;
  }

  asio::io_context context;
  CoordinatorServer server;
  io::Introduction introduction{context};
  int port = 0;
};

}  // namespace

TEST_CASE("a node without further addresses is introduced at once") {
  Meeting meeting;
  bool done = false;
  meeting.introduction.begin({}, meeting.port, node, [&done] { done = true; });
  CHECK(done);
}

TEST_CASE("a node is introduced when every address has answered or is unreachable") {
  Meeting meeting;
  CHECK(meeting.meet({"127.0.0.1"}));
  // The second time beside an address where nothing listens.
  CHECK(meeting.meet({"127.0.0.2", "127.0.0.1"}));
}

TEST_CASE("an address that does not answer is waited for with a limit") {
  // The daemon's port, at an address where another process may have it: then a new daemon is
  // opened.
  std::unique_ptr<Meeting> meeting;
  std::unique_ptr<tcp::acceptor> paused;
  asio::error_code taken = asio::error::address_in_use;
  while (taken == asio::error::address_in_use) {
    paused.reset();
    meeting = std::make_unique<Meeting>();
    const tcp::endpoint end(asio::ip::make_address("127.0.0.3"),
                            static_cast<unsigned short>(meeting->port));
    paused = std::make_unique<tcp::acceptor>(meeting->context, end.protocol());
    paused->bind(end, taken);
  }
  REQUIRE_FALSE(taken);
  // The kernel accepts for it, and it never greets.
  paused->listen();
  CHECK(meeting->meet({"127.0.0.3", "127.0.0.1"}));
}

TEST_CASE("an introduction that was ended does not call back") {
  Meeting meeting;
  bool called = false;
  meeting.introduction.begin({"127.0.0.1"}, meeting.port, node, [&called] { called = true; });
  meeting.introduction.end();
  CHECK(meeting.meet({"127.0.0.1"}));
  CHECK_FALSE(called);
}

TEST_CASE("a worker that connects before this node has dialled a master waits") {
  asio::io_context context;
  LinkSecurity security{Secrets{}};
  io::CoordinatorClient client(context, security, node,
                               {.post = [](const Agent::Event&) {},
                                .refused = [](const PeerAddress&, const std::string&) {}});
  const auto port = client.open_store();
  REQUIRE(port.has_value());
  tcp::socket worker(context);
  worker.connect({asio::ip::make_address("127.0.0.1"), static_cast<unsigned short>(*port)});
  asio::write(worker, asio::buffer("anything", 8));
  // Its bytes are read, and held: there is no link yet.
  while (context.run_one_for(100ms) > 0) {
  }
  CHECK(worker.available() == 0);
  client.close();
}

}  // namespace introduction_test

// SPDX-License-Identifier: BSD-3-Clause
// Whoever gives an order hears that it was done when another cpprund would know of it.

#include <doctest/doctest.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/write.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tests/rendezvous/io/link_kit.h"

using namespace cpprun;
using namespace cpprun::test;
using asio::ip::tcp;

namespace {

// A daemon with a job of two nodes, and somebody who has asked to stop it: that is decided, and a
// standby has not got it yet.
struct OrderedDaemon {
  OrderedDaemon() {
    const auto opened = server.open(
        {.host = loopback},
        {.only = {}, .options = {.lease = 60s, .status_interval = 60s, .last_call = 60s}},
        PlainStore::refused, {.access = StatusAccess::user, .names = {loopback}});
    REQUIRE(opened.has_value());
    for (int rank = 0; rank < 2; ++rank) {
      nodes.push_back(std::make_unique<Guest>(context, opened->port));
      Guest& guest = *nodes.back();
      guest.client.dial();
      run_until(context, [&] { return !guest.local.empty(); });
      guest.client.send(node(rank));
    }
    run_until(context, [&] { return heard<link::Sealed>(0) && heard<link::Sealed>(1); });
    server.wait_for(Keeping::standby, 1);
    visitor.connect({asio::ip::make_address(loopback), static_cast<unsigned short>(opened->port)});
    asio::write(visitor, asio::buffer(std::string_view(
                             "POST /api/v1/jobs/j/stop HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                             "Content-Type: application/json\r\nContent-Length: 0\r\n"
                             "Connection: close\r\n\r\n")));
    reader.emplace(visitor);
    run_until(context, [&] {
      return std::ranges::any_of(
          notes, [](const std::string& note) { return note.find("asks to stop") != note.npos; });
    });
    context.restart();
    context.poll();
  }
  template <class Message>
  bool heard(std::size_t node) const {
    return std::ranges::any_of(nodes[node]->heard, [](const link::Message& message) {
      return std::holds_alternative<Message>(message);
    });
  }

  asio::io_context context;
  std::vector<std::string> notes;
  CoordinatorServer server{context,
                           {.to_local_agent = [](const link::Message&) {},
                            .note = [this](const Note& note) { notes.push_back(note.text); },
                            .done = nullptr}};
  std::vector<std::unique_ptr<Guest>> nodes;
  tcp::socket visitor{context};
  std::optional<Reader> reader;
};

}  // namespace

TEST_CASE("an order is answered when a standby has what came of it, and its nodes hear it then") {
  OrderedDaemon daemon;
  CHECK(daemon.reader->heard == "");
  CHECK_FALSE(daemon.heard<link::Drain>(0));
  daemon.server.kept(Keeping::standby, 1);
  run_until(daemon.context,
            [&] { return daemon.reader->is_closed && daemon.heard<link::Drain>(0); });
  CHECK_MESSAGE(daemon.reader->heard.starts_with("HTTP/1.1 200"), daemon.reader->heard);
}

TEST_CASE(
    "an order of which nobody else knows is not done for whoever asked, when the lead is lost") {
  OrderedDaemon daemon;
  daemon.server.follow({.reason = "nobody leads"});
  run_until(daemon.context, [&] { return daemon.reader->is_closed; });
  CHECK_MESSAGE(daemon.reader->heard.starts_with("HTTP/1.1 409"), daemon.reader->heard);
  CHECK(daemon.reader->heard.find("may not lead any more") != std::string::npos);
  CHECK_FALSE(daemon.heard<link::Drain>(0));
}

TEST_CASE("one that does not know whether it leads still does not say that it has done anything") {
  OrderedDaemon daemon;
  daemon.server.speak_until(TimePoint{});
  daemon.server.kept(Keeping::standby, 1);
  run_until(daemon.context, [&] { return daemon.reader->is_closed; });
  CHECK_MESSAGE(daemon.reader->heard.starts_with("HTTP/1.1 409"), daemon.reader->heard);
}

// SPDX-License-Identifier: BSD-3-Clause
// A client receives the result of its command only when another cpprund would know of it.

#include <doctest/doctest.h>

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/write.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/job/job_record_json.h"
#include "tests/rendezvous/io/link_kit.h"

namespace held_orders_test {

using namespace cpprun;
using namespace cpprun::test;
using asio::ip::tcp;

namespace {

// A client that sends that command.
struct Asker {
  Asker(asio::io_context& context, int port, const std::string& what)
      : socket(dial(context, port)) {
    asio::write(socket, asio::buffer("POST /api/v1/" + what +
                                     " HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                                     "Content-Type: application/json\r\nContent-Length: 0\r\n"
                                     "Connection: close\r\n\r\n"));
  }
  bool has_answer() const { return reader.is_closed; }
  const std::string& answer() const { return reader.heard; }

  tcp::socket socket;
  Reader reader{socket};
};

// A daemon with a job of two nodes, and a client whose command to stop it is decided. The argument
// says what happens before the result is sent: by default, a standby has not received it yet.
struct CommandedDaemon {
  using Meanwhile = std::function<void(CommandedDaemon&)>;
  explicit CommandedDaemon(const Meanwhile& meanwhile = [](CommandedDaemon& daemon) {
    daemon.server.wait_for(CommitSource::log, 1);
  }) {
    const auto opened =
        server.open({.host = loopback},
                    {.only = {},
                     .options = {.lease = 60s, .status_interval = 60s, .last_call = 60s},
                     .keeps_records = true},
                    PlainStore::refused, {.access = StatusAccess::user, .names = {loopback}});
    REQUIRE(opened.has_value());
    for (int rank = 0; rank < 2; ++rank) {
      nodes.push_back(std::make_unique<LinkPeer>(context, opened->port));
      LinkPeer& peer = *nodes.back();
      peer.client.dial();
      run_until(context, [&] { return !peer.local.empty(); });
      peer.client.send(node(rank));
    }
    run_until(context, [&] { return heard<link::Sealed>(0) && heard<link::Sealed>(1); });
    meanwhile(*this);
    asker.emplace(context, opened->port, "jobs/j/stop");
    port = opened->port;
    run_until(context, [&] { return noted("asks to stop"); });
    context.restart();
    context.poll();
  }
  bool noted(const std::string& words) const {
    return std::ranges::any_of(
        notes, [&](const std::string& note) { return note.find(words) != note.npos; });
  }
  template <class Message>
  bool heard(std::size_t node) const {
    return std::ranges::any_of(nodes[node]->heard, [](const link::Message& message) {
      return std::holds_alternative<Message>(message);
    });
  }

  asio::io_context context;
  std::vector<std::string> notes;
  std::function<std::uint64_t()> keep;  // a record on the disk
  CoordinatorServer server{
      context,
      {.to_local_agent = [](const link::Message&) {},
       .note = [this](const Note& note) { notes.push_back(note.text); },
       .done = nullptr,
       .keep_record = [this](const auto&, const auto&) { return keep ? keep() : 0; },
       .forget_record = [](const auto&) { return std::uint64_t{0}; }}};
  std::vector<std::unique_ptr<LinkPeer>> nodes;
  std::optional<Asker> asker;
  int port = 0;
};

}  // namespace

TEST_CASE("a command is answered after a standby has the result, and its nodes receive it then") {
  CommandedDaemon daemon;
  CHECK(daemon.asker->answer() == "");
  CHECK_FALSE(daemon.heard<link::Drain>(0));
  daemon.server.kept(CommitSource::log, 1);
  run_until(daemon.context,
            [&] { return daemon.asker->has_answer() && daemon.heard<link::Drain>(0); });
  CHECK_MESSAGE(daemon.asker->answer().starts_with("HTTP/1.1 200"), daemon.asker->answer());
}

TEST_CASE("a command that no standby has is not confirmed when leadership is lost") {
  CommandedDaemon daemon;
  daemon.server.follow({.reason = "no leader"});
  run_until(daemon.context, [&] { return daemon.asker->has_answer(); });
  CHECK_MESSAGE(daemon.asker->answer().starts_with("HTTP/1.1 409"), daemon.asker->answer());
  CHECK(daemon.asker->answer().find("may have lost leadership") != std::string::npos);
  CHECK_FALSE(daemon.heard<link::Drain>(0));
}

TEST_CASE("a decision that is interrupted by a loss of leadership is not sent to any node") {
  std::uint64_t records = 0;
  CommandedDaemon daemon([&](CommandedDaemon& self) {
    self.keep = [&] {
      if (++records == 1) self.server.follow({.reason = "its right ran out while it was stopped"});
      return records;
    };
  });
  REQUIRE(records > 0);
  daemon.server.leader_until({});
  daemon.server.kept(CommitSource::record, records);
  run_until(daemon.context, [&] {
    return daemon.asker->has_answer() && daemon.heard<link::NotLeading>(0) &&
           daemon.heard<link::NotLeading>(1);
  });
  CHECK_MESSAGE(daemon.asker->answer().starts_with("HTTP/1.1 409"), daemon.asker->answer());
  CHECK_FALSE(daemon.heard<link::Drain>(0));
  CHECK_FALSE(daemon.heard<link::Drain>(1));
}

TEST_CASE("a job that ends while messages are held is known to the nodes that come back") {
  CommandedDaemon daemon([](CommandedDaemon& self) { self.server.leader_until(TimePoint{}); });
  for (const auto& each : daemon.nodes) each->client.send(link::Drained{RoundNumber{1}});
  run_until(daemon.context, [&] {
    const auto records = daemon.server.records();
    const auto record = read_job_record(records.at("j"), {});
    return record && record->finish.has_value();
  });
  daemon.server.leader_until({});
  for (const auto& each : daemon.nodes) {
    run_until(daemon.context, [&] { return !each->reason.empty(); });
  }
  for (int rank = 0; rank < 2; ++rank) {
    LinkPeer& peer = *daemon.nodes[static_cast<std::size_t>(rank)];
    CHECK_FALSE(daemon.heard<link::Finish>(static_cast<std::size_t>(rank)));
    auto again = node(rank);
    again.after = RoundNumber{1};
    again.idle = true;
    peer.local.clear();
    peer.client.dial();
    run_until(daemon.context, [&] { return !peer.local.empty(); });
    peer.client.send(again);
    run_until(daemon.context, [&] {
      return daemon.heard<link::Finish>(static_cast<std::size_t>(rank)) ||
             daemon.heard<link::Refused>(static_cast<std::size_t>(rank));
    });
    CHECK(daemon.heard<link::Finish>(static_cast<std::size_t>(rank)));
  }
}

TEST_CASE("a rejection is sent at once, whatever is held before it") {
  CommandedDaemon daemon;
  const Asker other(daemon.context, daemon.port, "daemon/handover");
  run_until(daemon.context, [&] { return other.has_answer(); });
  CHECK_MESSAGE(other.answer().starts_with("HTTP/1.1 409"), other.answer());
  CHECK_FALSE(daemon.asker->has_answer());
  CHECK(other.answer().find("has no standby") != std::string::npos);
}

TEST_CASE("a daemon whose lease may have expired does not confirm commands") {
  CommandedDaemon daemon;
  daemon.server.leader_until(TimePoint{});
  daemon.server.kept(CommitSource::log, 1);
  run_until(daemon.context, [&] { return daemon.asker->has_answer(); });
  CHECK_MESSAGE(daemon.asker->answer().starts_with("HTTP/1.1 409"), daemon.asker->answer());
}

}  // namespace held_orders_test

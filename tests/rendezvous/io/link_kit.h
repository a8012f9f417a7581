// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A coordinator with its port and agents' ends of links, in one event loop.

#include <doctest/doctest.h>

#include <array>
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/client/io/link_client.h"
#include "rendezvous/coordinator/io/coordinator_server.h"

namespace cpprun::test {

using namespace std::chrono_literals;

// Runs the loop until `enough`, or fails the test: no sleep, and no wait without a limit.
inline void run_until(asio::io_context& context, const std::function<bool()>& enough) {
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  context.restart();
  while (!enough() && std::chrono::steady_clock::now() < deadline) context.run_one_for(100ms);
  REQUIRE(enough());
}

// One agent's end, and everything it received.
struct LinkPeer {
  LinkPeer(asio::io_context& context, int port, std::string host = "127.0.0.1",
           std::shared_ptr<SecureContext> secure = nullptr)
      : client(context, std::move(host), port,
               {.up = [this](std::string address) { local = std::move(address); },
                .message = [this](link::Message m) { heard.push_back(std::move(m)); },
                .down = [this](std::string why) { reason = std::move(why); }},
               std::move(secure)) {}
  std::string local;
  std::vector<link::Message> heard;
  std::string reason;
  LinkClient client;
};

struct Master {
  explicit Master(asio::io_context& context, bool daemon = false,
                  std::shared_ptr<SecureContext> secure = nullptr)
      : server(context, {.to_local_agent =
                             [this](link::Message m) {
                               heard.push_back(m);
                               if (answer) answer(m);
                             },
                         .note = [this](const Note& note) { notes.push_back(note.text); },
                         .done = [this] { done = true; }}) {
    CoordinatorOptions options{.only = {},
                               .options = {.lease = 60s, .status_interval = 60s, .last_call = 60s}};
    if (!daemon) options.only = JobTerms{.id = "j", .nodes_min = 2, .nodes_max = 2};
    if (secure) server.require_secret(std::move(secure));
    const auto opened = server.open({.host = "127.0.0.1"}, options);
    REQUIRE(opened.has_value());
    port = opened->port;
  }
  std::vector<link::Message> heard;
  std::function<void(const link::Message&)> answer;  // called for the local agent at once
  std::vector<std::string> notes;
  bool done = false;
  CoordinatorServer server;
  int port = 0;
};

inline constexpr auto loopback = "127.0.0.1";

inline asio::ip::tcp::socket dial(asio::io_context& context, int port) {
  asio::ip::tcp::socket socket{context};
  socket.connect({asio::ip::make_address(loopback), static_cast<unsigned short>(port)});
  return socket;
}

// Reads until the other side closes.
struct Reader {
  explicit Reader(asio::ip::tcp::socket& from) : socket(from) { read(); }
  void read() {
    socket.async_read_some(asio::buffer(chunk), [this](const asio::error_code& error, auto count) {
      heard.append(chunk.data(), count);
      is_closed = static_cast<bool>(error);
      if (!error) read();
    });
  }
  asio::ip::tcp::socket& socket;
  std::array<char, 4096> chunk{};
  std::string heard;
  bool is_closed = false;
};

inline link::Join node(int rank) {
  return {.job = "j",
          .host = "host" + std::to_string(rank),
          .pid = 100 + rank,
          .node_rank = rank,
          .nodes_min = 2,
          .nodes_max = 2};
}

}  // namespace cpprun::test

// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/io/link_channel.h"

#include <doctest/doctest.h>

#include <asio/io_context.hpp>
#include <vector>

#include "proto/link/codec.h"

namespace link_channel_test {

using namespace cpprun;
using namespace std::chrono_literals;
using asio::ip::tcp;

namespace {

// Two ends of one connection with small kernel buffers.
struct Pair {
  Pair() {
    tcp::acceptor acceptor{context, {asio::ip::make_address("127.0.0.1"), 0}};
    acceptor.set_option(asio::socket_base::receive_buffer_size(4096));
    tcp::socket near{context};
    near.open(tcp::v4());
    near.set_option(asio::socket_base::send_buffer_size(4096));
    near.connect(acceptor.local_endpoint());
    tcp::socket far = acceptor.accept();
    sender = std::make_shared<LinkChannel>(std::move(near), "");
    reader = std::make_shared<LinkChannel>(std::move(far), "");
    sender->start({.message = {},
                   .holds = [this](std::size_t bytes) { return holds ? holds(bytes) : ""; },
                   .closed = [this](std::string why) { sender_ended = why; }});
  }
  ~Pair() {
    sender->forget();
    reader->forget();
  }
  void start_reading() {
    reader->start({.message = [this](link::Message m) { heard.push_back(std::move(m)); },
                   .closed = [this](std::string why) { reader_ended = why; }});
  }
  // No sleep, and no wait without a limit.
  void run_until(const std::function<bool()>& enough) {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    context.restart();
    while (!enough() && std::chrono::steady_clock::now() < deadline) context.run_one_for(100ms);
    REQUIRE(enough());
  }

  asio::io_context context;
  std::shared_ptr<LinkChannel> sender, reader;
  std::vector<link::Message> heard;
  std::string sender_ended, reader_ended;
  std::function<std::string(std::size_t)> holds;  // the sender's accounting
};

link::Message numbered(int number) {
  return link::Leave{.signal = 15, .reason = std::to_string(number) + std::string(1000, 'x')};
}

}  // namespace

TEST_CASE("what a full socket does not accept follows in order once the other side reads") {
  Pair pair;
  constexpr int count = 100;
  for (int number = 0; number < count; ++number) pair.sender->send(numbered(number));
  pair.start_reading();
  pair.run_until([&] { return pair.heard.size() == count; });
  for (int number = 0; number < count; ++number) {
    CHECK(pair.heard[static_cast<std::size_t>(number)] == numbered(number));
  }
}

TEST_CASE("a link that hangs up with a full socket sends everything before it ends") {
  Pair pair;
  constexpr int count = 100;
  for (int number = 0; number < count; ++number) pair.sender->send(numbered(number));
  pair.sender->hang_up("enough");
  pair.start_reading();
  pair.run_until([&] { return !pair.reader_ended.empty() && !pair.sender_ended.empty(); });
  CHECK(pair.heard.size() == count);
  CHECK(pair.sender_ended == "enough");
  CHECK(pair.reader_ended == "connection closed by the peer");
}

TEST_CASE("a broken link is distinguished from a closed link") {
  Pair pair;
  pair.start_reading();
  pair.sender->break_off();
  pair.run_until([&] { return !pair.reader_ended.empty() && !pair.sender_ended.empty(); });
  CHECK(pair.reader->broke());
  CHECK(pair.reader_ended == "Connection reset by peer");
  CHECK(pair.sender_ended == "connection aborted");
}

TEST_CASE("a link whose other side does not read is closed at a limit, with a log line") {
  Pair pair;
  for (int number = 0; number < 2000; ++number) pair.sender->send(numbered(number));
  pair.run_until([&] { return !pair.sender_ended.empty(); });
  CHECK(pair.sender_ended.starts_with("the peer does not read: more than"));
}

TEST_CASE("the pending bytes of a link are accounted for, down to the last") {
  Pair pair;
  std::vector<std::size_t> held;
  pair.holds = [&](std::size_t bytes) {
    held.push_back(bytes);
    return std::string();
  };
  for (int number = 0; number < 100; ++number) pair.sender->send(numbered(number));
  REQUIRE_FALSE(held.empty());
  CHECK(held.back() > 50'000);
  pair.start_reading();
  pair.run_until([&] { return pair.heard.size() == 100; });
  CHECK(held.back() == 0);
}

TEST_CASE("a link that exceeds its memory limit ends with the reason") {
  Pair pair;
  pair.holds = [](std::size_t bytes) {
    return bytes > 20'000 ? std::string("too much") : std::string();
  };
  for (int number = 0; number < 100; ++number) pair.sender->send(numbered(number));
  pair.run_until([&] { return !pair.sender_ended.empty(); });
  CHECK(pair.sender_ended == "too much");
}

TEST_CASE("the bytes of a partial message are accounted for, whichever listener is set") {
  Pair pair;
  std::vector<std::size_t> held;
  pair.reader->start({.message = {},
                      .holds =
                          [&](std::size_t bytes) {
                            held.push_back(bytes);
                            return std::string();
                          },
                      .closed = [&](std::string why) { pair.reader_ended = why; }});
  const std::string length = {0, 0x7C, 0, 0};  // of 31 KiB
  pair.sender->send_bytes(length + std::string(1000, ' '));
  pair.run_until([&] { return !held.empty() && held.back() >= 1004; });
  // Another listener replaces it and does not account for memory.
  pair.reader->listen({.message = {}, .closed = [&](std::string why) { pair.reader_ended = why; }});
  pair.sender->send_bytes(std::string(2000, ' '));
  pair.run_until([&] { return held.back() >= 3004; });
  CHECK(held.back() < 2 * 3004 + 1000);  // only received bytes are kept
  CHECK(pair.reader_ended.empty());
}

TEST_CASE("a small part of a message behind many complete ones costs little") {
  Pair pair;
  std::vector<std::size_t> held;
  pair.reader->start({.message = [&](link::Message m) { pair.heard.push_back(std::move(m)); },
                      .holds =
                          [&](std::size_t bytes) {
                            held.push_back(bytes);
                            return std::string();
                          },
                      .closed = [&](std::string why) { pair.reader_ended = why; }});
  std::string bytes;
  for (int number = 0; number < 30; ++number) bytes += link::encode(numbered(number));
  pair.sender->send_bytes(bytes + "\1");
  pair.run_until([&] { return pair.heard.size() == 30 && !held.empty() && held.back() < 1000; });
  CHECK(held.back() > 0);
}

}  // namespace link_channel_test

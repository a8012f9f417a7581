// SPDX-License-Identifier: BSD-3-Clause
// Clients without a socket, driven as a daemon drives them: by serve_streams() and by what an
// io_context sees of the set.

#include <doctest/doctest.h>

#include <asio/io_context.hpp>
#include <cstring>
#include <memory>
#include <string>

#include "proto/c10d/codec.h"
#include "rendezvous/store/io/connection_driver.h"
#include "tests/proto/c10d_golden.h"
#include "tests/rendezvous/store/io/served_set.h"
#include "tests/rendezvous/store/spoken.h"

namespace connection_streams_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

// A client whose bytes are two strings.
class TextStream : public StoreStream {
 public:
  explicit TextStream(asio::io_context& io) : io_(io) {}

  std::size_t read(std::span<char> into) override {
    const std::size_t count = std::min(into.size(), said.size());
    std::memcpy(into.data(), said.data(), count);
    said.erase(0, count);
    return count;
  }
  std::size_t write(std::string_view bytes) override {
    heard += bytes;
    io_.stop();
    return bytes.size();
  }
  void closed() override { io_.stop(); }

  std::string said, heard;

 private:
  asio::io_context& io_;
};

struct Fixture {
  Fixture() {
    const auto opened = served.set.open_stream(served.listening.id, {}, stream);
    REQUIRE(opened);
    id = *opened;
  }

  // The reply that arrives within ten seconds.
  std::string ask(std::string_view bytes) {
    stream->heard.clear();
    stream->said += bytes;
    served.set.tell_stream(id, {.has_bytes = true});
    served.set.serve_streams(std::chrono::steady_clock::now());
    io.restart();
    if (stream->heard.empty()) io.run_for(10s);
    return stream->heard;
  }

  asio::io_context io;
  ServedSet served;
  ConnectionDriver driver{io, served.set};
  std::shared_ptr<TextStream> stream = std::make_shared<TextStream>(io);
  ConnectionId id{};
};

}  // namespace

// Only time distinguishes PyTorch 1.13's DELETE_KEY from 2.1's APPEND, and no other client may send
// anything meanwhile.
TEST_CASE("an old client that deletes a key is answered even if nothing else happens") {
  Fixture fixture;
  CHECK(fixture.ask(c10d::golden::bytes_of("03 04 00 00 00 00 00 00 00 2f 61 2f 62"
                                           "01 00 00 00 00 00 00 00")) == number(1));
  CHECK(fixture.ask(c10d::golden::bytes_of("08 04 00 00 00 00 00 00 00 2f 61 2f 62")) == number(1));
}

}  // namespace connection_streams_test

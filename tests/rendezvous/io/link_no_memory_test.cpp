// SPDX-License-Identifier: BSD-3-Clause
// There is no memory for the incoming or outgoing bytes of one link: that link breaks, and no other
// is affected.

#include <doctest/doctest.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "rendezvous/io/link_channel.h"
#include "tests/proto/secure_pair.h"

namespace {

// Allocations of this size or more fail.
std::size_t refused_from = std::numeric_limits<std::size_t>::max();

}  // namespace

// Replaces the allocator of this whole program.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  void* const got = bytes >= refused_from ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (got != nullptr) return got;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

using namespace cpprun;
using namespace std::chrono_literals;
using asio::ip::tcp;

namespace {

struct Ends {
  std::shared_ptr<LinkChannel> near;
  std::shared_ptr<LinkChannel> far;
  std::vector<link::Message> heard;  // by the remote agent
  std::string near_ended;
  std::string far_ended;
};

class Links {
 public:
  ~Links() {
    refused_from = std::numeric_limits<std::size_t>::max();
    for (const auto& each : all_) {
      each->near->forget();
      each->far->forget();
    }
  }

  Ends& open(bool is_secure) {
    tcp::acceptor acceptor{context_, {asio::ip::make_address("127.0.0.1"), 0}};
    acceptor.set_option(asio::socket_base::receive_buffer_size(4096));
    tcp::socket near{context_};
    near.open(tcp::v4());
    near.set_option(asio::socket_base::send_buffer_size(4096));
    near.connect(acceptor.local_endpoint());
    std::unique_ptr<SecureChannel> ciphers[2];
    if (is_secure) {
      const Secret secret = test::secret_named("blue");
      ciphers[0] = std::make_unique<SecureChannel>(test::client_of(secret));
      ciphers[1] = std::make_unique<SecureChannel>(test::server_of({secret}));
      ciphers[0]->say(" ");
      test::exchange(*ciphers[0], *ciphers[1]);
      ciphers[1]->take_heard();
    }
    Ends& ends = *all_.emplace_back(std::make_unique<Ends>());
    ends.near = std::make_shared<LinkChannel>(std::move(near), "", std::move(ciphers[0]));
    ends.far = std::make_shared<LinkChannel>(acceptor.accept(), "", std::move(ciphers[1]));
    ends.near->start(
        {.message = {}, .closed = [&ends](std::string why) { ends.near_ended = std::move(why); }});
    ends.far->start(
        {.message = [&ends](link::Message message) { ends.heard.push_back(std::move(message)); },
         .closed = [&ends](std::string why) { ends.far_ended = std::move(why); }});
    context_.poll();
    return ends;
  }

  void run_until(const std::function<bool()>& enough) {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    context_.restart();
    while (!enough() && std::chrono::steady_clock::now() < deadline) context_.run_one_for(100ms);
    REQUIRE(enough());
  }

 private:
  asio::io_context context_;
  std::vector<std::unique_ptr<Ends>> all_;
};

link::Message long_one() {
  return link::Leave{.signal = 15, .reason = std::string(2000, 'x')};
}

void play(bool is_secure) {
  Links links;
  Ends& poor = links.open(is_secure);
  Ends& other = links.open(is_secure);
  SUBCASE("for incoming bytes") {
    poor.near->send(long_one());
    refused_from = 1500;
    links.run_until([&] { return !poor.far_ended.empty(); });
    CHECK(poor.far_ended == "out of memory");
    CHECK(poor.far->broke());
    CHECK(poor.heard.empty());
  }
  SUBCASE("for a message to send") {
    const link::Message message = long_one();
    refused_from = 1500;
    poor.near->send(message);
    links.run_until([&] { return !poor.near_ended.empty(); });
    CHECK(poor.near_ended == "out of memory");
    CHECK(poor.near->broke());
  }
  SUBCASE("for bytes that are not read") {
    const link::Message message = long_one();
    refused_from = 32 * 1024;
    for (int left = 2000; left > 0; --left) poor.near->send(message);
    links.run_until([&] { return !poor.near_ended.empty(); });
    CHECK(poor.near_ended == "out of memory");
  }
  refused_from = std::numeric_limits<std::size_t>::max();
  other.near->send(long_one());
  links.run_until([&] { return other.heard.size() == 1; });
  CHECK(other.heard[0] == long_one());
  CHECK(other.near_ended == "");
}

}  // namespace

TEST_CASE("a link without memory ends, and no other does") {
  play(false);
}

TEST_CASE("an encrypted link without memory ends alone, too") {
  play(true);
}

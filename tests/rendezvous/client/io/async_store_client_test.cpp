// SPDX-License-Identifier: BSD-3-Clause
// Failures of the asynchronous client's connections, which the test opens and plays.
#include "rendezvous/client/io/async_store_client.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/c10d/codec.h"

namespace async_store_client_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

// A socket whose other end the test has, with a failure that comes seldom.
class Transport : public StoreTransport {
 public:
  enum class Failure { none, cannot_be_watched, no_memory };
  Transport(FileDescriptor socket, Failure failure)
      : inner_(store_transport_over(std::move(socket))), failure_(failure) {}
  StoreResult<std::size_t> send(std::string_view bytes, TimePoint deadline) override {
    return inner_->send(bytes, deadline);
  }
  StoreResult<std::size_t> receive(std::span<char> into, TimePoint deadline) override {
    if (failure_ == Failure::no_memory) throw std::bad_alloc();
    return inner_->receive(into, deadline);
  }
  StoreResult<int> descriptor() override {
    return failure_ == Failure::cannot_be_watched ? file_.get() : inner_->descriptor();
  }
  void interrupt() noexcept override { inner_->interrupt(); }

 private:
  std::unique_ptr<StoreTransport> inner_;
  // An epoll set takes no regular files.
  FileDescriptor file_{::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
  const Failure failure_;
};
using Failure = Transport::Failure;

struct World {
  std::vector<Failure> failures;  // of the connections, in order
  std::vector<FileDescriptor> peers = {};
  std::shared_ptr<AsyncStoreClient> client = {};

  StoreResult<void> open() {
    auto opened = AsyncStoreClient::open({.timeout = 20s, .key_prefix = ""}, [this] {
      std::array<int, 2> ends{};
      REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) ==
              0);
      const Failure failure = failures.at(peers.size());
      peers.emplace_back(ends[1]);
      return StoreResult<std::unique_ptr<StoreTransport>>(
          std::make_unique<Transport>(FileDescriptor(ends[0]), failure));
    });
    if (!opened) return tl::unexpected(opened.error());
    client = std::move(*opened);
    return {};
  }
  void reply(std::size_t connection, const c10d::Reply& reply) {
    std::string bytes;
    c10d::encode(reply, bytes);
    REQUIRE(::write(peers.at(connection).get(), bytes.data(), bytes.size()) ==
            static_cast<ssize_t>(bytes.size()));
  }
};

struct Result {
  std::optional<StoreResult<AsyncValue>> value;
  AsyncStoreClient::Done take() {
    return [this](AsyncRequestId, const StoreResult<AsyncValue>& given) { value = given; };
  }
};

}  // namespace

TEST_CASE("a wait whose connection cannot be watched fails, and the next one gets another") {
  World world{{Failure::none, Failure::cannot_be_watched, Failure::none}};
  REQUIRE(world.open());
  const auto missing = [&] {
    world.reply(0, c10d::Checked{false});
    world.reply(0, c10d::Value{""});
    world.client->dispatch();
  };
  Result lost;
  REQUIRE(world.client->get("a", {}, lost.take()));
  missing();
  REQUIRE(lost.value.has_value());
  CHECK(lost.value->error().reason == "cannot watch a socket: Operation not permitted");
  Result got;
  REQUIRE(world.client->get("b", {}, got.take()));
  missing();
  REQUIRE(world.peers.size() == 3);
  world.reply(2, c10d::Waited{});
  world.client->dispatch();
  world.reply(0, c10d::Checked{true});
  world.reply(0, c10d::Value{"v"});
  world.client->dispatch();
  REQUIRE(got.value.has_value());
  CHECK((*got.value)->text == "v");
}

TEST_CASE("a client whose first connection cannot be watched is not opened") {
  World world{{Failure::cannot_be_watched}};
  const auto opened = world.open();
  REQUIRE_FALSE(opened);
  CHECK(opened.error().reason == "cannot watch a socket: Operation not permitted");
}

TEST_CASE("without memory for a reply, every request ends with that reason") {
  World world{{Failure::no_memory}};
  REQUIRE(world.open());
  Result sum;
  Result got;
  REQUIRE(world.client->add("n", 1, {}, sum.take()));
  REQUIRE(world.client->get("k", {}, got.take()));
  world.reply(0, c10d::Number{1});
  world.client->dispatch();
  REQUIRE(sum.value.has_value());
  CHECK(sum.value->error().code == StoreErrorCode::no_memory);
  REQUIRE(got.value.has_value());
  CHECK(got.value->error().code == StoreErrorCode::no_memory);
  CHECK(world.client->is_broken());
  CHECK(world.client->in_progress() == 0);
}

}  // namespace async_store_client_test

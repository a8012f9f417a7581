// SPDX-License-Identifier: BSD-3-Clause
// Does every operation of LibTorch's TCPStore client against a server and checks each answer:
//
//   torch_store_client HOST PORT   against that server
//   torch_store_client --self      against LibTorch's own, which checks the checks

#include <fmt/format.h>

#include <cstdio>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace {

using namespace std::chrono_literals;
using Bytes = std::vector<std::uint8_t>;
using StorePointer = c10::intrusive_ptr<c10d::Store>;

int checks = 0;

void check(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(fmt::format("not so: {}", what));
  ++checks;
}

Bytes bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

StorePointer connect(const std::string& host, std::uint16_t port) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.waitWorkers = false;
  options.timeout = 20s;
  return c10::make_intrusive<c10d::TCPStore>(host, options);
}

void exercise_values(c10d::Store& store) {
  store.set("key", bytes("value"));
  check(store.get("key") == bytes("value"), "get returns what set stored");
  store.set("key", Bytes());
  check(store.get("key").empty(), "an empty value is a value");
  store.set("binary", Bytes{0, 255, 10, 0});
  check(store.get("binary") == Bytes{0, 255, 10, 0}, "values are bytes");
  const Bytes large(8 << 20, 0x5a);
  store.set("large", large);
  check(store.get("large") == large, "8 MiB come back whole");
  check(store.add("count", 5) == 5, "add starts at zero");
  check(store.add("count", -7) == -2, "add adds");
  check(store.get("count") == bytes("-2"), "a count is readable as text");
  check(store.compareSet("new", bytes(""), bytes("a")) == bytes("a"), "compareSet creates");
  check(store.compareSet("new", bytes("x"), bytes("b")) == bytes("a"), "compareSet refuses");
  check(store.compareSet("new", bytes("a"), bytes("b")) == bytes("b"), "compareSet replaces");
  store.append("log", bytes("one "));
  store.append("log", bytes("two"));
  check(store.get("log") == bytes("one two"), "append appends");
}

void exercise_keys(c10d::Store& store) {
  store.multiSet({"m1", "m2"}, {bytes("1"), bytes("2")});
  const auto many = store.multiGet({"m2", "m1"});
  check(many.size() == 2 && many[0] == bytes("2") && many[1] == bytes("1"), "multiGet in order");
  check(store.check({"m1", "m2"}), "check finds all");
  check(!store.check({"m1", "nowhere"}), "check misses one");
  const std::int64_t before = store.getNumKeys();
  check(store.deleteKey("m1"), "deleteKey finds");
  check(!store.deleteKey("m1"), "deleteKey misses");
  check(store.getNumKeys() == before - 1, "one key fewer");
  bool listed = false;
  for (const std::string& key : store.listKeys()) listed = listed || key.ends_with("m2");
  check(listed, "listKeys lists");
}

void exercise_waits(c10d::Store& store, const std::string& host, std::uint16_t port) {
  store.wait({"m2"});
  std::string reason;
  try {
    store.wait({"never"}, 50ms);
  } catch (const c10::DistStoreError& error) {
    reason = error.what_without_backtrace();
  }
  check(reason.find("timeout") != std::string::npos, "a wait for nothing times out");
  check(store.check({"m2"}), "the connection serves on after a time-out");
  std::thread other([&] {
    const auto second = connect(host, port);
    c10d::PrefixStore same("client_test", second);
    same.wait({"go"});
    same.set("gone", bytes("yes"));
  });
  store.set("go", bytes("1"));
  check(store.get("gone") == bytes("yes"), "get waits for another client's set");
  other.join();
}

void exercise_queues(c10d::Store& store) {
  check(store.queueLen("queue") == 0, "a queue starts empty");
  store.queuePush("queue", bytes("first"));
  store.queuePush("queue", bytes("second"));
  check(store.queueLen("queue") == 2, "two are queued");
  check(store.queuePop("queue", true) == bytes("first"), "first in, first out");
  check(store.queuePop("queue", false) == bytes("second"), "the second follows");
  bool refused = false;
  try {
    store.queuePop("queue", false);
  } catch (const std::exception&) {
    refused = true;
  }
  check(refused, "an empty queue does not block who asked not to wait");
}

void exercise(const std::string& host, std::uint16_t port) {
  const auto store = connect(host, port);
  c10d::PrefixStore prefixed("client_test", store);
  exercise_values(prefixed);
  exercise_keys(prefixed);
  exercise_waits(prefixed, host, port);
  exercise_queues(prefixed);
  const auto clone = prefixed.clone();
  check(clone->get("key").empty(), "a clone sees the same keys");
  std::thread other([&] {
    const auto second = connect(host, port);
    c10d::PrefixStore("client_test", second).barrier("barrier", 2, 20s);
  });
  prefixed.barrier("barrier", 2, 20s);
  other.join();
  check(true, "two clients pass a barrier");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 2 && std::string(argv[1]) == "--self") {
      c10d::TCPStoreOptions options;
      options.port = 0;
      options.isServer = true;
      options.waitWorkers = false;
      const c10d::TCPStore server("127.0.0.1", options);
      exercise("127.0.0.1", server.getPort());
    } else if (argc == 3) {
      exercise(argv[1], static_cast<std::uint16_t>(std::stoi(argv[2])));
    } else {
      fmt::print(stderr, "usage: torch_store_client HOST PORT | --self\n");
      return 2;
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "torch_store_client: after {} checks: {}\n", checks, error.what());
    return 1;
  }
  fmt::print("torch_store_client: {} checks hold\n", checks);
  return 0;
}

// SPDX-License-Identifier: BSD-3-Clause
// The public headers as another program uses them: the C functions, and the C++ classes on top of
// them.
#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "tests/rendezvous/embed/io/store_api.h"

namespace store_api_test {

using namespace std::chrono_literals;

namespace {

std::string error_after(int outcome) {
  CHECK(outcome == -1);
  return cpprun_store_error();
}

void refused(int outcome, const std::string& words) {
  CHECK(error_after(outcome) == "cpprun_store_" + words + " is a null pointer");
}

}  // namespace

TEST_CASE("another program can send the store every request") {
  const auto server = server_here();
  auto client = client_of(server.port());
  CHECK(server.address() == "127.0.0.1:" + std::to_string(server.port()));
  CHECK(client.set("k", "v"));
  CHECK(*client.get("k") == "v");
  CHECK(client.append("k", "w"));
  CHECK(*client.find("k") == std::optional<std::string>("vw"));
  CHECK(*client.find("missing") == std::nullopt);
  CHECK(*client.add("n", 5) == 5);
  CHECK(*client.add("n", -7) == -2);
  CHECK(*client.compare_set("c", "", "first") == "first");
  CHECK(*client.compare_set("c", "x", "second") == "first");
  CHECK(*client.check({"k", "n"}));
  CHECK_FALSE(*client.check({"k", "missing"}));
  CHECK(client.wait({"k", "n"}));
  CHECK(client.barrier("all", 1));
  CHECK(*client.delete_key("c"));
  CHECK_FALSE(*client.delete_key("c"));
  CHECK(client.multi_set({{"a", "1"}, {"b", ""}}));
  CHECK(*client.multi_get({"a", "b"}) == std::vector<std::string>{"1", ""});
  CHECK(client.queue_push("q", "first"));
  CHECK(*client.queue_length("q") == 1);
  CHECK(*client.queue_pop("q") == std::optional<std::string>("first"));
  CHECK(*client.queue_pop("q") == std::nullopt);
  auto keys = *client.list_keys();
  CHECK(static_cast<std::int64_t>(keys.size()) <= *client.num_keys());
  CHECK(std::find(keys.begin(), keys.end(), "k") != keys.end());
}

TEST_CASE("a value keeps every byte, and is followed by a NUL") {
  const auto server = server_here();
  auto client = client_of(server.port());
  const std::string value("a\0b\xFF", 4);
  CHECK(client.set("bytes", value));
  CHECK(*client.get("bytes") == value);
  CHECK(client.set("empty", ""));
  CHECK(client.get("empty")->empty());

  auto* raw = cpprun_store_connect("127.0.0.1", server.port(), 5000);
  REQUIRE(raw != nullptr);
  char* got = nullptr;
  std::size_t size = 0;
  CHECK(cpprun_store_get(raw, "bytes", -1, &got, &size) == 0);
  CHECK(size == 4);
  CHECK(got[4] == '\0');
  cpprun_store_free(got);
  cpprun_store_disconnect(raw);
}

TEST_CASE("a wait that timed out is a failure, and the client stays usable") {
  const auto server = server_here();
  auto client = client_of(server.port());
  const auto waited = client.wait({"never"}, 20ms);
  CHECK_FALSE(waited);
  CHECK(waited.error() == "wait for /never timed out");
  CHECK_FALSE(client.broken());
  CHECK(*client.add("n", 1) == 1);
}

TEST_CASE("after its server has stopped, every call of a client fails with the same message") {
  auto server = server_here();
  auto client = client_of(server.port());
  CHECK(*client.add("n", 1) == 1);
  server.stop();
  const auto first = client.add("n", 1);
  CHECK_FALSE(first);
  CHECK(client.broken());
  CHECK(client.add("n", 1).error() == first.error());
  CHECK(server.port() == 0);
}

TEST_CASE("a wait of one client ends when another one sets the key") {
  const auto server = server_here();
  auto reader = client_of(server.port());
  auto writer = client_of(server.port());
  auto value = std::async(std::launch::async, [&] { return *reader.get("late"); });
  CHECK(writer.set("late", "here"));
  CHECK(value.get() == "here");
}

TEST_CASE("a key with a NUL byte is rejected by C++ and not truncated") {
  const auto server = server_here();
  auto client = client_of(server.port());
  const std::string key("a\0b", 3);
  for (const std::string& error :
       {client.set(key, "v").error(), client.get(key).error(), client.add(key, 1).error(),
        client.check({key}).error(), client.multi_set({{key, "v"}}).error()}) {
    CHECK(error == "a key of the store must not contain a NUL byte");
  }
  CHECK_FALSE(*client.check({"a"}));
}

TEST_CASE("an invalid argument is a failure with a message and not a crash") {
  CHECK(cpprun_store_connect("127.0.0.1", 1, 0) == nullptr);
  CHECK(std::string(cpprun_store_error()).find("cannot reach a store at 127.0.0.1:1") == 0);
  CHECK(cpprun_store_connect_with(nullptr) == nullptr);
  CHECK(std::string(cpprun_store_error()) ==
        "cpprun_store_connect_with: options is a null pointer");
  CHECK(cpprun_store_serve("no.such.host.invalid", 0) == nullptr);
  CHECK(std::string(cpprun_store_error()).find("no.such.host.invalid") != std::string::npos);
  cpprun_store_server_options options = {};
  CHECK(cpprun_store_serve_with(&options) == nullptr);
  CHECK(std::string(cpprun_store_error()) ==
        "cpprun_store_serve_with: options->size is 0; set it to "
        "sizeof(cpprun_store_server_options)");
  CHECK(error_after(cpprun_store_set(nullptr, "k", "v", 1)) ==
        "cpprun_store_set: client is a null pointer");
}

TEST_CASE("every function rejects a null client and names itself") {
  const char* keys[] = {"k"};
  const void* values[] = {"v"};
  const std::size_t sizes[] = {1};
  char* value = nullptr;
  std::size_t size = 0;
  std::int64_t number = 0;
  int flag = 0;
  cpprun_store_list* list = nullptr;
  refused(cpprun_store_set(nullptr, "k", "v", 1), "set: client");
  refused(cpprun_store_append(nullptr, "k", "v", 1), "append: client");
  refused(cpprun_store_multi_set(nullptr, 1, keys, values, sizes), "multi_set: client");
  refused(cpprun_store_queue_push(nullptr, "k", "v", 1), "queue_push: client");
  refused(cpprun_store_get(nullptr, "k", 0, &value, &size), "get: client");
  refused(cpprun_store_find(nullptr, "k", &value, &size), "find: client");
  refused(cpprun_store_add(nullptr, "k", 1, &number), "add: client");
  refused(cpprun_store_compare_set(nullptr, "k", "", 0, "", 0, &value, &size),
          "compare_set: client");
  refused(cpprun_store_check(nullptr, keys, 1, &flag), "check: client");
  refused(cpprun_store_wait(nullptr, keys, 1, 0), "wait: client");
  refused(cpprun_store_barrier(nullptr, "k", 1, 0), "barrier: client");
  refused(cpprun_store_delete_key(nullptr, "k", &flag), "delete_key: client");
  refused(cpprun_store_num_keys(nullptr, &number), "num_keys: client");
  refused(cpprun_store_multi_get(nullptr, keys, 1, &list), "multi_get: client");
  refused(cpprun_store_queue_pop(nullptr, "k", &value, &size), "queue_pop: client");
  refused(cpprun_store_queue_length(nullptr, "k", &number), "queue_length: client");
  refused(cpprun_store_list_keys(nullptr, &list), "list_keys: client");
  CHECK(cpprun_store_is_broken(nullptr) == 1);
  CHECK(std::string(cpprun_store_error()) == "cpprun_store_is_broken: client is a null pointer");
}

TEST_CASE("a null key, value or result is rejected with the names of function and argument") {
  const auto server = server_here();
  auto* client = cpprun_store_connect("127.0.0.1", server.port(), 5000);
  REQUIRE(client != nullptr);
  const char* keys[] = {"k", nullptr};
  const void* values[] = {"v", nullptr};
  const std::size_t sizes[] = {1, 1};
  char* value = nullptr;
  std::size_t size = 0;
  std::int64_t number = 0;
  refused(cpprun_store_set(client, nullptr, "v", 1), "set: key");
  refused(cpprun_store_set(client, "k", nullptr, 1), "set: value");
  refused(cpprun_store_append(client, nullptr, "v", 1), "append: key");
  refused(cpprun_store_append(client, "k", nullptr, 1), "append: value");
  refused(cpprun_store_multi_set(client, 1, nullptr, values, sizes), "multi_set: keys");
  refused(cpprun_store_multi_set(client, 1, keys, nullptr, sizes), "multi_set: values");
  refused(cpprun_store_multi_set(client, 1, keys, values, nullptr), "multi_set: value_sizes");
  refused(cpprun_store_multi_set(client, 2, keys, values, sizes), "multi_set: keys[1]");
  const char* two_keys[] = {"k", "l"};
  refused(cpprun_store_multi_set(client, 2, two_keys, values, sizes), "multi_set: values[1]");
  refused(cpprun_store_queue_push(client, nullptr, "v", 1), "queue_push: key");
  refused(cpprun_store_queue_push(client, "k", nullptr, 1), "queue_push: value");
  refused(cpprun_store_get(client, nullptr, 0, &value, &size), "get: key");
  refused(cpprun_store_get(client, "k", 0, nullptr, &size), "get: value");
  refused(cpprun_store_get(client, "k", 0, &value, nullptr), "get: value_size");
  refused(cpprun_store_find(client, nullptr, &value, &size), "find: key");
  refused(cpprun_store_find(client, "k", nullptr, &size), "find: value");
  refused(cpprun_store_find(client, "k", &value, nullptr), "find: value_size");
  refused(cpprun_store_add(client, nullptr, 1, &number), "add: key");
  refused(cpprun_store_add(client, "n", 1, nullptr), "add: sum");
  refused(cpprun_store_compare_set(client, nullptr, "", 0, "", 0, &value, &size),
          "compare_set: key");
  refused(cpprun_store_compare_set(client, "k", nullptr, 1, "", 0, &value, &size),
          "compare_set: expected");
  refused(cpprun_store_compare_set(client, "k", "", 0, nullptr, 1, &value, &size),
          "compare_set: desired");
  refused(cpprun_store_compare_set(client, "k", "", 0, "", 0, nullptr, &size),
          "compare_set: value");
  refused(cpprun_store_compare_set(client, "k", "", 0, "", 0, &value, nullptr),
          "compare_set: value_size");
  cpprun_store_disconnect(client);
}

TEST_CASE("a null key list or result is rejected, unless its count is 0") {
  const auto server = server_here();
  auto* client = cpprun_store_connect("127.0.0.1", server.port(), 5000);
  REQUIRE(client != nullptr);
  const char* keys[] = {"k", nullptr};
  char* value = nullptr;
  std::size_t size = 0;
  std::int64_t number = 0;
  int flag = 0;
  cpprun_store_list* list = nullptr;
  refused(cpprun_store_check(client, nullptr, 1, &flag), "check: keys");
  refused(cpprun_store_check(client, keys, 2, &flag), "check: keys[1]");
  refused(cpprun_store_check(client, keys, 1, nullptr), "check: exist");
  refused(cpprun_store_wait(client, nullptr, 1, 0), "wait: keys");
  refused(cpprun_store_wait(client, keys, 2, 0), "wait: keys[1]");
  refused(cpprun_store_barrier(client, nullptr, 1, 0), "barrier: key");
  refused(cpprun_store_delete_key(client, nullptr, &flag), "delete_key: key");
  refused(cpprun_store_num_keys(client, nullptr), "num_keys: count");
  refused(cpprun_store_multi_get(client, nullptr, 1, &list), "multi_get: keys");
  refused(cpprun_store_multi_get(client, keys, 2, &list), "multi_get: keys[1]");
  refused(cpprun_store_multi_get(client, keys, 1, nullptr), "multi_get: values");
  refused(cpprun_store_queue_pop(client, nullptr, &value, &size), "queue_pop: key");
  refused(cpprun_store_queue_pop(client, "k", nullptr, &size), "queue_pop: value");
  refused(cpprun_store_queue_pop(client, "k", &value, nullptr), "queue_pop: value_size");
  refused(cpprun_store_queue_length(client, nullptr, &number), "queue_length: key");
  refused(cpprun_store_queue_length(client, "k", nullptr), "queue_length: length");
  refused(cpprun_store_list_keys(client, nullptr), "list_keys: keys");
  // Null pointers that a count or a size of 0 makes valid, according to the header.
  CHECK(cpprun_store_set(client, "k", nullptr, 0) == 0);
  CHECK(cpprun_store_wait(client, nullptr, 0, -1) == 0);
  CHECK(cpprun_store_delete_key(client, "k", nullptr) == 0);
  CHECK(cpprun_store_list_keys(client, &list) == 0);
  CHECK(cpprun_store_list_item(list, 99, nullptr) == nullptr);
  cpprun_store_list_free(list);
  cpprun_store_disconnect(client);
}

TEST_CASE("functions that create, query or destroy accept null pointers without a crash") {
  const auto said = [](const std::string& words) {
    CHECK(std::string(cpprun_store_error()) == "cpprun_store_" + words + " is a null pointer");
  };
  CHECK(cpprun_store_connect(nullptr, 1, 0) == nullptr);
  said("connect: host");
  CHECK(cpprun_store_connect_with(nullptr) == nullptr);
  said("connect_with: options");
  cpprun_store_client_options options = {};
  options.size = sizeof options;
  CHECK(cpprun_store_connect_with(&options) == nullptr);
  said("connect_with: the host of the options");
  CHECK(cpprun_store_serve_with(nullptr) == nullptr);
  said("serve_with: options");
  CHECK(cpprun_store_service_open(nullptr) == nullptr);
  said("service_open: options");
  CHECK(cpprun_store_port(nullptr) == 0);
  said("port: server");
  CHECK(std::string(cpprun_store_address(nullptr)).empty());
  said("address: server");
  CHECK(cpprun_store_service_port(nullptr) == 0);
  said("service_port: service");
  CHECK(std::string(cpprun_store_service_address(nullptr)).empty());
  said("service_address: service");
  CHECK(cpprun_store_service_descriptor(nullptr) == -1);
  said("service_descriptor: service");
  CHECK(cpprun_store_service_wait_ms(nullptr) == -1);
  said("service_wait_ms: service");
  cpprun_store_service_serve(nullptr);
  said("service_serve: service");
  CHECK(cpprun_store_list_count(nullptr) == 0);
  said("list_count: list");
  CHECK(cpprun_store_list_item(nullptr, 0, nullptr) == nullptr);
  said("list_item: list");
  cpprun_store_disconnect(nullptr);
  cpprun_store_stop(nullptr);
  cpprun_store_service_close(nullptr);
  cpprun_store_list_free(nullptr);
  cpprun_store_free(nullptr);
  CHECK(cpprun_store_port(nullptr) == 0);
  CHECK(cpprun_store_is_broken(nullptr) == 1);
  CHECK(cpprun_store_list_item(nullptr, 0, nullptr) == nullptr);
}

TEST_CASE("every thread has the error of its own last failure") {
  CHECK(cpprun_store_connect_with(nullptr) == nullptr);
  const std::string mine = cpprun_store_error();
  std::thread([] {
    CHECK(std::string(cpprun_store_error()).empty());
    CHECK(cpprun_store_serve_with(nullptr) == nullptr);
  }).join();
  CHECK(cpprun_store_error() == mine);
}

TEST_CASE(
    "the server's log names closed clients with the reason, even after the server was moved") {
  std::promise<std::string> said;
  cpprun::StoreServerOptions options;
  options.host = "127.0.0.1";
  options.memory_bytes_max = 4096;
  options.log = [&said, first = true](const std::string& line) mutable {
    if (std::exchange(first, false)) said.set_value(line);
  };
  auto opened = cpprun::StoreServer::open(options);
  REQUIRE(opened);
  const cpprun::StoreServer server = std::move(*opened);
  auto client = client_of(server.port());
  client.set("big", std::string(100'000, 'x'));
  auto line = said.get_future();
  REQUIRE(line.wait_for(10s) == std::future_status::ready);
  CHECK(line.get().find("closed") != std::string::npos);
}

TEST_CASE("a program with its own event loop serves without a thread") {
  auto service = cpprun::StoreService::open({"127.0.0.1", 0});
  REQUIRE(service);
  CHECK(service->address() == "127.0.0.1:" + std::to_string(service->port()));
  auto sum = std::async(std::launch::async, [port = service->port()] {
    auto client = client_of(port);
    return *client.add("n", 3);
  });
  while (sum.wait_for(0s) != std::future_status::ready) {
    pollfd watched{service->descriptor(), POLLIN, 0};
    const int wait = service->next_wait_ms();
    poll(&watched, 1, wait < 0 || wait > 10 ? 10 : wait);
    service->serve();
  }
  CHECK(sum.get() == 3);
}

TEST_CASE("a signal to the program is never delivered to the server's thread") {
  const auto server = server_here();
  sigset_t ours;
  sigset_t before;
  sigemptyset(&ours);
  sigaddset(&ours, SIGUSR1);
  // A thread that does not block the signal would end the process.
  REQUIRE(pthread_sigmask(SIG_BLOCK, &ours, &before) == 0);
  REQUIRE(::kill(::getpid(), SIGUSR1) == 0);
  const timespec soon{.tv_sec = 10, .tv_nsec = 0};
  CHECK(sigtimedwait(&ours, nullptr, &soon) == SIGUSR1);
  REQUIRE(pthread_sigmask(SIG_SETMASK, &before, nullptr) == 0);
}

TEST_CASE("the library reports its interface version") {
  CHECK(cpprun_store_abi() == CPPRUN_STORE_ABI);
  CHECK(std::string(cpprun_store_version()).find('.') != std::string::npos);
}

TEST_CASE("a forked child that releases its parent's server does not affect it") {
  auto server = std::make_unique<cpprun::StoreServer>(server_here());
  auto client = client_of(server->port());
  CHECK(*client.add("n", 1) == 1);
  CHECK(status_of_child([&] {
          server.reset();  // as its static destructors do
          return 0;
        }) == 0);
  CHECK(*client.add("n", 1) == 2);
  CHECK(*client_of(server->port()).add("n", 1) == 3);
}

TEST_CASE("a forked child neither uses nor closes its parent's connection") {
  const auto server = server_here();
  auto client = std::make_unique<cpprun::StoreClient>(client_of(server.port()));
  CHECK(*client->add("n", 1) == 1);
  CHECK(status_of_child([&] {
          const auto added = client->add("n", 10);
          const bool is_refused =
              !added &&
              added.error().find("opened this connection before a fork") != std::string::npos;
          client.reset();
          return is_refused && *client_of(server.port()).add("n", 1) == 2 ? 0 : 1;
        }) == 0);
  CHECK(*client->add("n", 1) == 3);
}

TEST_CASE("a forked child does not serve in its parent's place") {
  cpprun_store_server_options options{};
  options.size = sizeof options;
  options.host = "127.0.0.1";
  auto* const service = cpprun_store_service_open(&options);
  REQUIRE(service != nullptr);
  auto answer = std::async(std::launch::async, [port = cpprun_store_service_port(service)] {
    return *client_of(port).add("n", 1);
  });
  pollfd watched{cpprun_store_service_descriptor(service), POLLIN, 0};
  REQUIRE(poll(&watched, 1, 10'000) == 1);
  CHECK(status_of_child([&] {
          cpprun_store_service_serve(service);
          cpprun_store_service_close(service);
          return 0;
        }) == 0);
  while (answer.wait_for(1ms) != std::future_status::ready) cpprun_store_service_serve(service);
  CHECK(answer.get() == 1);
  cpprun_store_service_close(service);
}

TEST_CASE("a server that stops closes its clients although a forked child lives on") {
  auto server = std::make_unique<cpprun::StoreServer>(server_here());
  const std::uint16_t port = server->port();
  auto client = client_of(port);
  CHECK(*client.add("n", 1) == 1);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    char nothing = 0;
    close(ends[1]);
    _exit(read(ends[0], &nothing, 1) == 0 ? 0 : 1);
  }
  server.reset();
  CHECK_FALSE(client.add("n", 1));
  CHECK(cpprun_store_connect("127.0.0.1", port, 100) == nullptr);
  close(ends[0]);
  close(ends[1]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

}  // namespace store_api_test

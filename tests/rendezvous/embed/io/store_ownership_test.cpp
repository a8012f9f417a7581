// SPDX-License-Identifier: BSD-3-Clause
// Who may release and interrupt objects of the public store headers, and when: threads, callbacks,
// signal handlers and forks.
#include <arpa/inet.h>
#include <dirent.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rendezvous/io/file_descriptor.h"
#include "tests/rendezvous/embed/io/store_api.h"

// In a child, the stacks of its parent's threads are gone, and LeakSanitizer takes what these
// threads held for leaks.
static bool exits_as_child = false;
extern "C" int __lsan_is_turned_off();
int __lsan_is_turned_off() {
  return exits_as_child ? 1 : 0;
}

namespace store_api_test {

using namespace std::chrono_literals;
using cpprun::FileDescriptor;

namespace {

// How many sockets this process has open.
int socket_count() {
  int count = 0;
  DIR* const directory = opendir("/proc/self/fd");
  REQUIRE(directory != nullptr);
  while (const dirent* const entry = readdir(directory)) {
    struct stat facts {};
    if (fstat(std::atoi(entry->d_name), &facts) == 0 && S_ISSOCK(facts.st_mode)) ++count;
  }
  closedir(directory);
  return count;
}

// Waits until that many clients wait for keys.
void until_waiting(cpprun::StoreClient& local, std::uint64_t count) {
  while (local.figures()->waits < count) std::this_thread::yield();
}

}  // namespace

TEST_CASE("a server may be stopped in its own log callback") {
  struct Stopped {
    cpprun_store_server* server = nullptr;
    std::promise<void> done;
  } stopped;
  cpprun_store_server_options options{};
  options.size = sizeof options;
  options.memory_bytes_max = 4096;
  options.log_user = &stopped;
  options.log = [](void* user, const char*) {
    auto& its = *static_cast<Stopped*>(user);
    cpprun_store_stop(its.server);
    its.done.set_value();
  };
  stopped.server = cpprun_store_serve_with(&options);
  REQUIRE(stopped.server != nullptr);
  const std::uint16_t port = cpprun_store_port(stopped.server);
  auto greedy = client_of(port);
  auto other = client_of(port);
  (void)greedy.set("big", std::string(100'000, 'x'));
  stopped.done.get_future().get();
  CHECK_FALSE(other.add("n", 1));
  CHECK(other.add("n", 1).code() == CPPRUN_STORE_CLOSED);
  CHECK(cpprun_store_connect("127.0.0.1", port, 0) == nullptr);
}

TEST_CASE("a server may be stopped while it asks whether to admit a client") {
  struct Stopped {
    cpprun_store_server* server = nullptr;
    int calls = 0;
  } stopped;
  cpprun_store_server_options options{};
  options.size = sizeof options;
  options.admit_user = &stopped;
  options.admit = [](void* user, const char*) {
    auto& its = *static_cast<Stopped*>(user);
    if (its.calls++ == 0) cpprun_store_stop(its.server);
    return 1;
  };
  stopped.server = cpprun_store_serve_with(&options);
  REQUIRE(stopped.server != nullptr);
  const std::uint16_t port = cpprun_store_port(stopped.server);
  while (cpprun_store_client* const client = cpprun_store_connect("127.0.0.1", port, 20)) {
    cpprun_store_disconnect(client);  // answered before the end of that turn
  }
  CHECK(cpprun_store_error_code() == CPPRUN_STORE_REFUSED);
}

TEST_CASE("a client in the server's process may be disconnected while the server admits another") {
  struct Watching {
    cpprun_store_client* client = nullptr;
    int changes = 0;
  } watching;
  cpprun_store_server_options options{};
  options.size = sizeof options;
  options.admit_user = &watching;
  options.admit = [](void* user, const char*) {
    auto& its = *static_cast<Watching*>(user);
    cpprun_store_disconnect(std::exchange(its.client, nullptr));
    return 1;
  };
  auto* const server = cpprun_store_serve_with(&options);
  REQUIRE(server != nullptr);
  cpprun_store_client_options client_options{};
  client_options.size = sizeof client_options;
  client_options.server = server;
  watching.client = cpprun_store_connect_with(&client_options);
  REQUIRE(watching.client != nullptr);
  CHECK(cpprun_store_watch(
            watching.client, nullptr,
            [](void* user, int, const char*, size_t, const char*, size_t) {
              ++static_cast<Watching*>(user)->changes;
            },
            &watching) == 0);
  {
    auto remote = client_of(cpprun_store_port(server));
    CHECK(remote.set("k", "v"));
    CHECK(*remote.add("n", 1) == 1);
    auto* const local = cpprun_store_connect_with(&client_options);
    cpprun_store_figures figures{};
    figures.size = sizeof figures;
    CHECK(cpprun_store_get_figures(local, &figures) == 0);
    CHECK(figures.clients == 2);  // the remote and this one
    cpprun_store_disconnect(local);
  }
  cpprun_store_stop(server);
  CHECK(watching.changes == 0);
}

TEST_CASE("a watcher lives until its call ends, even if its client ends during an admission") {
  std::optional<cpprun::StoreClient> client;
  cpprun::StoreServerOptions options;
  options.admit = [&client](const std::string&) {
    client.reset();
    return true;
  };
  auto service = cpprun::StoreService::open(options);
  REQUIRE(service);
  cpprun::StoreClientOptions within;
  within.service = service->handle();
  client = client_with(within);
  std::weak_ptr<int> owned;
  bool has_lived = false;
  const auto watch = [&](std::shared_ptr<int> owner) {
    owned = owner;
    return client->watch("k", [&, owner](int, std::string_view, std::string_view) {
      // Another client is admitted meanwhile.
      while (client) service->serve();
      has_lived = !owned.expired() && *owner == 7;
    });
  };
  CHECK(watch(std::make_shared<int>(7)));
  CHECK(client->set("k", "v"));
  std::atomic<bool> has_connected = false;
  std::thread connecting([&has_connected, port = service->port()] {
    CHECK(cpprun::StoreClient::open({"127.0.0.1", port}));
    has_connected = true;
  });
  while (!has_connected) service->serve();
  connecting.join();
  CHECK(has_lived);
  CHECK(owned.expired());
}

TEST_CASE("a hundred clients that wait see the end of their server, which any thread may stop") {
  auto server = std::make_unique<cpprun::StoreServer>(server_here());
  auto local = local_client(*server);
  std::vector<std::future<int>> codes;
  for (int at = 0; at < 100; ++at) {
    codes.push_back(std::async(std::launch::async, [port = server->port()] {
      return client_of(port).wait({"never"}).code();
    }));
  }
  until_waiting(local, 100);
  std::thread([&] { server.reset(); }).join();
  for (auto& code : codes) CHECK(code.get() == CPPRUN_STORE_CLOSED);
  CHECK(local.add("n", 1).code() == CPPRUN_STORE_CLOSED);
}

TEST_CASE("threads may share a client") {
  const auto server = server_here();
  for (auto* const shared : {new auto(client_of(server.port())), new auto(local_client(server))}) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 8; ++thread) {
      threads.emplace_back([&] {
        for (int at = 0; at < 200; ++at) {
          CHECK(shared->add("n", 1));
          CHECK(shared->set("k", "v"));
          CHECK(*shared->get("k") == "v");
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    delete shared;
  }
  CHECK(*client_of(server.port()).add("n", 0) == 3200);
}

TEST_CASE("a call that another call on the same client blocks ends at its own deadline") {
  const auto server = server_here();
  auto local = local_client(server);
  auto client = client_of(server.port());
  auto waiting = std::async(std::launch::async, [&] { return client.wait({"late"}).error(); });
  until_waiting(local, 1);
  const auto second = client.get("other", 20ms);
  CHECK(second.code() == CPPRUN_STORE_TIMEOUT);
  CHECK(second.error() == "another thread's call on this client took too long");
  CHECK(local.set("late", "1"));
  CHECK(waiting.get() == "");
  CHECK(*client.add("n", 1) == 1);
}

TEST_CASE("an interrupted client fails in the call that blocks, and in all later ones") {
  const auto server = server_here();
  auto observer = local_client(server);
  for (auto* const client : {new auto(client_of(server.port())), new auto(local_client(server))}) {
    auto waiting = std::async(std::launch::async, [&] { return client->wait({"never"}).code(); });
    until_waiting(observer, 1);
    client->interrupt();
    CHECK(waiting.get() == CPPRUN_STORE_INTERRUPTED);
    CHECK(client->broken());
    const auto later = client->add("n", 1);
    CHECK(later.code() == CPPRUN_STORE_INTERRUPTED);
    CHECK(later.error() == "the client was interrupted");
    delete client;
    while (observer.figures()->waits > 0) std::this_thread::yield();
  }
}

TEST_CASE("a signal handler may interrupt a client") {
  static cpprun_store_client* interrupted = nullptr;
  const auto server = server_here();
  auto observer = local_client(server);
  interrupted = cpprun_store_connect("127.0.0.1", server.port(), 10'000);
  REQUIRE(interrupted != nullptr);
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { cpprun_store_interrupt(interrupted); };
  REQUIRE(sigaction(SIGUSR2, &action, &before) == 0);
  std::thread other([&observer, self = pthread_self()] {
    until_waiting(observer, 1);
    pthread_kill(self, SIGUSR2);
  });
  const char* keys[] = {"never"};
  CHECK(cpprun_store_wait(interrupted, keys, 1, -1) == -1);
  CHECK(cpprun_store_error_code() == CPPRUN_STORE_INTERRUPTED);
  other.join();
  sigaction(SIGUSR2, &before, nullptr);
  cpprun_store_disconnect(interrupted);
}

TEST_CASE("a forked child closes its copies of the sockets, and its parent goes on") {
  const int before = socket_count();
  auto server = std::make_unique<cpprun::StoreServer>(server_here());
  auto client = std::make_unique<cpprun::StoreClient>(client_of(server->port()));
  auto local = std::make_unique<cpprun::StoreClient>(local_client(*server));
  CHECK(*client->add("n", 1) == 1);
  CHECK(status_of_child([&] {
          client->interrupt();
          local->interrupt();
          const bool is_refused = client->add("n", 1).code() == CPPRUN_STORE_FORKED &&
                                  local->add("n", 1).code() == CPPRUN_STORE_FORKED &&
                                  server->drain(0ms).code() == CPPRUN_STORE_FORKED;
          client.reset();
          local.reset();
          server.reset();
          if (!is_refused) return 1;
          return socket_count() == before ? 0 : 2;
        }) == 0);
  CHECK(*client->add("n", 1) == 2);
  CHECK(*local->add("n", 1) == 3);
  CHECK(*client_of(server->port()).add("n", 1) == 4);
}

TEST_CASE("a child that was forked while its server was busy closes no socket of the caller") {
  const FileDescriptor listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const FileDescriptor datagrams(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  socklen_t size = sizeof address;
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(bind(listening.get(), name, size) == 0);
  REQUIRE(listen(listening.get(), 16) == 0);
  REQUIRE(getsockname(listening.get(), name, &size) == 0);
  REQUIRE(bind(datagrams.get(), name, size) == 0);
  // The caller accepts connections of its own, too.
  const FileDescriptor caller(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(connect(caller.get(), name, size) == 0);
  const FileDescriptor accepted(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const int before = socket_count();

  std::promise<void> asked;
  std::promise<void> forked;
  cpprun::StoreServerOptions options;
  options.listening_socket = listening.get();
  options.admit = [&, is_first = true](const std::string&) mutable {
    if (std::exchange(is_first, false)) return true;
    asked.set_value();
    forked.get_future().get();
    return true;
  };
  auto server = std::make_unique<cpprun::StoreServer>(server_here(options));
  auto remote = std::make_unique<cpprun::StoreClient>(client_of(server->port()));
  std::thread second([port = server->port()] { CHECK(*client_of(port).add("n", 1) == 1); });
  asked.get_future().get();
  CHECK(status_of_child([&] {
          remote.reset();
          server.reset();
          for (const FileDescriptor* const each : {&listening, &datagrams, &caller, &accepted}) {
            if (fcntl(each->get(), F_GETFD) < 0) return 1;
          }
          return socket_count() == before + 1 ? 0 : 2;  // the socket of the second client
        }) == 0);
  forked.set_value();
  second.join();
  CHECK(*remote->add("n", 1) == 2);
}

TEST_CASE("forks at any moment do not disturb a busy server") {
  auto server = std::make_unique<cpprun::StoreServer>(server_here());
  std::atomic<bool> is_over = false;
  std::thread busy([&] {
    auto client = client_of(server->port());
    while (!is_over) CHECK(client.add("n", 1));
  });
  std::thread inside([&] {
    auto client = local_client(*server);
    while (!is_over) CHECK(client.set("k", std::string(2000, 'v')));
  });
  for (int at = 0; at < 50; ++at) {
    CHECK(status_of_child([&] {
            server.reset();
            return 0;
          }) == 0);
  }
  is_over = true;
  busy.join();
  inside.join();
  CHECK(*client_of(server->port()).get("k") == std::string(2000, 'v'));
}

TEST_CASE("a child releases what threads of its parent wait for") {
  auto server = std::make_unique<cpprun::StoreServer>(server_here());
  auto observer = std::make_unique<cpprun::StoreClient>(local_client(*server));
  auto remote = std::make_unique<cpprun::StoreClient>(client_of(server->port()));
  auto local = std::make_unique<cpprun::StoreClient>(local_client(*server));
  std::vector<std::thread> threads;
  for (auto* const client : {remote.get(), local.get()}) {
    // The second call waits for the first.
    for (int at = 0; at < 2; ++at) {
      threads.emplace_back([client] { CHECK(client->wait({"late"}).error() == ""); });
    }
  }
  threads.emplace_back([&server] { CHECK(server->drain(10s).error() == ""); });
  until_waiting(*observer, 2);
  for (int at = 0; at < 20; ++at) {
    CHECK(status_of_child([&] {
            remote.reset();
            local.reset();
            observer.reset();
            server.reset();
            return 0;
          }) == 0);
  }
  CHECK(observer->set("late", "1"));
  for (std::size_t at = 0; at < 4; ++at) threads[at].join();
  remote.reset();
  threads.back().join();
}

TEST_CASE("a child that ends by exit() destroys static objects without effect on its parent") {
  static std::optional<cpprun::StoreServer> server;
  static std::optional<cpprun::StoreClient> client;
  server = server_here();
  client = client_of(server->port());
  CHECK(*client->add("n", 1) == 1);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(20);
    exits_as_child = true;
    std::exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(*client->add("n", 1) == 2);
  client.reset();
  server.reset();
}

}  // namespace store_api_test

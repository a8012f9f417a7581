// SPDX-License-Identifier: BSD-3-Clause
// The options of the public store headers.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstdlib>
#include <cstring>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/io/file_descriptor.h"
#include "tests/rendezvous/embed/io/store_api.h"

namespace store_api_test {

using namespace std::chrono_literals;
using cpprun::FileDescriptor;

namespace {

// A directory that is removed at the end.
class Directory {
 public:
  Directory() { REQUIRE(mkdtemp(path_) != nullptr); }
  ~Directory() {
    unlink(socket().c_str());
    rmdir(path_);
  }
  std::string socket() const { return std::string(path_) + "/store.sock"; }
  std::string host() const { return "unix:" + socket(); }
  bool has_socket() const { return access(socket().c_str(), F_OK) == 0; }

 private:
  char path_[32] = "/tmp/store_options.XXXXXX";
};

cpprun::StoreClient client_at(const std::string& host) {
  cpprun::StoreClientOptions options;
  options.host = host;
  return client_with(options);
}

// The result of a connection attempt that the server rejects.
int code_of_attempt(std::uint16_t port) {
  cpprun_store_client* const client = cpprun_store_connect("127.0.0.1", port, 300);
  if (client == nullptr) return cpprun_store_error_code();
  cpprun_store_disconnect(client);
  return 0;
}

FileDescriptor listening_here() {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(listen(socket.get(), 16) == 0);
  return socket;
}

// An option struct of a header that has one more member.
template <class Options>
struct Later {
  Options known;
  std::uint64_t unknown;
};

}  // namespace

TEST_CASE("a server without a host listens on loopback only, and on every interface for *") {
  auto* const server = cpprun_store_serve(nullptr, 0);
  REQUIRE(server != nullptr);
  CHECK(std::string(cpprun_store_address(server)).rfind("127.0.0.1:", 0) == 0);
  cpprun_store_stop(server);
  CHECK(server_here().address().rfind("127.0.0.1:", 0) == 0);
  cpprun::StoreServerOptions every;
  every.host = "*";
  CHECK(server_here(every).address().rfind("[::]:", 0) == 0);
}

TEST_CASE("a struct of a later header is accepted if what this library does not know is zero") {
  Later<cpprun_store_server_options> server_options{};
  server_options.known.size = sizeof server_options;
  auto* const server = cpprun_store_serve_with(&server_options.known);
  REQUIRE(server != nullptr);
  Later<cpprun_store_client_options> options{};
  options.known.size = sizeof options;
  options.known.server = server;
  auto* const client = cpprun_store_connect_with(&options.known);
  REQUIRE(client != nullptr);

  server_options.unknown = options.unknown = std::uint64_t{1} << 63;
  CHECK(cpprun_store_serve_with(&server_options.known) == nullptr);
  CHECK(cpprun_store_error_code() == CPPRUN_STORE_VERSION);
  CHECK(cpprun_store_connect_with(&options.known) == nullptr);
  CHECK(cpprun_store_error_code() == CPPRUN_STORE_VERSION);
  CHECK(std::string(cpprun_store_error()) ==
        "cpprun_store_connect_with: the options have a member that version " +
            std::string(cpprun_store_version()) + " does not know, at byte " +
            std::to_string(sizeof options - 1));

  Later<cpprun_store_figures> figures{};
  figures.known.size = sizeof figures;
  CHECK(cpprun_store_get_figures(client, &figures.known) == 0);
  CHECK(figures.known.size == sizeof figures);
  CHECK(figures.known.clients == 1);
  figures.known.size = 1 << 20;
  CHECK(cpprun_store_get_figures(client, &figures.known) == -1);
  CHECK(cpprun_store_error_code() == CPPRUN_STORE_BAD_ARGUMENT);
  cpprun_store_disconnect(client);
  cpprun_store_stop(server);
}

TEST_CASE("the structs of the first header are accepted, and nothing behind them is read") {
  // Their size then; whatever follows in memory is not part of them.
  constexpr std::size_t first_size = 48;
  cpprun_store_server_options options;
  std::memset(&options, 0xAA, sizeof options);
  options.size = first_size;
  options.host = "127.0.0.1";
  options.port = 0;
  options.memory_bytes_max = 0;
  options.log = nullptr;
  auto* const server = cpprun_store_serve_with(&options);
  REQUIRE(server != nullptr);
  cpprun_store_client_options client_options;
  std::memset(&client_options, 0xAA, sizeof client_options);
  client_options.size = first_size;
  client_options.host = "127.0.0.1";
  client_options.port = cpprun_store_port(server);
  client_options.connect_timeout_ms = client_options.timeout_ms = 10'000;
  client_options.key_prefix = nullptr;
  auto* const client = cpprun_store_connect_with(&client_options);
  REQUIRE(client != nullptr);
  CHECK(cpprun_store_set(client, "k", "v", 1) == 0);
  cpprun_store_disconnect(client);
  cpprun_store_stop(server);
}

TEST_CASE("a store on a Unix socket is open to its own user, and removes the socket at its end") {
  const Directory directory;
  cpprun::StoreServerOptions options;
  options.host = directory.host();
  auto server = server_here(options);
  CHECK(server.address() == directory.host());
  CHECK(server.port() == 0);
  struct stat facts {};
  REQUIRE(stat(directory.socket().c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0600);
  CHECK(*client_at(directory.host()).add("n", 1) == 1);
  const auto second = cpprun::StoreServer::open(options);
  CHECK(second.code() == CPPRUN_STORE_SYSTEM);
  CHECK(second.error() == "cannot listen on " + directory.host() + ": Address already in use");
  CHECK(status_of_child([&] {
          server.stop();
          return 0;
        }) == 0);
  CHECK(*client_at(directory.host()).add("n", 1) == 2);
  server.stop();
  CHECK_FALSE(directory.has_socket());
}

TEST_CASE("a Unix socket that a killed server left behind is replaced, and no other file") {
  const Directory directory;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  directory.socket().copy(address.sun_path, sizeof address.sun_path - 1);
  {
    const FileDescriptor left(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(bind(left.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  cpprun::StoreServerOptions options;
  options.host = directory.host();
  {
    const auto server = server_here(options);
    CHECK(*client_at(directory.host()).add("n", 1) == 1);
    // Another process has taken the path over.
    REQUIRE(unlink(directory.socket().c_str()) == 0);
    const FileDescriptor other(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(bind(other.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  CHECK(directory.has_socket());
}

TEST_CASE("a server uses a listening socket of its caller, who keeps it") {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  cpprun::StoreServerOptions options;
  options.listening_socket = socket.get();
  CHECK(cpprun::StoreServer::open(options).error() == "cpprun_store_serve_with: listening_socket " +
                                                          std::to_string(socket.get()) +
                                                          " does not listen");
  REQUIRE(listen(socket.get(), 16) == 0);
  for (int at = 0; at < 2; ++at) {
    auto server = server_here(options);
    CHECK(*client_of(server.port()).add("n", 1) == 1);
    CHECK(server.drain(10s));
  }
  options.listening_socket = 12345;
  const auto wrong = cpprun::StoreServer::open(options);
  CHECK(wrong.code() == CPPRUN_STORE_BAD_ARGUMENT);
  CHECK(wrong.error() == "cpprun_store_serve_with: listening_socket 12345: Bad file descriptor");
}

TEST_CASE("a socket that does not listen is rejected, and stays as it is") {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  cpprun::StoreServerOptions options;
  options.listening_socket = socket.get();
  CHECK(cpprun::StoreServer::open(options).code() == CPPRUN_STORE_BAD_ARGUMENT);
  CHECK((fcntl(socket.get(), F_GETFL) & O_NONBLOCK) == 0);
}

TEST_CASE("a server goes on when the caller shuts its listening socket down, and can be stopped") {
  CHECK(status_of_child([] {
          const FileDescriptor socket = listening_here();
          std::promise<std::string> logged;
          cpprun::StoreServerOptions options;
          options.listening_socket = socket.get();
          options.log = [&logged](const std::string& line) { logged.set_value(line); };
          auto server = server_here(options);
          auto client = client_of(server.port());
          if (shutdown(socket.get(), SHUT_RDWR) != 0) return 1;
          if (logged.get_future().get() !=
              "stopped accepting on " + server.address() + ": Invalid argument") {
            return 2;
          }
          if (*client.add("n", 1) != 1) return 3;
          server.stop();
          return 0;
        }) == 0);
}

TEST_CASE("a server is not blocked by a listening socket that its caller has made blocking") {
  CHECK(status_of_child([] {
          const FileDescriptor socket = listening_here();
          cpprun::StoreServerOptions options;
          options.listening_socket = socket.get();
          auto server = server_here(options);
          const int flags = fcntl(socket.get(), F_GETFL);
          if (fcntl(socket.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) return 1;
          if (*client_of(server.port()).add("n", 1) != 1) return 2;
          server.stop();
          return 0;
        }) == 0);
}

TEST_CASE("a Unix socket of the caller is not removed") {
  const Directory directory;
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  directory.socket().copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(listen(socket.get(), 16) == 0);
  cpprun::StoreServerOptions options;
  options.listening_socket = socket.get();
  {
    const auto server = server_here(options);
    CHECK(server.address() == directory.host());
    CHECK(*client_at(directory.host()).add("n", 1) == 1);
  }
  CHECK(directory.has_socket());
}

TEST_CASE("a client that the callback does not admit is refused, with a line in the log") {
  std::vector<std::string> asked;
  std::promise<std::string> logged;
  cpprun::StoreServerOptions options;
  options.admit = [&asked](const std::string& client) {
    asked.push_back(client);
    if (asked.size() == 1) return true;
    if (asked.size() == 2) throw std::runtime_error("dropped");
    return false;
  };
  options.log = [&logged, is_first = true](const std::string& line) mutable {
    if (std::exchange(is_first, false)) logged.set_value(line);
    throw std::runtime_error("dropped");
  };
  auto server = server_here(options);
  auto admitted = client_of(server.port());
  CHECK(code_of_attempt(server.port()) == CPPRUN_STORE_REFUSED);
  CHECK(*admitted.add("n", 1) == 1);
  const std::string line = logged.get_future().get();
  server.stop();
  CHECK(asked.size() >= 2);
  CHECK(asked[0].rfind("127.0.0.1:", 0) == 0);
  CHECK(line == asked[1] + " closed: not admitted");
}

TEST_CASE("a callback that admits clients cannot use its own store") {
  cpprun_store_client* local = nullptr;
  std::promise<int> code;
  cpprun::StoreServerOptions options;
  options.admit = [&](const std::string&) {
    std::int64_t sum = 0;
    CHECK(cpprun_store_add(local, "n", 1, &sum) == -1);
    code.set_value(cpprun_store_error_code());
    return true;
  };
  const auto server = server_here(options);
  cpprun_store_client_options client_options{};
  client_options.size = sizeof client_options;
  client_options.server = server.handle();
  local = cpprun_store_connect_with(&client_options);
  REQUIRE(local != nullptr);
  CHECK(*client_of(server.port()).add("n", 1) == 1);
  CHECK(code.get_future().get() == CPPRUN_STORE_BAD_ARGUMENT);
  std::int64_t sum = 0;
  CHECK(cpprun_store_add(local, "n", 1, &sum) == 0);
  CHECK(sum == 2);
  cpprun_store_disconnect(local);
}

TEST_CASE("limits of clients and keys are those of the options") {
  cpprun::StoreServerOptions options;
  options.clients_max = 2;
  options.address_keys_max = 3;
  const auto server = server_here(options);
  auto local = local_client(server);  // does not count
  auto first = client_of(server.port());
  {
    auto second = client_of(server.port());
    CHECK(code_of_attempt(server.port()) == CPPRUN_STORE_REFUSED);
  }
  auto third = client_of(server.port());  // in its place
  CHECK(first.multi_set({{"a", "1"}, {"b", "1"}, {"c", "1"}}));
  CHECK(*third.check({"a", "b", "c"}));
  CHECK(third.set("d", "1"));
  CHECK(third.num_keys().code() == CPPRUN_STORE_CLOSED);
}

TEST_CASE("a client in the server's process that the server has closed is not counted") {
  cpprun::StoreServerOptions options;
  options.clients_max = 2;
  auto server = server_here(options);
  auto local = local_client(server);
  CHECK(local.set("word", "abc"));
  CHECK(local.add("word", 1).code() == CPPRUN_STORE_CLOSED);
  CHECK(code_of_attempt(server.port()) == 0);
  auto remote = client_of(server.port());
  CHECK(*remote.add("n", 1) == 1);
  CHECK(server.drain(0ms).error() == "clients still connected when the time was over: 1");
}

TEST_CASE("a server that drains refuses new clients, and waits until all others have left") {
  auto server = server_here();
  auto local = local_client(server);
  auto first = client_of(server.port());
  auto second = client_of(server.port());
  const auto waited = server.drain(10ms);
  CHECK(waited.code() == CPPRUN_STORE_TIMEOUT);
  CHECK(waited.error() == "clients still connected when the time was over: 2");
  CHECK(code_of_attempt(server.port()) == CPPRUN_STORE_REFUSED);
  CHECK(*first.add("n", 1) == 1);
  std::thread leaving([first = std::move(first), second = std::move(second)]() mutable {
    CHECK(*first.add("n", 1) == 2);
    const auto gone = std::move(first);
    CHECK(*second.add("n", 1) == 3);
    const auto also_gone = std::move(second);
  });
  CHECK(server.drain(10s));
  leaving.join();
  CHECK(*local.add("n", 1) == 4);
  CHECK(server.drain(10s));
}

}  // namespace store_api_test

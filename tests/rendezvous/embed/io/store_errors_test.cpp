// SPDX-License-Identifier: BSD-3-Clause
// Error codes, limits and deadlines of the public store headers.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <chrono>
#include <cstdio>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "proto/c10d/codec.h"
#include "rendezvous/io/file_descriptor.h"
#include "tests/rendezvous/embed/io/store_api.h"

namespace store_api_test {

using namespace std::chrono_literals;
namespace c10d = cpprun::c10d;
using cpprun::FileDescriptor;

namespace {

// A peer whose replies the test decides. It has shaken hands with `client`.
class Peer {
 public:
  Peer() : listening_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(bind(listening_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(listen(listening_.get(), 8) == 0);
    REQUIRE(getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
  }

  cpprun::StoreClient client() {
    auto opened = std::async(std::launch::async, [this] { return client_of(port_); });
    accept_client();
    const std::string hello = read(5 + 5);
    std::uint32_t nonce = 0;
    std::memcpy(&nonce, hello.data() + 6, sizeof nonce);
    reply(c10d::Pong{nonce});
    return opened.get();
  }

  // A client connects within a moment.
  bool is_called() const {
    pollfd watched{listening_.get(), POLLIN, 0};
    return poll(&watched, 1, 10) == 1;
  }
  void accept_client() {
    connection_.reset(accept(listening_.get(), nullptr, nullptr));
    REQUIRE(connection_);
  }
  void reply(const c10d::Reply& reply) {
    std::string bytes;
    c10d::encode(reply, bytes);
    CHECK(::send(connection_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(bytes.size()));
  }
  std::string read(std::size_t count) {
    std::string bytes(count, '\0');
    CHECK(::recv(connection_.get(), bytes.data(), count, MSG_WAITALL) ==
          static_cast<ssize_t>(count));
    return bytes;
  }
  // The client has sent that request and nothing else.
  void expect(const c10d::Request& request) {
    std::string bytes;
    c10d::encode(request, c10d::Dialect::d, bytes);
    CHECK(read(bytes.size()) == bytes);
  }
  std::uint16_t port() const { return port_; }

 private:
  FileDescriptor listening_;
  FileDescriptor connection_;
  std::uint16_t port_ = 0;
};

// A connection attempt that fails, as an error code and a text.
std::pair<int, std::string> failure_to_open(const std::string& host, std::uint16_t port,
                                            std::chrono::milliseconds timeout) {
  cpprun::StoreClientOptions options;
  options.host = host;
  options.port = port;
  options.connect_timeout = timeout;
  const auto client = cpprun::StoreClient::open(options);
  REQUIRE_FALSE(client);
  return {client.code(), client.error()};
}

}  // namespace

TEST_CASE("every failure has a code") {
  auto server = server_here();
  auto client = client_of(server.port());
  CHECK(client.add("n", 1).code() == 0);
  CHECK(client.wait({"never"}, 10ms).code() == CPPRUN_STORE_TIMEOUT);
  CHECK(client.set(std::string("a\0b", 3), "v").code() == CPPRUN_STORE_BAD_ARGUMENT);
  CHECK(cpprun_store_set(nullptr, "k", "v", 1) == -1);
  CHECK(cpprun_store_error_code() == CPPRUN_STORE_BAD_ARGUMENT);
  cpprun::StoreServerOptions same;
  same.port = server.port();
  CHECK(cpprun::StoreServer::open(same).code() == CPPRUN_STORE_SYSTEM);
  const std::uint16_t port = server.port();
  server.stop();
  CHECK(client.add("n", 1).code() == CPPRUN_STORE_CLOSED);
  CHECK(failure_to_open("127.0.0.1", port, 0ms).first == CPPRUN_STORE_REFUSED);
  CHECK(failure_to_open("unix:/nonexistent/socket", 0, 0ms).first == CPPRUN_STORE_REFUSED);
  CHECK(failure_to_open("unix:", 0, 10s).first == CPPRUN_STORE_BAD_ARGUMENT);
  CHECK(failure_to_open("unix:" + std::string(200, 'x'), 0, 10s).first ==
        CPPRUN_STORE_BAD_ARGUMENT);
}

TEST_CASE("a listener that is mute, or no store, is recognised") {
  Peer mute;  // the kernel accepts the connection
  const auto [code, text] = failure_to_open("127.0.0.1", mute.port(), 50ms);
  CHECK(code == CPPRUN_STORE_TIMEOUT);
  CHECK(text.find("the server does not answer as a store") != std::string::npos);
  Peer other;
  auto failed = std::async(std::launch::async,
                           [&] { return failure_to_open("127.0.0.1", other.port(), 500ms).first; });
  while (failed.wait_for(0s) != std::future_status::ready) {
    if (!other.is_called()) continue;
    other.accept_client();
    other.reply(c10d::Number{1});
  }
  CHECK(failed.get() == CPPRUN_STORE_PROTOCOL);
}

TEST_CASE("what is too large is rejected before anything is sent, and the client stays usable") {
  const auto server = server_here();
  for (auto* const client : {new auto(client_of(server.port())), new auto(local_client(server))}) {
    const std::string longest(CPPRUN_STORE_KEY_BYTES_MAX - 1, 'k');  // with the prefix "/"
    CHECK(client->set(longest, "v"));
    CHECK(*client->get(longest) == "v");
    CHECK(client->set(longest + "k", "v").code() == CPPRUN_STORE_TOO_LARGE);
    CHECK(client->get(longest + "k").code() == CPPRUN_STORE_TOO_LARGE);
    CHECK(client->wait({"a", longest + "k"}).code() == CPPRUN_STORE_TOO_LARGE);
    CHECK(client->multi_get(std::vector<std::string>(CPPRUN_STORE_KEYS_MAX + 1, "k")).code() ==
          CPPRUN_STORE_TOO_LARGE);
    CHECK(*client->add("n", 0) == 0);
    delete client;
  }
  // Two gigabytes that need no memory, because only their size is looked at.
  auto* const client = cpprun_store_connect("127.0.0.1", server.port(), 10'000);
  REQUIRE(client != nullptr);
  CHECK(cpprun_store_set(client, "big", "x", std::size_t{2} << 30) == -1);
  CHECK(cpprun_store_error_code() == CPPRUN_STORE_TOO_LARGE);
  CHECK(std::string(cpprun_store_error()) == "a value of 2147483648 bytes, more than 268435456");
  CHECK(cpprun_store_set(client, "small", "x", 1) == 0);
  cpprun_store_disconnect(client);
}

TEST_CASE("an empty multi_get returns at once, also from a peer that never answers") {
  Peer peer;
  auto client = peer.client();
  CHECK(client.multi_get({})->empty());
  const auto server = server_here();
  CHECK(client_of(server.port()).multi_get({})->empty());
}

TEST_CASE("a peer that is mute does not make a call longer than its timeout") {
  Peer peer;
  auto client = peer.client();
  // Each would take the client's own ten seconds if one of its steps had a deadline of its own.
  const auto start = std::chrono::steady_clock::now();
  CHECK(client.wait({"k"}, 20ms).code() == CPPRUN_STORE_TIMEOUT);
  CHECK(client.get("k", 20ms).code() == CPPRUN_STORE_TIMEOUT);
  CHECK(client.barrier("b", 2, 20ms).code() == CPPRUN_STORE_TIMEOUT);
  CHECK(std::chrono::steady_clock::now() - start >= 60ms);
  CHECK_FALSE(client.broken());
}

TEST_CASE("replies that come too late are not taken for those to later requests") {
  Peer peer;
  auto client = peer.client();
  const c10d::Bytes keys[] = {"/k"};
  CHECK(client.get("k", 10ms).error() == "no response from the store to GET of /k");
  auto sum = std::async(std::launch::async, [&] { return *client.add("n", 1); });
  peer.expect(c10d::Check{keys});
  peer.expect(c10d::Get{"/k"});
  peer.reply(c10d::Checked{true});
  peer.reply(c10d::Value{"late"});
  peer.expect(c10d::Add{"/n", 1});
  peer.reply(c10d::Number{7});
  CHECK(sum.get() == 7);

  CHECK(client.wait({"k"}, 10ms).error() == "wait for /k timed out");
  sum = std::async(std::launch::async, [&] { return *client.add("n", 1); });
  peer.expect(c10d::Wait{keys});
  peer.expect(c10d::CancelWait{});
  peer.reply(c10d::Waited{});  // it crossed with the cancellation
  peer.reply(c10d::Waited{.cancelled = true});
  peer.expect(c10d::Add{"/n", 1});
  peer.reply(c10d::Number{8});
  CHECK(sum.get() == 8);
}

TEST_CASE("signals make a call neither longer nor shorter") {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) {};
  REQUIRE(sigaction(SIGALRM, &action, &before) == 0);  // without SA_RESTART
  const auto server = server_here();
  auto client = client_of(server.port());
  const itimerval often{.it_interval = {.tv_sec = 0, .tv_usec = 1000},
                        .it_value = {.tv_sec = 0, .tv_usec = 1000}};
  REQUIRE(setitimer(ITIMER_REAL, &often, nullptr) == 0);
  auto start = std::chrono::steady_clock::now();
  CHECK(client.wait({"never"}, 50ms).error() == "wait for /never timed out");
  CHECK(std::chrono::steady_clock::now() - start >= 50ms);
  start = std::chrono::steady_clock::now();
  CHECK(failure_to_open("unix:/nonexistent/socket", 0, 50ms).first == CPPRUN_STORE_REFUSED);
  const itimerval never{};
  REQUIRE(setitimer(ITIMER_REAL, &never, nullptr) == 0);
  sigaction(SIGALRM, &before, nullptr);
  CHECK(*client.add("n", 1) == 1);
}

TEST_CASE("a name server that is mute does not make a connection attempt longer") {
  // In namespaces of its own: a name server that never answers, for half a minute.
  const int status = status_of_child([] {
    if (unshare(CLONE_NEWNS | CLONE_NEWNET) != 0) return 77;
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return 77;
    char path[] = "/tmp/resolv.XXXXXX";
    const FileDescriptor file(mkstemp(path));
    const std::string text = "nameserver 127.0.0.1\noptions timeout:30 attempts:1\n";
    if (cpprun::write_all(file.get(), text) != text.size()) return 77;
    const bool is_mounted = mount(path, "/etc/resolv.conf", nullptr, MS_BIND, nullptr) == 0;
    unlink(path);
    if (!is_mounted) return 77;
    const FileDescriptor server(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq loopback{};
    std::snprintf(loopback.ifr_name, sizeof loopback.ifr_name, "lo");
    loopback.ifr_flags = IFF_UP;
    if (ioctl(server.get(), SIOCSIFFLAGS, &loopback) != 0) return 77;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(53);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(server.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return 77;
    cpprun_store_client* const client = cpprun_store_connect("store.example", 1, 100);
    const std::string error = cpprun_store_error();
    return client == nullptr && cpprun_store_error_code() == CPPRUN_STORE_TIMEOUT &&
                   error.find("the name server did not respond") != std::string::npos
               ? 0
               : 1;
  });
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    MESSAGE("skipped: no permission to make namespaces");
    return;
  }
  CHECK(status == 0);
}

TEST_CASE("a long error text is cut between two characters") {
  std::string host;
  for (int at = 0; at < 1000; ++at) host += "\u00e9";
  CHECK(cpprun_store_connect(("unix:" + host).c_str(), 0, 0) == nullptr);
  const std::string text = cpprun_store_error();
  CHECK(text.size() < 1024);
  CHECK(text.size() >= 1022);
  CHECK((static_cast<unsigned char>(text.back()) & 0xC0) == 0x80);
}

}  // namespace store_api_test

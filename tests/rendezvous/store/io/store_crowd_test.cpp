// SPDX-License-Identifier: BSD-3-Clause
// As many connections as the descriptor limit allows, up to 20,000. Each side is a process of its
// own, since one process could hold only half as many.

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "rendezvous/client/io/store_client.h"
#include "rendezvous/store/io/listener.h"
#include "rendezvous/store/io/store_server.h"
#include "tests/rendezvous/store/io/served_set.h"

namespace store_crowd_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

constexpr int crowd_wanted = 20'000;
constexpr int descriptors_of_others = 200;

// Connects from several loopback addresses, since one has only some 28,000 ports; every client adds
// one to a counter, then keeps its connection until the parent has counted them.
int connect_crowd(std::uint16_t port, int count) {
  static const char hello[] =
      "\x00\xce\xf7\x85\x3c\x04\x02\x00\x00\x00\x00\x00\x00\x00/n\x01\x00\x00\x00\x00\x00\x00\x00";
  std::vector<FileDescriptor> crowd;
  for (int at = 0; at < count; ++at) {
    FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in from{};
    from.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + static_cast<unsigned>(at % 4));
    if (bind(fd.get(), reinterpret_cast<sockaddr*>(&from), sizeof from) != 0) return 2;
    sockaddr_in to = from;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(port);
    if (connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) return 3;
    if (::send(fd.get(), hello, sizeof hello - 1, MSG_NOSIGNAL) != sizeof hello - 1) return 4;
    crowd.push_back(std::move(fd));
  }
  for (const FileDescriptor& fd : crowd) {
    std::int64_t sum = 0;
    if (recv(fd.get(), &sum, sizeof sum, MSG_WAITALL) != sizeof sum) return 5;
  }
  StoreResult<StoreClient> last = StoreClient::open({.host = "127.0.0.1", .port = port});
  if (!last || !last->set("all clients", "connected") || !last->get("may exit", 60s)) return 6;
  return 0;
}

}  // namespace

TEST_CASE("a crowd of clients is served at once") {
  const auto limit = static_cast<int>(raise_descriptor_limit());
  const int count = std::min(crowd_wanted, limit - descriptors_of_others);
  if (count < crowd_wanted) {
    MESSAGE("only " << count << " connections, the limit of open files is " << limit);
  }
  int to_child[2];
  REQUIRE(pipe(to_child) == 0);
  const pid_t child = fork();  // before there is a thread
  REQUIRE(child >= 0);
  if (child == 0) {
    std::uint16_t port = 0;
    if (read(to_child[0], &port, sizeof port) != sizeof port) _exit(1);
    _exit(connect_crowd(port, count));
  }
  StoreServer server({.host = "127.0.0.1"});
  const std::uint16_t port = server.port();
  REQUIRE(write(to_child[1], &port, sizeof port) == sizeof port);
  StoreResult<StoreClient> client = StoreClient::open({.host = "127.0.0.1", .port = port});
  REQUIRE(client);
  CHECK(client->get("all clients", 120s));
  CHECK(client->add("n", 0) == count);
  CHECK(client->set("may exit", "1"));
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(client->add("n", 1) == count + 1);
}

}  // namespace store_crowd_test

// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/session.h"

#include <doctest/doctest.h>

#include <vector>

namespace unidentified_connections_test {

using namespace cpprun;

TEST_CASE("the oldest connection that has sent nothing is the longest silent") {
  SessionTable table;
  UnidentifiedConnections unidentified_connections;
  std::vector<ConnectionId> ids;
  for (int fd = 10; fd < 14; ++fd) {
    ids.push_back(table.open(fd, {}, 0).id);
    unidentified_connections.add(ids.back(), table);
  }
  CHECK(unidentified_connections.longest_silent(table)->socket == 10);
  table.find(ids[0])->speaks = Speaks::store;
  CHECK(unidentified_connections.longest_silent(table)->socket == 11);
  table.release(*table.find(ids[1]));
  CHECK(unidentified_connections.longest_silent(table)->socket == 12);
  CHECK(unidentified_connections.longest_silent(table, ids[2]) == nullptr);
  CHECK(unidentified_connections.longest_silent(table, ids[3])->socket == 12);
}

TEST_CASE("the longest silent connection of one address is found") {
  const auto from = [](std::uint8_t last) {
    PeerAddress peer;
    peer.ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 0, 0, last};
    return peer;
  };
  SessionTable table;
  UnidentifiedConnections unidentified_connections;
  for (const int fd : {10, 11, 12}) {
    unidentified_connections.add(table.open(fd, from(fd == 10 ? 1 : 2), 0).id, table);
  }
  CHECK(unidentified_connections.longest_silent_of(table, from(2))->socket == 11);
  unidentified_connections.longest_silent_of(table, from(2))->speaks = Speaks::store;
  CHECK(unidentified_connections.longest_silent_of(table, from(2))->socket == 12);
  CHECK(unidentified_connections.longest_silent_of(table, from(3)) == nullptr);
}

TEST_CASE("a crowd that sends bytes and leaves is removed from the unidentified connections") {
  SessionTable table;
  UnidentifiedConnections unidentified_connections;
  const ConnectionId first = table.open(9, {}, 0).id;
  unidentified_connections.add(first, table);
  for (int at = 0; at < 10'000; ++at) {
    Session& guest = table.open(10, {}, 0);
    unidentified_connections.add(guest.id, table);
    guest.speaks = Speaks::store;
    table.release(guest);
  }
  CHECK(unidentified_connections.longest_silent(table)->id == first);
  table.release(*table.find(first));
  CHECK(unidentified_connections.longest_silent(table) == nullptr);
}

}  // namespace unidentified_connections_test

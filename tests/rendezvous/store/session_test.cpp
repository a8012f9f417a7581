// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/session.h"

#include <doctest/doctest.h>

namespace session_test {

using namespace cpprun;

TEST_CASE("an idle connection takes less than the goal of 200 bytes") {
  CHECK(sizeof(Session) <= 96);
}

TEST_CASE("the id of a closed connection finds nothing, even when its slot is reused") {
  SessionTable table;
  Session& first = table.open(5, {}, 0);
  const ConnectionId id = first.id;
  CHECK(table.find(id) == &first);
  CHECK(table.size() == 1);
  table.release(first);
  CHECK(table.find(id) == nullptr);
  CHECK(table.size() == 0);
  Session& second = table.open(6, {}, 0);
  CHECK(&second == &first);
  CHECK(second.id != id);
  CHECK(table.find(id) == nullptr);
  CHECK(table.find(second.id) == &second);
}

TEST_CASE("unknown ids find nothing") {
  SessionTable table;
  CHECK(table.find(ConnectionId{}) == nullptr);
  CHECK(table.find(ConnectionId{12345}) == nullptr);
}

}  // namespace session_test

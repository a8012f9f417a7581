// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/held_messages.h"

#include <doctest/doctest.h>

#include "rendezvous/coordinator/bounds.h"

namespace pending_messages_test {

using namespace cpprun;

TEST_CASE("early messages of an expected link are kept in order, without heartbeats") {
  PendingMessages early;
  CHECK(early.keep(LinkId{1}, link::Succeeded{RoundNumber{1}}));
  CHECK(early.take(LinkId{1}).empty());
  early.expect(LinkId{1});
  CHECK(early.keep(LinkId{1}, link::Heartbeat{}));
  CHECK(early.keep(LinkId{1}, link::Succeeded{RoundNumber{1}}));
  early.expect(LinkId{1});
  CHECK(early.keep(LinkId{1}, link::Drained{RoundNumber{1}}));
  CHECK(early.take(LinkId{1}) ==
        std::vector<link::Message>{link::Succeeded{RoundNumber{1}}, link::Drained{RoundNumber{1}}});
  CHECK(early.size() == 0);
}

TEST_CASE("the number of early messages of a link is limited") {
  PendingMessages early;
  early.expect(LinkId{1});
  for (std::size_t each = 0; each < bounds::early_words_max; ++each) {
    CHECK(early.keep(LinkId{1}, link::Drained{RoundNumber{1}}));
  }
  CHECK_FALSE(early.keep(LinkId{1}, link::Drained{RoundNumber{1}}));
  early.forget(LinkId{1});
  CHECK(early.size() == 0);
}

TEST_CASE("early messages of all links together are limited in bytes, and the bytes are released") {
  PendingMessages early;
  const link::Leave large{.signal = 15, .reason = std::string(2048, 'x')};
  std::uint64_t links = 0;
  bool has_room = true;
  while (has_room && links < 10'000) {
    early.expect(LinkId{++links});
    has_room = early.keep(LinkId{links}, large);
  }
  CHECK_FALSE(has_room);
  CHECK(links > bounds::early_bytes_max / 4096);
  early.forget(LinkId{1});
  CHECK(early.keep(LinkId{links}, large));
}

}  // namespace pending_messages_test

// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/election_requests.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "rendezvous/etcd/bounds.h"

namespace change_queue_test {

using namespace cpprun;

namespace {

std::string text_of(const ChangeQueue::Batch& batch) {
  std::string text;
  for (const auto& each : batch) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", each.name,
                        each.record ? *each.record : "nothing");
  }
  return text;
}

}  // namespace

TEST_CASE("the last change of each record is written in the position of the first") {
  ChangeQueue queue;
  queue.keep("a", "1", 1);
  queue.keep("b", "2", 2);
  queue.keep("a", "3", 3);
  queue.drop("c", 4);
  CHECK(text_of(queue.next_batch()) == "a=3 b=2 c=nothing");
  CHECK(queue.through() == 0);
  queue.written();
  CHECK(queue.through() == 4);
  CHECK_FALSE(queue.has_more());
}

TEST_CASE("a batch in flight is not changed, and is retried as it was") {
  ChangeQueue queue;
  queue.keep("a", "1", 1);
  CHECK(text_of(queue.next_batch()) == "a=1");
  queue.keep("a", "2", 2);
  CHECK(text_of(queue.next_batch()) == "a=1");
  CHECK(queue.through() == 0);
  queue.written();
  CHECK(queue.through() == 1);
  CHECK(text_of(queue.next_batch()) == "a=2");
  queue.written();
  CHECK(queue.through() == 2);
}

TEST_CASE("only the last list of synced standbys is written") {
  ChangeQueue queue;
  queue.publish({"a"}, 1);
  queue.publish({"b"}, 2);
  const auto& batch = queue.next_batch();
  REQUIRE(batch.size() == 1);
  CHECK(batch.front().synced == std::vector<std::string>{"b"});
}

TEST_CASE("a batch stays within the limits of etcd") {
  ChangeQueue queue;
  for (std::uint64_t each = 1; each <= 100; ++each) queue.keep(fmt::format("{}", each), "", each);
  CHECK(queue.next_batch().size() == bounds::election_batch_max);
  queue.written();
  CHECK(queue.through() == bounds::election_batch_max);
  CHECK(queue.next_batch().size() == 100 - bounds::election_batch_max);
  queue.written();
  const std::string large(bounds::election_record_bytes_max * 2 / 3, 'r');
  queue.keep("a", large, 101);
  queue.keep("b", large, 102);
  CHECK(queue.next_batch().size() == 1);
  queue.written();
  CHECK(queue.next_batch().size() == 1);
}

TEST_CASE(
    "a batch that is too large is retried one by one, and only the failing change is dropped") {
  ChangeQueue queue;
  for (const auto& [name, number] : {std::pair{"a", 1U}, {"b", 2U}, {"c", 3U}}) {
    queue.keep(name, "old", number);
  }
  CHECK(queue.next_batch().size() == 3);
  queue.keep("b", "new", 4);
  CHECK(queue.narrow());
  CHECK(text_of(queue.next_batch()) == "a=old");
  CHECK_FALSE(queue.narrow());
  CHECK(queue.give_up().name == "a");
  CHECK(queue.through() == 1);
  CHECK(text_of(queue.next_batch()) == "c=old b=new");
  CHECK(queue.check() == std::nullopt);
  // A queued change supersedes the returned one, which stays unacknowledged.
  CHECK(queue.through() == 1);
}

TEST_CASE("a rejected change is not waited for") {
  ChangeQueue queue;
  queue.skip(1);
  CHECK(queue.through() == 1);
  queue.keep("a", "1", 2);
  queue.skip(3);
  CHECK(queue.through() == 1);
  queue.next_batch();
  queue.written();
  CHECK(queue.through() == 3);
}

TEST_CASE("a new leader starts with an empty queue") {
  ChangeQueue queue;
  queue.keep("a", "1", 1);
  queue.next_batch();
  queue.keep("b", "1", 2);
  queue.clear();
  CHECK_FALSE(queue.has_more());
  CHECK(queue.last() == 2);
  CHECK(queue.check() == std::nullopt);
}

}  // namespace change_queue_test

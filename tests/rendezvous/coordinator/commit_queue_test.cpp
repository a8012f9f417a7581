// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/held_messages.h"

#include <doctest/doctest.h>

#include <string>

namespace commit_queue_test {

using namespace cpprun;

namespace {

coordinator::Action word(const std::string& reason) {
  return coordinator::HangUp{LinkId{1}, reason};
}

// The messages that are ready to be sent.
std::string said(CommitQueue& words) {
  std::string text;
  while (const auto word = words.next()) {
    if (const auto* const frame = std::get_if<CommitQueue::Frame>(&*word)) {
      text += frame->bytes;
    } else {
      text += std::get<coordinator::HangUp>(std::get<coordinator::Action>(*word)).reason;
    }
  }
  return text;
}

}  // namespace

TEST_CASE("with nothing to write no message waits") {
  CommitQueue words;
  CHECK_FALSE(words.hold(word("a")));
  words.wait_for(CommitSource::record, 0);
  CHECK_FALSE(words.hold(word("b")));
  CHECK(said(words).empty());
}

TEST_CASE("a message waits only for what was decided before it") {
  CommitQueue words;
  words.wait_for(CommitSource::record, 1);
  CHECK(words.hold(word("a")));
  words.wait_for(CommitSource::record, 2);
  CHECK(words.hold(word("b")));
  words.wait_for(CommitSource::record, 0);
  CHECK(words.hold(word("c")));
  CHECK(said(words).empty());
  words.kept(CommitSource::record, 1);
  CHECK(said(words) == "a");
  words.kept(CommitSource::record, 1);
  CHECK(said(words).empty());
  words.kept(CommitSource::record, 7);
  CHECK(said(words) == "bc");
  CHECK_FALSE(words.hold(word("d")));
  words.wait_for(CommitSource::record, 7);
  CHECK_FALSE(words.hold(word("e")));
}

TEST_CASE("no message overtakes another that is ready to be sent") {
  CommitQueue words;
  words.wait_for(CommitSource::record, 1);
  CHECK(words.hold(word("a")));
  CHECK(words.hold(word("b")));
  words.kept(CommitSource::record, 1);
  CHECK(words.next());
  CHECK(words.hold(word("c")));
  CHECK(said(words) == "bc");
}

TEST_CASE("worker data keeps its place among the messages, and its size is counted") {
  CommitQueue words;
  const LinkId link{7};
  CHECK_FALSE(words.hold(link, "now"));
  words.wait_for(CommitSource::log, 3);
  CHECK(words.hold(link, "one"));
  CHECK(words.hold(word("a")));
  CHECK(words.hold(link, "three"));
  CHECK(words.bytes_for(link) == 8);
  words.kept(CommitSource::log, 3);
  CHECK(said(words) == "oneathree");
  CHECK(words.bytes_for(link) == 0);
  CHECK_FALSE(words.holds());
}

TEST_CASE("a message waits for every log keeper, each with its own numbers") {
  CommitQueue words;
  words.wait_for(CommitSource::record, 5);
  words.wait_for(CommitSource::log, 1000);
  CHECK(words.hold(word("a")));
  words.kept(CommitSource::record, 5);
  CHECK(said(words).empty());
  words.wait_for(CommitSource::record, 6);
  CHECK(words.hold(word("b")));
  words.kept(CommitSource::log, 1000);
  CHECK(said(words) == "a");
  words.kept(CommitSource::record, 6);
  CHECK(said(words) == "b");
}

TEST_CASE("dropped messages do not block the queue") {
  CommitQueue words;
  words.wait_for(CommitSource::log, 5);
  CHECK(words.hold(LinkId{1}, "x"));
  CHECK(words.drop_all().empty());
  CHECK(words.bytes_for(LinkId{1}) == 0);
  CHECK_FALSE(words.hold(word("a")));
}

TEST_CASE("dropped commands are returned, so that they can be answered") {
  CommitQueue words;
  words.wait_for(CommitSource::log, 5);
  const coordinator::Answered command{.ticket = 7, .command = {.job = "a"}, .outcome = {}};
  CHECK(words.hold(word("a")));
  CHECK(words.hold(coordinator::Action{command}));
  CHECK(words.drop_all() == std::vector{command});
  CHECK(words.drop_all().empty());
}

TEST_CASE("numbers are written in order, and an older number has no effect") {
  CommitQueue words;
  words.kept(CommitSource::record, 9);
  words.kept(CommitSource::record, 3);
  words.wait_for(CommitSource::record, 9);
  CHECK_FALSE(words.hold(word("a")));
  words.wait_for(CommitSource::record, 10);
  CHECK(words.hold(word("b")));
}

TEST_CASE("a link with a held end is known until the end is sent or dropped") {
  const coordinator::Action end = coordinator::Say{LinkId{2}, link::Finish{}};
  CommitQueue words;
  CHECK_FALSE(words.hold(end));
  CHECK_FALSE(words.holds_end_for(LinkId{2}));
  words.wait_for(CommitSource::log, 1);
  CHECK(words.hold(coordinator::Action{coordinator::Say{LinkId{1}, link::Waiting{}}}));
  CHECK(words.hold(end));
  CHECK_FALSE(words.holds_end_for(LinkId{1}));
  CHECK(words.holds_end_for(LinkId{2}));
  words.kept(CommitSource::log, 1);
  while (words.next()) continue;
  CHECK_FALSE(words.holds_end_for(LinkId{2}));
  words.wait_for(CommitSource::log, 2);
  CHECK(words.hold(end));
  words.drop_all();
  CHECK_FALSE(words.holds_end_for(LinkId{2}));
}

}  // namespace commit_queue_test

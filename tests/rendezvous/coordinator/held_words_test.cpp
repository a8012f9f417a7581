// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/held_words.h"

#include <doctest/doctest.h>

#include <string>

using namespace cpprun;

namespace {

coordinator::Action word(const std::string& reason) {
  return coordinator::HangUp{LinkId{1}, reason};
}

// All that is to be said now.
std::string said(HeldWords& words) {
  std::string text;
  while (const auto action = words.next()) {
    text += std::get<coordinator::HangUp>(*action).reason;
  }
  return text;
}

}  // namespace

TEST_CASE("where nothing is to be written nothing waits") {
  HeldWords words;
  CHECK_FALSE(words.hold(word("a")));
  words.wait_for(0);
  CHECK_FALSE(words.hold(word("b")));
  CHECK(said(words).empty());
}

TEST_CASE("a word waits for what was decided before it, and for nothing else") {
  HeldWords words;
  words.wait_for(1);
  CHECK(words.hold(word("a")));
  words.wait_for(2);
  CHECK(words.hold(word("b")));
  words.wait_for(0);
  CHECK(words.hold(word("c")));
  CHECK(said(words).empty());
  words.written(1);
  CHECK(said(words) == "a");
  words.written(1);
  CHECK(said(words).empty());
  words.written(7);
  CHECK(said(words) == "bc");
  CHECK_FALSE(words.hold(word("d")));
  words.wait_for(7);
  CHECK_FALSE(words.hold(word("e")));
}

TEST_CASE("nothing overtakes a word that is about to be said") {
  HeldWords words;
  words.wait_for(1);
  CHECK(words.hold(word("a")));
  CHECK(words.hold(word("b")));
  words.written(1);
  CHECK(std::get<coordinator::HangUp>(*words.next()).reason == "a");
  CHECK(words.hold(word("c")));
  CHECK(said(words) == "bc");
}

TEST_CASE("numbers are written in order, and an older one is no news") {
  HeldWords words;
  words.written(9);
  words.written(3);
  words.wait_for(9);
  CHECK_FALSE(words.hold(word("a")));
  words.wait_for(10);
  CHECK(words.hold(word("b")));
}

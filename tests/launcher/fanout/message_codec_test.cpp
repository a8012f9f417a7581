// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/fanout/message.h"

#include <doctest/doctest.h>

namespace message_codec_test {

using namespace cpprun;
using namespace cpprun::fanout;

TEST_CASE("terms arrive as they were, whatever bytes are in them") {
  Terms terms;
  terms.members = {{3, "gpu3", 4}, {4, "gpu4", 0}};
  terms.job = {.flags = {"--role=a b", ""},
               .program = {"train.py", "it's \"quoted\" $HOME `x`\n"},
               .environment = {{"A", std::string("\0\xff=", 3)}},
               .directory = "/a folder",
               .secrets = "cpprun1:x:00",
               .shell = {"ssh", "{host}"},
               .nodes = "2:3",
               .elastic = true,
               .conf = "a=b",
               .ship = true,
               .grace_milliseconds = 30'000,
               .is_rehearsal = true};
  std::string bytes =
      encode(Down{terms}) + encode(Down{Stop{15}}) + encode(Down{Begin{-1, 2, "x", 7}});
  CHECK(*take_down(bytes).value() == Down{terms});
  CHECK(*take_down(bytes).value() == Down{Stop{15}});
  CHECK(*take_down(bytes).value() == Down{Begin{-1, 2, "x", 7}});
  CHECK(bytes.empty());
}

TEST_CASE("what hosts say arrives as it was") {
  std::string bytes;
  const std::vector<Up> said = {Here{1, "10.0.0.1", 4000},
                                Gone{2, "refused"},
                                Words{1, true, "half a line"},
                                Ended{1, 143, true},
                                Pong{},
                                Answer{3, "{}"}};
  for (const auto& each : said) bytes += encode(each);
  for (const auto& each : said) CHECK(*take_up(bytes).value() == each);
  CHECK(bytes.empty());
}

TEST_CASE("a message that has not all arrived is waited for, at every byte of it") {
  const std::string whole = encode(Up{Gone{2, "refused"}});
  std::string bytes;
  for (const char byte : whole.substr(0, whole.size() - 1)) {
    bytes += byte;
    CHECK(!take_up(bytes).value());
  }
  bytes += whole.back();
  CHECK(*take_up(bytes).value() == Up{Gone{2, "refused"}});
}

TEST_CASE("what is no message is refused and not waited for") {
  std::string banner = "Welcome to gpu1!\n";
  CHECK(!take_up(banner));
  std::string unknown = std::string(4, '\0') + '\x7f';
  CHECK(!take_up(unknown));
  std::string torn = encode(Up{Gone{2, "refused"}});
  torn[9] = '\x70';  // a text longer than its message
  CHECK(!take_up(torn));
  std::string longer = encode(Down{Stop{15}});
  longer[0] = 5;
  longer += 'x';
  CHECK(!take_down(longer));
}

}  // namespace message_codec_test

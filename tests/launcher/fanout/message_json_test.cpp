// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/fanout/message.h"

#include <doctest/doctest.h>

namespace message_json_test {

using namespace cpprun;
using namespace cpprun::fanout;

TEST_CASE("terms survive a round trip, with any bytes") {
  Terms terms;
  terms.host = {3, "gpu3", 4};
  terms.job = {.flags = {"--role=a b", ""},
               .program = {"train.py", "it's \"quoted\" $HOME `x`\n"},
               .environment = {{"A", std::string("\0\xff=", 3)}},
               .directory = "/a directory",
               .secrets = "cpprun1:x:00",
               .nodes = "2:3",
               .elastic = true,
               .conf = "a=b",
               .grace_milliseconds = 30'000,
               .is_rehearsal = true};
  std::string bytes =
      encode(Down{terms}) + encode(Down{Stop{15}}) + encode(Down{Ping{}}) + encode(Down{Ask{"?"}});
  CHECK(*take_down(bytes).value() == Down{terms});
  CHECK(*take_down(bytes).value() == Down{Stop{15}});
  CHECK(*take_down(bytes).value() == Down{Ping{}});
  CHECK(*take_down(bytes).value() == Down{Ask{"?"}});
  CHECK(bytes.empty());
}

TEST_CASE("messages of hosts survive a round trip") {
  std::string bytes;
  const std::vector<Up> said = {
      Here{"10.0.0.1", 4000}, Gone{"refused"}, Words{true, "half a line \xc3"},
      Ended{143, true},       Pong{},          Answer{"{}"}};
  for (const auto& each : said) bytes += encode(each);
  for (const auto& each : said) CHECK(*take_up(bytes).value() == each);
  CHECK(bytes.empty());
}

TEST_CASE("an incomplete message is waited for, at every byte of it") {
  const std::string whole = encode(Up{Gone{"refused"}});
  std::string bytes;
  for (const char byte : whole.substr(0, whole.size() - 1)) {
    bytes += byte;
    CHECK(!take_up(bytes).value());
  }
  bytes += whole.back();
  CHECK(*take_up(bytes).value() == Up{Gone{"refused"}});
}

TEST_CASE("invalid messages are rejected and not waited for") {
  std::string banner = "Welcome to gpu1!\n";
  CHECK(!take_up(banner));
  std::string unknown = std::string(4, '\0') + '\x7f';
  CHECK(!take_up(unknown));
  std::string empty(5, '\0');  // a Here without members
  CHECK(!take_up(empty));
  std::string torn = encode(Up{Gone{"refused"}});
  torn[6] = '\x70';  // a longer name
  CHECK(!take_up(torn));
  std::string longer = encode(Down{Stop{15}});
  ++longer[0];
  longer += 'x';
  CHECK(!take_down(longer));
  std::string partial = encode(Down{Stop{15}});
  partial[4] = '\0';  // Terms
  CHECK(!take_down(partial));
}

}  // namespace message_json_test

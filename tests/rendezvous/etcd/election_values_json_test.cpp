// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/election_view.h"

#include <doctest/doctest.h>

#include "rendezvous/etcd/bounds.h"

namespace election_values_json_test {

using namespace cpprun;
using namespace std::chrono_literals;

TEST_CASE("the leader's card is read as it was written") {
  const LeaderCard leader{"alpha", R"({"address":"10.0.0.1:29400"})"};
  CHECK(to_json(leader) == R"({"card":"{\"address\":\"10.0.0.1:29400\"}","name":"alpha"})");
  CHECK(read_leader_card(to_json(leader)) == leader);
  CHECK(read_leader_card(R"({"name":"a","card":"","since":7})") == LeaderCard{"a", ""});
}

TEST_CASE("the list of synced standbys is read as it was written") {
  const Synced plain{.names = {"a", "b"}, .term = 3, .ttl = 2s};
  CHECK(to_json(plain) == R"({"names":["a","b"],"term":3,"ttl_ms":2000})");
  CHECK(read_synced(to_json(plain)) == plain);
  const Synced last{
      .names = {"a"}, .epoch = 17, .term = 3, .ttl = 2s, .is_vacant = true, .successor = "a"};
  CHECK(read_synced(to_json(last)) == last);
  CHECK(read_synced(R"({"names":[]})") == Synced{});
}

TEST_CASE("a foreign value is rejected") {
  for (const std::string text :
       {"", "7", "[]", "{}", "{", R"({"name":"a"})", R"({"name":"","card":""})",
        R"({"name":7,"card":""})", R"({"name":"a","card":{}})"}) {
    CAPTURE(text);
    CHECK_FALSE(read_leader_card(text));
  }
  for (const std::string text :
       {"", "{}", R"({"names":7})", R"({"names":[7]})", R"({"names":[""]})",
        R"({"names":[],"term":-1})", R"({"names":[],"term":"3"})", R"({"names":[],"ttl_ms":1e9})",
        R"({"names":[],"ttl_ms":99999999999})", R"({"names":[],"vacant":1})",
        R"({"names":[],"heir":""})", R"({"names":[],"epoch":18446744073709551615})"}) {
    CAPTURE(text);
    CHECK_FALSE(read_synced(text));
  }
  CHECK_FALSE(read_leader_card(R"({"name":")" + std::string(300, 'a') + R"(","card":""})"));
  CHECK_FALSE(read_leader_card(R"({"name":"a","card":")" + std::string(20'000, 'a') + "\"}"));
  CHECK_FALSE(read_leader_card(std::string(1'000'000, '[')));
  CHECK_FALSE(read_synced(R"({"names":[[["a"]]]})"));
  std::string names = "\"a\"";
  for (std::size_t each = 0; each < bounds::election_synced_max; ++each) names += ",\"a\"";
  CHECK_FALSE(read_synced("{\"names\":[" + names + "]}"));
}

TEST_CASE("an invalid byte in a card does not prevent leadership") {
  CHECK(read_leader_card(to_json(LeaderCard{"a", "\xff"})));
}

}  // namespace election_values_json_test

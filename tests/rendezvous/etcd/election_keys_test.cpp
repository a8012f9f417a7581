// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/election_view.h"

#include <doctest/doctest.h>

namespace election_keys_test {

using namespace cpprun;

TEST_CASE("each election has its own keys") {
  const auto keys = ElectionKeys::make("cluster-a");
  REQUIRE(keys);
  CHECK(keys->leader() == "/cpprun/cluster-a/leader");
  CHECK(keys->synced() == "/cpprun/cluster-a/synced");
  CHECK(keys->cluster() == "/cpprun/cluster-a/cluster");
  CHECK(keys->turn() == "/cpprun/cluster-a/turn");
  CHECK(keys->record("job 1") == "/cpprun/cluster-a/jobs/job 1");
}

TEST_CASE("records, and only records, are between the two bounds of the key range") {
  const auto keys = *ElectionKeys::make("a");
  for (const std::string name : {"x", "a/b", "\xff\xff", " "}) {
    const auto key = keys.record(name);
    CHECK(keys.records() <= key);
    CHECK(key < keys.records_end());
    CHECK(keys.name_of_record(key) == name);
  }
  for (const auto& key : {keys.leader(), keys.synced(), keys.cluster(), keys.turn()}) {
    CHECK((key < keys.records() || key >= keys.records_end()));
    CHECK_FALSE(keys.name_of_record(key));
  }
  CHECK_FALSE(keys.name_of_record(keys.records()));
}

TEST_CASE("an invalid cluster name is rejected") {
  CHECK(ElectionKeys::make("").error().reason == "the cluster has no name");
  CHECK(ElectionKeys::make("a/b").error().reason ==
        "invalid cluster name \"a/b\": a slash is not allowed");
  CHECK(ElectionKeys::make("a b").error().reason.find(
            "use ASCII letters, digits and punctuation") != std::string::npos);
  CHECK(ElectionKeys::make(std::string(600, 'a')).error().reason.find("the maximum is 512") !=
        std::string::npos);
}

}  // namespace election_keys_test

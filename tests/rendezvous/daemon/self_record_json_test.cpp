// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/state_file.h"

#include <doctest/doctest.h>

namespace self_record_json_test {

using namespace cpprun;

namespace {

const SelfRecord leads{.life = "12ab",
                       .boot = "b1",
                       .set = "s",
                       .cluster = "c1",
                       .epoch = 7,
                       .has_all = true,
                       .is_synced = false};

}  // namespace

TEST_CASE("what a cpprund keeps of itself is read again, and is no job's record") {
  const std::string bytes = self_record_bytes(leads);
  CHECK(is_self_record(bytes));
  CHECK(read_self_record(bytes) == leads);
  CHECK_FALSE(is_self_record(R"({"version":1,"job":"j"})"));
}

TEST_CASE("what is damaged is told, and nothing is made up") {
  CHECK_FALSE(read_self_record(""));
  CHECK_FALSE(read_self_record("{}"));
  CHECK_FALSE(read_self_record(R"({"cpprund":{}})"));
  CHECK_FALSE(read_self_record(R"({"cpprund":{"life":7}})"));
  std::string negative = self_record_bytes(leads);
  negative.replace(negative.find(":7"), 2, ":-7");
  CHECK_FALSE(read_self_record(negative));
}

TEST_CASE("a life goes on where everything it has said is there still") {
  CHECK(life_that_goes_on(leads, "b1") == "12ab");
  SelfRecord follows = leads;
  follows.has_all = false;
  CHECK_FALSE(life_that_goes_on(follows, "b1"));
  SUBCASE("power was lost, and not everything was on the disk") {
    CHECK_FALSE(life_that_goes_on(leads, "b2"));
    CHECK_FALSE(life_that_goes_on(leads, ""));
  }
  SUBCASE("power was lost, and everything was") {
    SelfRecord synced = leads;
    synced.is_synced = true;
    CHECK(life_that_goes_on(synced, "b2") == "12ab");
  }
}

TEST_CASE("what lies in a folder is of one cluster, and of nobody without an etcd") {
  const SelfRecord found{.life = "1", .set = "tonight"};
  CHECK_FALSE(objection_to(found, "tonight"));
  CHECK(objection_to(found, "default") ==
        "has the jobs of cluster \"tonight\", but this cpprund belongs to \"default\"; for these "
        "jobs, use --cluster=tonight and the --etcd of that cluster, otherwise another directory");
  CHECK(objection_to(found, "") ==
        "has the jobs of cluster \"tonight\", but this cpprund has no --etcd; for these jobs, use "
        "--cluster=tonight and the --etcd of that cluster, otherwise another directory");
}

}  // namespace self_record_json_test

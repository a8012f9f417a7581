// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/job_choice.h"

#include <doctest/doctest.h>

using namespace cpprun;

namespace {

const std::vector<KnownJob> three{{"train-a", "/run/a"}, {"train-b", "/run/b"}, {"eval", "/run/b"}};

std::string refusal(const std::vector<KnownJob>& known, const std::string& wanted) {
  const auto chosen = choose_job(known, wanted);
  REQUIRE_FALSE(chosen);
  return chosen.error().reason;
}

}  // namespace

TEST_CASE("the only job needs no name") {
  CHECK(choose_job({{"train", ""}}, "") == 0U);
  CHECK(refusal({}, "") == "no job runs here");
}

TEST_CASE("a job is meant by its name, or by how no other name begins") {
  CHECK(choose_job(three, "eval") == 2U);
  CHECK(choose_job(three, "e") == 2U);
  CHECK(choose_job(three, "train-b") == 1U);
  CHECK(choose_job({{"a", ""}, {"ab", ""}}, "a") == 0U);
}

TEST_CASE("a name that several have, or nobody, is refused with what there is") {
  CHECK(refusal(three, "train") == "several jobs begin with \"train\": \"train-a\", \"train-b\"");
  CHECK(refusal(three, "x") ==
        "no job \"x\" is known; there is \"train-a\", \"train-b\", \"eval\"");
  CHECK(refusal(three, "") ==
        "several jobs run here, say which one is meant: \"train-a\", \"train-b\", \"eval\"");
}

TEST_CASE("jobs of one name at two places are told apart by the place") {
  CHECK(refusal({{"a", "/run/1"}, {"a", "/run/2"}}, "a") ==
        "several jobs are called \"a\", say with --address which one is meant: \"a\" at /run/1, "
        "\"a\" at /run/2");
}

TEST_CASE("of many jobs some are listed, and how many more there are") {
  const std::vector<KnownJob> many(23, KnownJob{"a", "b"});
  CHECK(refusal(many, "x").ends_with(" and 3 more"));
}

TEST_CASE("an id is escaped as an address needs it") {
  CHECK(escaped("train-1_a.b~") == "train-1_a.b~");
  CHECK(escaped("a/b c%\xc3\xbc") == "a%2Fb%20c%25%C3%BC");
}

TEST_CASE("who could be meant by an order about a host is told with what they host") {
  CHECK(which_place({{"/run/a.sock", {"train", "eval"}}, {"/run/b.sock", {}}}) ==
        "2 programs host jobs here, say with --job or --address which one is meant, or --all: "
        "/run/a.sock (\"train\", \"eval\"); /run/b.sock (no job yet)");
}

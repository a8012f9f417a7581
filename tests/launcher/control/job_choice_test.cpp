// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/job_choice.h"

#include <doctest/doctest.h>

namespace job_choice_test {

using namespace cpprun;

namespace {

const std::vector<KnownJob> three{{"train-a", "/run/a"}, {"train-b", "/run/b"}, {"eval", "/run/b"}};
constexpr auto prefix = NameMatch::prefix;
constexpr auto whole = NameMatch::whole;

std::size_t chosen(const std::vector<KnownJob>& known, const std::string& wanted, NameMatch match,
                   const std::vector<std::string>& silent = {}) {
  const auto choice = choose_job(known, wanted, match, silent);
  REQUIRE(choice);
  return *choice;
}

NoJob none(const std::vector<KnownJob>& known, const std::string& wanted, NameMatch match,
           const std::vector<std::string>& silent = {}) {
  const auto choice = choose_job(known, wanted, match, silent);
  REQUIRE_FALSE(choice);
  return choice.error();
}

std::string refusal(const std::vector<KnownJob>& known, const std::string& wanted) {
  return none(known, wanted, prefix).sentence;
}

}  // namespace

TEST_CASE("the only job needs no name") {
  CHECK(chosen({{"train", ""}}, "", prefix) == 0U);
  CHECK(chosen({{"train", ""}}, "", whole) == 0U);
  CHECK(refusal({}, "") == "no jobs found");
  CHECK(none({}, "", whole).sentence == "no jobs found");
}

TEST_CASE("a command that only reads accepts a name or a unique prefix") {
  CHECK(chosen(three, "eval", prefix) == 2U);
  CHECK(chosen(three, "e", prefix) == 2U);
  CHECK(chosen(three, "train-b", prefix) == 1U);
  CHECK(chosen({{"a", ""}, {"ab", ""}}, "a", prefix) == 0U);
}

TEST_CASE("a command that changes a job accepts only the full name") {
  CHECK(chosen(three, "train-b", whole) == 1U);
  const std::vector<KnownJob> ten{{"train-10", "/run/a"}};
  const auto ended = none(ten, "train-1", whole);
  CHECK(ended.sentence == "unknown job \"train-1\"; known: \"train-10\"");
  CHECK(ended.hint == "give the full name; only read-only commands accept a prefix");
  CHECK_FALSE(ended.is_unknown);
  CHECK(none(ten, "eval", whole).hint.empty());
}

TEST_CASE("while an endpoint is silent, a job that is not found is unknown and not absent") {
  const std::vector<std::string> silent{"/run/z"};
  const auto unknown = none(three, "train-1", whole, silent);
  CHECK(unknown.is_unknown);
  CHECK(unknown.sentence ==
        "cannot tell whether job \"train-1\" is running: no response from /run/z");
  CHECK(none({}, "x", prefix, silent).is_unknown);
  CHECK(none(three, "x", prefix, silent).is_unknown);
  CHECK(none({{"train-10", ""}}, "train-1", whole, silent).is_unknown);
  CHECK(none({}, "", whole, silent).is_unknown);
  // The only visible job may not be the only job.
  const auto which = none({{"train", ""}}, "", whole, silent);
  CHECK(which.is_unknown);
  CHECK(which.sentence == "cannot choose a job: no response from /run/z");
  // A full name is enough, and so is one job for a command that only reads.
  CHECK(chosen(three, "eval", whole, silent) == 2U);
  CHECK(chosen({{"train", ""}}, "", prefix, silent) == 0U);
  CHECK(chosen(three, "ev", prefix, silent) == 2U);
}

TEST_CASE("an ambiguous or unknown name is rejected with the known jobs") {
  CHECK(refusal(three, "train") ==
        "several jobs have names that begin with \"train\": \"train-a\", \"train-b\"");
  CHECK(refusal(three, "x") == "unknown job \"x\"; known: \"train-a\", \"train-b\", \"eval\"");
  CHECK(refusal(three, "") == "found several jobs: \"train-a\", \"train-b\", \"eval\"");
}

TEST_CASE("jobs of one name at two endpoints are distinguished by the endpoint") {
  for (const auto match : {prefix, whole}) {
    CHECK(none({{"a", "/run/1"}, {"a", "/run/2"}}, "a", match).sentence ==
          "several jobs are named \"a\": \"a\" at /run/1, \"a\" at /run/2");
  }
}

TEST_CASE("of many jobs some are listed, and the rest is counted") {
  const std::vector<KnownJob> many(23, KnownJob{"a", "b"});
  CHECK(refusal(many, "x").ends_with(" and 3 more"));
}

TEST_CASE("a job id is percent-encoded for a URL") {
  CHECK(escaped("train-1_a.b~") == "train-1_a.b~");
  CHECK(escaped("a/b c%\xc3\xbc") == "a%2Fb%20c%25%C3%BC");
}

TEST_CASE("the candidates of a host command are listed with the jobs they host") {
  CHECK(which_endpoint({{"/run/a.sock", {"train", "eval"}}, {"/run/b.sock", {}}}) ==
        "2 programs host jobs here: /run/a.sock (\"train\", \"eval\"); /run/b.sock (no job yet)");
}

}  // namespace job_choice_test

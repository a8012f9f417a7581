// SPDX-License-Identifier: BSD-3-Clause
// Invalid records.

#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "rendezvous/job/job.h"
#include "rendezvous/job/job_record_json.h"
#include "tests/rendezvous/job/recorded_job.h"

namespace job_record_read_json_test {

using namespace cpprun;
using namespace cpprun::testing;

namespace {

using Json = nlohmann::json;
const ClockPair moment{.now = TimePoint{1000h}, .wall = WallTime{std::chrono::hours{500'000}}};

std::string refusal(const std::string& bytes) {
  const auto read = read_job_record(bytes, moment);
  return read ? std::string() : read.error().reason;
}

std::string refusal_of_changed(const std::function<void(Json&)>& change) {
  Json json = Json::from_cbor(job_record_bytes(recorded_job(moment.now), moment));
  change(json);
  std::string bytes;
  Json::to_cbor(json, bytes);
  return refusal(bytes);
}

}  // namespace

TEST_CASE("an invalid record is rejected with a reason") {
  CHECK(refusal("").starts_with("is not a job record of cpprund"));
  CHECK(refusal("{}").starts_with("is not a job record of cpprund"));
  CHECK(refusal_of_changed([](Json& json) { json["cpprund_job"] = 2; }) ==
        "is of version 2, but this cpprund reads version 1");
  CHECK(refusal_of_changed([](Json& json) {
          json["nodes"] = Json::array();
        }).ends_with("(no nodes)"));
  CHECK(refusal_of_changed([](Json& json) { json["phase"] = "asleep"; }).ends_with("(asleep)"));
  CHECK(refusal_of_changed([](Json& json) {
          json["nodes"][1]["node"] = 0;
        }).ends_with("(two nodes have the same rank)"));
  CHECK(refusal_of_changed([](Json& json) {
          json["nodes"][1]["state"] = "waiting";
        }).ends_with("(a seat contradicts its round)"));
  CHECK(refusal_of_changed([](Json& json) {
          json["phase"] = "sealed";
        }).ends_with("(drained too early)"));
  CHECK(refusal_of_changed([](Json& json) {
          json["sealed_at"] = INT64_MAX;
        }).ends_with("(a moment)"));
  CHECK(refusal_of_changed([](Json& json) { json["time"]["current"] = 9; }).ends_with("(current)"));
  CHECK(refusal_of_changed([](Json& json) {
          json["restarts"]["restarts_used"] = -1;
        }).ends_with("(restarts_used)"));
}

TEST_CASE("each member is required, and a member of another type is rejected without a crash") {
  const Json whole = Json::from_cbor(job_record_bytes(recorded_job(moment.now), moment));
  std::size_t members = 0;
  const std::function<void(const Json::json_pointer&, const Json&)> spoil =
      [&](const Json::json_pointer& at, const Json& part) {
        if (part.is_structured()) {
          for (const auto& [key, value] : part.items()) spoil(at / key, value);
        }
        if (at.empty()) return;
        ++members;
        for (const Json& other : {Json(), Json(-1), Json("x"), Json::array(), Json::object()}) {
          Json changed = whole;
          changed[at] = other;
          std::string bytes;
          Json::to_cbor(changed, bytes);
          const auto read = read_job_record(bytes, moment);
          if (!read) continue;
          // A job can continue from an accepted record.
          Job job(moment.now, *read, {.lease = 3s}, LinkId{1});
          coordinator::Actions actions;
          job.advance(moment.now + 1h, actions);
        }
      };
  spoil(Json::json_pointer(), whole);
  CHECK(members > 100);
  for (const auto& [key, value] : whole.items()) {
    // Records from versions with a single cpprund lack these keys.
    const bool may_be_missing = key == "patience_ms" || key == "votes_needed";
    const std::string refusal = refusal_of_changed([&key](Json& json) { json.erase(key); });
    CHECK_MESSAGE(refusal.empty() == may_be_missing, key);
  }
}

TEST_CASE("no truncation and no flipped byte ends the program") {
  const std::string whole = job_record_bytes(recorded_job(moment.now), moment);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK(!refusal(whole.substr(0, size)).empty());
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x55);
    (void)read_job_record(changed, moment);  // It returns, possibly with the record of another job.
  }
}

}  // namespace job_record_read_json_test

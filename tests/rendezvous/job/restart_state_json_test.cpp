// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/job_record_json.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace restart_state_json_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

// This machine has been up for an hour, the later one for a minute.
const ClockPair here{.now = TimePoint{1h}, .wall = WallTime{1'769'000'000s}};
const ClockPair later{.now = TimePoint{1min}, .wall = WallTime{1'769'000'600s}};

RestartState used() {
  RestartState state;
  state.restarts_used = 3;
  state.spent[""] = {TimePoint{50min}, TimePoint{59min}};
  state.spent["hang"] = {TimePoint{55min}};
  state.farthest = {.step = 900, .checkpoint_step = 800};
  state.fruitless = 1;
  state.host_failures["n3"] = {TimePoint{58min}};
  return state;
}

std::string refusal(const std::string& text) {
  const auto read = read_restart_state(text, "slurm-7.0", here);
  return read ? "it is taken" : read.error().reason;
}

}  // namespace

TEST_CASE("the restart state survives a round trip to a machine with another clock") {
  const auto text = restart_state_json(used(), "slurm-7.0", here);
  CHECK(read_restart_state(text, "slurm-7.0", here) == used());
  const auto read = read_restart_state(text, "slurm-7.0", later);
  REQUIRE(read);
  // Ten minutes and another boot later, every age is ten minutes more.
  CHECK(read->spent.at("") ==
        RestartState::Moments{TimePoint{1min - 20min}, TimePoint{1min - 11min}});
  CHECK(read->host_failures.at("n3") == RestartState::Moments{TimePoint{1min - 12min}});
}

TEST_CASE("the file is plain JSON with times since 1970") {
  const auto json = nlohmann::json::parse(restart_state_json(used(), "slurm-7.0", here));
  CHECK(json["cpprun_restart_state"] == 1);
  CHECK(json["restarts_used"] == 3);
  CHECK(json["spent"]["hang"] == nlohmann::json::array({1'769'000'000 - 300}));
  CHECK(json["farthest"]["checkpoint_step"] == 800);
}

TEST_CASE("a time in the future counts as now: clocks differ, and a window must end") {
  auto json = nlohmann::json::parse(restart_state_json(used(), "slurm-7.0", here));
  json["spent"][""] = {4e9};
  CHECK(read_restart_state(json.dump(), "slurm-7.0", here)->spent.at("") ==
        RestartState::Moments{here.now});
}

TEST_CASE(
    "a file of another job is rejected with both names, and a later version with both versions") {
  CHECK(refusal(restart_state_json(used(), "slurm-8.0", here)) ==
        "belongs to job \"slurm-8.0\", but this is job \"slurm-7.0\"; use one file per job, or set "
        "--rdzv-id");
  CHECK(refusal(R"({"cpprun_restart_state":2,"job":"slurm-7.0"})")
            .starts_with("is of version 2, but this cpprun reads version 1"));
}

TEST_CASE("an invalid state is rejected with the key that is wrong") {
  const auto whole = nlohmann::json::parse(restart_state_json(used(), "slurm-7.0", here));
  const auto with = [&](const char* key, const nlohmann::json& value) {
    auto changed = whole;
    changed[key] = value;
    return refusal(changed.dump());
  };
  CHECK(refusal("") ==
        "is not a restart state file of cpprun (not a JSON object); remove it to start with the "
        "full restart budget");
  CHECK(refusal("[1]").find("(not a JSON object)") != std::string::npos);
  CHECK(refusal("{}").find("(cpprun_restart_state)") != std::string::npos);
  CHECK(with("job", 7).find("(job)") != std::string::npos);
  CHECK(with("restarts_used", -1).find("(restarts_used)") != std::string::npos);
  CHECK(with("restarts_used", 1e30).find("(restarts_used)") != std::string::npos);
  CHECK(with("no_progress", "1").find("(no_progress)") != std::string::npos);
  CHECK(with("spent", nlohmann::json::array()).find("(spent)") != std::string::npos);
  CHECK(with("spent", {{"", {1e300}}}).find("(spent)") != std::string::npos);
  CHECK(with("spent", {{"", {-5}}}).find("(spent)") != std::string::npos);
  CHECK(with("host_failures", {{"n3", "x"}}).find("(host_failures)") != std::string::npos);
  CHECK(with("farthest", 1).find("(farthest)") != std::string::npos);
}

}  // namespace restart_state_json_test

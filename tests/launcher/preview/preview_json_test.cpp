// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/preview/preview.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace preview_json_test {

using namespace cpprun;

namespace {

Preview some() {
  PreviewWorker worker{.local_rank = 0,
                       .rank = 4,
                       .command = {"./train", "it's\n"},
                       .variables = {{"RANK", "4"}, {"MASTER_PORT", std::nullopt}},
                       .gpu = "GPU-1",
                       .cpus = "0-3"};
  PreviewNode node{.host = "gpu1",
                   .name = "me@gpu1",
                   .group_rank = 1,
                   .address = "10.0.0.1",
                   .interface = "eth0",
                   .hosting = "here",
                   .directory = "/work",
                   .gpus = 7,
                   .gpus_there = 8,
                   .role = "default",
                   .workers = {worker},
                   .inherited = {{"NCCL_DEBUG", "INFO"}},
                   .notes = {"a note"}};
  return {.version = "1",
          .meeting = "static",
          .master_host = "10.0.0.1",
          .master_port = 29500,
          .nodes_min = 1,
          .nodes_max = 2,
          .store = "direct",
          .nodes = {node}};
}

}  // namespace

TEST_CASE("a preview survives a round trip") {
  const auto read = read_preview(to_json(some()));
  REQUIRE(read);
  CHECK(*read == some());
}

TEST_CASE("a preview of a cluster lists all endpoints, and no master address") {
  auto preview = some();
  preview.master_host.clear();
  preview.master_port.reset();
  preview.places = {"a:29400", "[fd00::1]:29400"};
  const auto json = nlohmann::json::parse(to_json(preview));
  CHECK(json["master_address"].is_null());
  CHECK(json["places"] == nlohmann::json{"a:29400", "[fd00::1]:29400"});
  REQUIRE(read_preview(to_json(preview)));
  CHECK(*read_preview(to_json(preview)) == preview);
}

TEST_CASE("a preview of an etcd rendezvous lists etcd's members") {
  auto preview = some();
  preview.meeting = "etcd";
  preview.master_host.clear();
  preview.etcd = {"https://a:2379", "https://b:2379"};
  const auto json = nlohmann::json::parse(to_json(preview));
  CHECK(json["etcd"] == nlohmann::json{"https://a:2379", "https://b:2379"});
  REQUIRE(read_preview(to_json(preview)));
  CHECK(*read_preview(to_json(preview)) == preview);
}

TEST_CASE("an unknown value is null, and explained") {
  const auto json = nlohmann::json::parse(to_json(some()));
  CHECK(json["job"].is_null());
  CHECK(json["nodes"][0]["workers"][0]["variables"]["MASTER_PORT"].is_null());
  CHECK(json["unknown"][0]["what"] == "MASTER_PORT");
}

TEST_CASE("invalid text does not break a preview") {
  auto preview = some();
  preview.nodes[0].workers[0].command = {"\xff"};
  CHECK(read_preview(to_json(preview)));
}

TEST_CASE("an invalid preview is rejected") {
  CHECK_FALSE(read_preview(""));
  CHECK_FALSE(read_preview("[]"));
  CHECK_FALSE(read_preview(R"({"cpprun": 3})"));
}

}  // namespace preview_json_test

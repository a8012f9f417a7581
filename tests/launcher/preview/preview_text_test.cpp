// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/preview/preview.h"

#include <doctest/doctest.h>

namespace preview_text_test {

using namespace cpprun;

namespace {

Preview of_two() {
  PreviewNode node{.host = "gpu1",
                   .group_rank = 0,
                   .address = "10.0.0.1",
                   .interface = "eth0",
                   .hosting = "here",
                   .directory = "/work",
                   .gpus = 7,
                   .gpus_there = 8,
                   .inherited = {{"NCCL_DEBUG", "INFO"}},
                   .notes = {"7 of 8 GPUs"}};
  for (int local = 0; local < 2; ++local) {
    node.workers.push_back({.local_rank = local,
                            .rank = local,
                            .command = {"./train", "a b"},
                            .variables = {{"RANK", std::to_string(local)},
                                          {"MASTER_ADDR", "10.0.0.1"},
                                          {"WORLD_SIZE", std::nullopt}},
                            .gpu = std::to_string(local)});
  }
  return {.version = "1.2",
          .job = "none",
          .meeting = "static",
          .master_host = "10.0.0.1",
          .master_port = 29500,
          .nodes_min = 2,
          .nodes_max = 2,
          .store = "direct",
          .nodes = {node}};
}

}  // namespace

TEST_CASE("the text shows job, nodes, workers, variables, and what is unknown") {
  CHECK(preview_text(of_two()) ==
        "dry run: cpprun 1.2 would start 2 workers on this node, in a job of 2 nodes\n"
        "  job         none\n"
        "  rendezvous  static, 10.0.0.1:29500\n"
        "  store       direct, without a secret\n"
        "\n"
        "HOST  NODE  ADDRESS   INTERFACE    GPUS  MASTER  PYTHON  DIRECTORY\n"
        "gpu1     0  10.0.0.1  eth0       7 of 8  here    -       /work\n"
        "\n"
        "HOST  LOCAL  RANK  GPU  CPUS  COMMAND\n"
        "gpu1      0     0  0    all   ./train 'a b'\n"
        "gpu1      1     1  1    all   ./train 'a b'\n"
        "\n"
        "variables of all workers:\n"
        "  MASTER_ADDR=10.0.0.1\n"
        "  WORLD_SIZE=?\n"
        "variables of each worker (host and local rank):\n"
        "  gpu1 0: RANK=0\n"
        "  gpu1 1: RANK=1\n"
        "inherited variables on gpu1:\n"
        "  NCCL_DEBUG=INFO\n"
        "note on gpu1: 7 of 8 GPUs\n"
        "known only after the start (?):\n"
        "  WORLD_SIZE: depends on the number of workers on the other nodes\n");
}

TEST_CASE("hosts are shown with their given names") {
  auto preview = of_two();
  preview.nodes[0].name = "me@gpu1";
  preview.master_port = {};
  const auto text = preview_text(preview);
  CHECK(text.starts_with("dry run: cpprun 1.2 would start 2 workers on 1 host\n"));
  CHECK(text.find("static, 10.0.0.1, free port\n") != std::string::npos);
  CHECK(text.find("\nme@gpu1 ") != std::string::npos);
}

TEST_CASE("untrusted text stays on one line without control characters") {
  auto preview = of_two();
  preview.nodes[0].workers[0].command = {"./train", "a\nb\x1b[31m"};
  CHECK(preview_text(preview).find('\x1b') == std::string::npos);
}

TEST_CASE("the text shows that one of several cpprunds leads") {
  auto preview = of_two();
  preview.meeting = "c10d";
  preview.master_host.clear();
  preview.places = {"a:29400", "b:29400"};
  CHECK(preview_text(preview).find("  rendezvous  c10d, leader of a:29400, b:29400\n") !=
        std::string::npos);
}

TEST_CASE("the text shows that etcd elects the node that hosts the job") {
  auto preview = of_two();
  preview.meeting = "etcd";
  preview.master_host.clear();
  preview.etcd = {"http://a:2379", "http://b:2379"};
  CHECK(preview_text(preview).find(
            "  rendezvous  etcd, host elected through http://a:2379, http://b:2379\n") !=
        std::string::npos);
}

}  // namespace preview_text_test

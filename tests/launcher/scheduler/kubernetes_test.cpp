// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include "launcher/scheduler/scheduler_facts.h"
#include "tests/launcher/scheduler/files.h"

namespace cpprun::kubernetes_test {
namespace {

const std::string hosts_file =
    "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"
    "10.244.1.7\ttrain-2.train.default.svc.cluster.local\ttrain-2\n";

Environment third_pod() {
  return {{"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
          {"JOB_COMPLETION_INDEX", "2"},
          {"HOSTNAME", "train-2"}};
}

TEST_CASE("a pod of an Indexed Job has its index, and derives the first pod's name from its own") {
  const auto facts = kubernetes_facts(third_pod(), probe::files({{"/etc/hosts", hosts_file}}));
  REQUIRE(facts);
  CHECK(facts->name == "Kubernetes");
  CHECK_FALSE(facts->nodes);  // Kubernetes does not pass it to pods
  CHECK(facts->node_rank == Said<int>{2, "JOB_COMPLETION_INDEX"});
  CHECK(facts->master ==
        Said<std::string>{"train-0.train.default.svc.cluster.local", "/etc/hosts"});
  CHECK(facts->job == Said<std::string>{"train-0", "HOSTNAME"});
}

TEST_CASE("pods without a DNS name get a hint for their template") {
  for (const auto* file : {"", "127.0.0.1 localhost\n10.244.1.7\ttrain-2\n",
                           "10.244.1.7\ttrain-23.train train-23\n"}) {
    CAPTURE(file);
    const auto facts = kubernetes_facts(third_pod(), probe::files({{"/etc/hosts", file}}));
    CHECK_FALSE(facts->master);
    CHECK(facts->no_master.find("set `subdomain` in the pod template") != std::string::npos);
  }
  auto renamed = third_pod();
  renamed["HOSTNAME"] = "other";
  CHECK_FALSE(
      kubernetes_facts(renamed, probe::files({{"/etc/hosts", "10.0.0.1 other.svc other\n"}}))
          ->master);
}

TEST_CASE("Kubeflow's older variables count nodes") {
  const auto facts = kubernetes_facts({{"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
                                       {"RANK", "1"},
                                       {"WORLD_SIZE", "3"},
                                       {"MASTER_ADDR", "job-master-0"},
                                       {"MASTER_PORT", "23456"}},
                                      probe::files());
  REQUIRE(facts);
  CHECK(facts->name == "Kubeflow");
  CHECK(facts->nodes == Said<int>{3, "WORLD_SIZE"});
  CHECK(facts->node_rank == Said<int>{1, "RANK"});
  CHECK(facts->master == Said<std::string>{"job-master-0", "MASTER_ADDR"});
  CHECK(facts->port == Said<int>{23456, "MASTER_PORT"});
}

TEST_CASE("a pod of another kind of job has no facts") {
  CHECK_FALSE(kubernetes_facts({{"KUBERNETES_SERVICE_HOST", "10.96.0.1"}}, probe::files()));
  CHECK_FALSE(kubernetes_facts({{"JOB_COMPLETION_INDEX", "2"}}, probe::files()));
}

}  // namespace
}  // namespace cpprun::kubernetes_test

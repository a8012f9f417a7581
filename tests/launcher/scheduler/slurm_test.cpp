// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include "launcher/scheduler/scheduler_facts.h"

namespace cpprun::slurm_test {
namespace {

// What srun 22.05 sets in the third of four tasks, as far as it matters.
Environment third_of_four() {
  return {{"SLURM_JOB_ID", "77"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_JOB_NUM_NODES", "4"},
          {"SLURM_NNODES", "4"},
          {"SLURM_STEP_NUM_NODES", "4"},
          {"SLURM_STEP_NODELIST", "n[1-4]"},
          {"SLURM_JOB_NODELIST", "n[1-4]"},
          {"SLURM_STEP_NUM_TASKS", "4"},
          {"SLURM_STEP_TASKS_PER_NODE", "1(x4)"},
          {"SLURM_NODEID", "2"},
          {"SLURM_PROCID", "2"},
          {"SLURM_LOCALID", "0"}};
}

TEST_CASE("the components of a heterogeneous job are not one job by default") {
  auto environment = third_of_four();
  environment["SLURM_HET_SIZE"] = "2";
  CHECK(slurm_facts(environment)->notes ==
        std::vector<std::string>{
            "warning: this Slurm job has 2 components (SLURM_HET_SIZE), but cpprun uses only the 4 "
            "nodes of one of them\n  hint: to run one job on all components, set --nnodes, "
            "--node-rank, --master-addr and --rdzv-id"});
}

TEST_CASE("a Slurm step sets the number of nodes, the rank and the first node") {
  const auto facts = slurm_facts(third_of_four());
  REQUIRE(facts);
  CHECK(facts->name == "Slurm");
  CHECK(facts->nodes == Said<int>{4, "SLURM_STEP_NUM_NODES"});
  CHECK(facts->node_rank == Said<int>{2, "SLURM_NODEID"});
  CHECK(facts->master == Said<std::string>{"n1", "SLURM_STEP_NODELIST"});
  CHECK(facts->master_is_first);
  CHECK(facts->job == Said<std::string>{"slurm-77.0", "SLURM_JOB_ID"});
  CHECK(facts->port == Said<int>{port_of("slurm-77.0"), "SLURM_JOB_ID"});
  CHECK_FALSE(facts->gpus);
  CHECK(facts->diagnostics.empty());
  CHECK(facts->notes.empty());
}

TEST_CASE("a step on some of a job's nodes takes precedence over the job") {
  auto environment = third_of_four();
  environment["SLURM_STEP_NUM_NODES"] = "2";
  environment["SLURM_STEP_NODELIST"] = "n[3-4]";
  environment["SLURM_NODEID"] = "0";
  const auto facts = slurm_facts(environment);
  CHECK(facts->nodes->value == 2);
  CHECK(facts->master->value == "n3");
}

TEST_CASE("a task of an array is a job of its own") {
  auto environment = third_of_four();
  environment["SLURM_ARRAY_JOB_ID"] = "70";
  environment["SLURM_ARRAY_TASK_ID"] = "3";
  const auto facts = slurm_facts(environment);
  CHECK(facts->job->value == "slurm-70_3.0");
}

TEST_CASE("Slurm sets the GPUs of the task") {
  auto environment = third_of_four();
  environment["SLURM_GPUS_ON_NODE"] = "8";
  CHECK(slurm_facts(environment)->gpus == Said<int>{8, "SLURM_GPUS_ON_NODE"});
}

TEST_CASE("several tasks on a node are an error, with the command for one task") {
  auto environment = third_of_four();
  environment["SLURM_STEP_NUM_TASKS"] = "32";
  environment["SLURM_STEP_TASKS_PER_NODE"] = "8(x4)";
  const auto facts = slurm_facts(environment);
  REQUIRE(facts->diagnostics.size() == 1);
  CHECK(facts->diagnostics[0].find(
            "Slurm started 32 tasks on 4 nodes (SLURM_STEP_TASKS_PER_NODE=8(x4)), but cpprun must "
            "run once per node and starts the workers itself\n  hint: use `srun "
            "--ntasks-per-node=1 cpprun --nproc-per-node=8`, or") == 0);
}

TEST_CASE("several tasks on one node are an error on the other nodes, too") {
  auto environment = third_of_four();
  environment["SLURM_STEP_NUM_TASKS"] = "6";
  environment["SLURM_STEP_TASKS_PER_NODE"] = "3,1(x3)";
  const auto facts = slurm_facts(environment);
  REQUIRE(facts->diagnostics.size() == 1);
  CHECK(facts->diagnostics[0].find("Slurm started 6 tasks on 4 nodes") == 0);
}

TEST_CASE("an invalid node list is the reason for a missing master") {
  auto environment = third_of_four();
  environment["SLURM_STEP_NODELIST"] = "n[1-";
  const auto facts = slurm_facts(environment);
  CHECK_FALSE(facts->master);
  CHECK(facts->no_master.find("SLURM_STEP_NODELIST: host list \"n[1-\" has an unmatched bracket") ==
        0);
}

TEST_CASE("a batch script runs on one of its nodes, and gets a note") {
  Environment environment = {{"SLURM_JOB_ID", "77"}, {"SLURM_JOB_NUM_NODES", "4"},
                             {"SLURM_NODEID", "0"},  {"SLURM_PROCID", "0"},
                             {"SLURM_NNODES", "4"},  {"SLURM_JOB_NODELIST", "n[1-4]"}};
  const auto facts = slurm_facts(environment);
  CHECK_FALSE(facts->nodes);
  CHECK_FALSE(facts->master);
  REQUIRE(facts->notes.size() == 1);
  CHECK(facts->notes[0].find("this Slurm job has 4 nodes (SLURM_JOB_NUM_NODES), but cpprun was "
                             "started without srun") == 0);
  environment["SLURM_JOB_NUM_NODES"] = environment["SLURM_NNODES"] = "1";
  CHECK(slurm_facts(environment)->notes.empty());
  CHECK_FALSE(slurm_facts({{"SLURM_CONF", "/etc/slurm/slurm.conf"}}));
}

}  // namespace
}  // namespace cpprun::slurm_test

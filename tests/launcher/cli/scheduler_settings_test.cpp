// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/cli.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "launcher/scheduler/scheduler_facts.h"
#include "tests/launcher/cli/cli_probe.h"

namespace cpprun::scheduler_settings_test {
namespace {

using probe::diagnostics;
using probe::good;

Environment second_node(Environment more = {}) {
  more.insert({{"SLURM_JOB_ID", "77"},
               {"SLURM_STEP_ID", "0"},
               {"SLURM_STEP_NUM_NODES", "4"},
               {"SLURM_STEP_NODELIST", "n[1-4]"},
               {"SLURM_STEP_TASKS_PER_NODE", "1(x4)"},
               {"SLURM_NODEID", "1"},
               {"SLURM_PROCID", "1"}});
  return more;
}

TEST_CASE("srun cpprun needs no flag") {
  const auto config = good({"train"}, second_node());
  CHECK(config.nodes_min == 4);
  CHECK(config.nodes_max == 4);
  CHECK(config.node_rank == 1);
  CHECK(config.rendezvous == RendezvousMode::fixed_master);
  const int port = port_of("slurm-77.0");
  CHECK(config.endpoint == Endpoint{"n1", static_cast<std::uint16_t>(port)});
  CHECK(config.job == "slurm-77.0");
  CHECK(config.local_world_size == 1);
  CHECK(config.notes.empty());  // only the first node prints it
  const auto first = good({"train"}, second_node({{"SLURM_NODEID", "0"}, {"SLURM_PROCID", "0"}}));
  REQUIRE(first.notes.size() == 1);
  CHECK(first.notes[0] ==
        fmt::format("settings from Slurm: 4 nodes (SLURM_STEP_NUM_NODES), node rank 0 "
                    "(SLURM_NODEID), master n1:{} (SLURM_STEP_NODELIST), job slurm-77.0; use "
                    "--no-scheduler to ignore them",
                    port));
}

TEST_CASE("the user's settings win over the scheduler, flag by flag") {
  const auto flags = good({"--nnodes=2:4", "--master-addr=head", "--master-port=1234",
                           "--rdzv-id=mine", "--nproc-per-node=3", "train"},
                          second_node({{"SLURM_GPUS_ON_NODE", "8"}}));
  CHECK(flags.nodes_min == 2);
  CHECK(flags.node_rank == 1);
  CHECK(flags.endpoint == Endpoint{"head", 1234});
  CHECK(flags.job == "mine");
  CHECK(flags.local_world_size == 3);
  const auto variables =
      good({"train"},
           second_node({{"PET_NNODES", "4"}, {"PET_MASTER_ADDR", "head"}, {"PET_NODE_RANK", "1"}}));
  CHECK(variables.endpoint == Endpoint{"head", 29500});
  const auto file = good({"--config=job.toml", "train"}, second_node(),
                         {.text = "master-addr = \"head\"\nmaster-port = 7\n"});
  CHECK(file.endpoint == Endpoint{"head", 7});
}

TEST_CASE("MASTER_ADDR and MASTER_PORT, as batch scripts export them, are the endpoint") {
  const auto config =
      good({"train"}, second_node({{"MASTER_ADDR", "n9"}, {"MASTER_PORT", "4321"}}));
  CHECK(config.endpoint == Endpoint{"n9", 4321});
  CHECK(config.rendezvous == RendezvousMode::fixed_master);
}

TEST_CASE("torchrun's usual line under Slurm takes missing values from it") {
  const auto config = good({"--rdzv-backend=c10d", "train"}, second_node());
  CHECK(config.rendezvous == RendezvousMode::endpoint);
  CHECK(config.endpoint.host == "n1");
  CHECK(config.node_rank == 1);
  const auto whole = good(
      {"--nnodes=4", "--rdzv-backend=c10d", "--rdzv-endpoint=n1:29400", "--rdzv-id=5", "train"},
      second_node());
  CHECK(whole.endpoint == Endpoint{"n1", 29400});
  CHECK(whole.job == "5");
}

TEST_CASE("a job of one node, or without the scheduler, takes no endpoint from it") {
  for (const auto* flag : {"--standalone", "--no-scheduler", "--nnodes=1"}) {
    CAPTURE(flag);
    const auto config = good({flag, "train"}, second_node({{"SLURM_STEP_NUM_TASKS", "32"}}));
    CHECK(config.nodes_max == 1);
    CHECK_FALSE(config.node_rank);
    CHECK(config.rendezvous == RendezvousMode::standalone);
    CHECK(config.notes.empty());
  }
  CHECK(good({"train"}, second_node({{"PET_NO_SCHEDULER", "1"}})).nodes_max == 1);
}

TEST_CASE("the scheduler's other tasks do not stop a node that the user has placed") {
  const auto config = good({"--nnodes=2", "--node-rank=1", "--master-addr=n1", "train"},
                           second_node({{"SLURM_STEP_NUM_TASKS", "32"}}));
  CHECK(config.nodes_max == 2);
  CHECK(config.notes.front().find("Slurm started 32 tasks on 4 nodes") == 0);
}

TEST_CASE("more nodes than the scheduler has started are rejected at once") {
  CHECK(diagnostics({"--nnodes=5", "train"}, second_node()) ==
        std::vector<std::string>{
            "--nnodes=5, but Slurm started cpprun on 4 nodes (SLURM_STEP_NUM_NODES)\n  hint: "
            "start cpprun on more nodes, or remove --nnodes"});
  CHECK(diagnostics({"--nnodes=5:8", "train"}, second_node()).size() == 1);
  CHECK(good({"--nnodes=3:8", "train"}, second_node()).nodes_max == 8);
  const Environment mpirun = {{"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "2"},
                              {"OMPI_MCA_orte_hnp_uri", "1.0;tcp://10.0.0.1:45843"}};
  CHECK(diagnostics({"--nnodes=3", "train"}, mpirun).size() == 1);
}

TEST_CASE("a job of several steps is assembled from flags, not from a step's numbers") {
  const auto config = good(
      {"--nnodes=5", "--rdzv-backend=c10d", "--rdzv-endpoint=n1:29400", "train"}, second_node());
  CHECK_FALSE(config.node_rank);
  CHECK(config.job == "none");
  REQUIRE(config.notes.size() == 1);
  CHECK(config.notes[0] ==
        "warning: --nnodes=5, but Slurm started cpprun on 4 nodes (SLURM_STEP_NUM_NODES); the job "
        "waits for the other nodes");
  CHECK(
      good({"--nnodes=5", "--node-rank=4", "--master-addr=n1", "train"}, second_node()).node_rank ==
      4);
}

TEST_CASE("port 0 makes a node alone, whatever the scheduler started") {
  for (const auto* flag : {"--rdzv-endpoint=localhost:0", "--master-port=0"}) {
    CAPTURE(flag);
    const auto config = good({flag, "train"}, second_node({{"SLURM_STEP_NUM_TASKS", "32"}}));
    CHECK(config.nodes_max == 1);
    CHECK(config.rendezvous == RendezvousMode::standalone);
  }
}

TEST_CASE("eight launchers on a node are rejected, with the other errors") {
  const auto all =
      diagnostics({"--node-rank=x", "train"}, second_node({{"SLURM_STEP_NUM_TASKS", "32"}}));
  REQUIRE(all.size() == 2);
  CHECK(all[0].find("Slurm started 32 tasks on 4 nodes") == 0);
}

TEST_CASE("a rank that the batch shell has expanded causes a warning") {
  const auto config = good({"--node-rank=0", "train"}, second_node());
  REQUIRE(config.notes.size() == 1);
  CHECK(config.notes[0] ==
        "--node-rank=0, but this is node 1 according to SLURM_NODEID; did the job script expand "
        "$SLURM_NODEID to the same value for all nodes?\n  hint: remove the flag");
  CHECK(good({"--node-rank=1", "train"}, second_node()).notes.empty());
}

TEST_CASE("fewer nodes than the scheduler has started are reported, and no rank is assigned") {
  const auto config = good({"--nnodes=2", "train"}, second_node());
  CHECK_FALSE(config.node_rank);
  bool noted = false;
  for (const auto& note : config.notes) {
    noted = noted || note.find("--nnodes=2, but Slurm started cpprun on more nodes: 4 (") == 0;
  }
  CHECK(noted);
}

TEST_CASE("there are as many workers as the task has GPUs") {
  CHECK(good({"train"}, second_node({{"SLURM_GPUS_ON_NODE", "8"}})).local_world_size == 8);
  // The machine of these tests has no device for CUDA_VISIBLE_DEVICES to name.
  const auto hidden = second_node({{"SLURM_GPUS_ON_NODE", "8"}, {"CUDA_VISIBLE_DEVICES", ""}});
  CHECK(good({"train"}, hidden).local_world_size == 1);
}

TEST_CASE("under mpirun the node where mpirun was started hosts the rendezvous") {
  const Environment mpirun = {{"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "2"},
                              {"OMPI_MCA_orte_hnp_uri", "1.0;tcp://10.0.0.1:45843"}};
  const auto config = good({"train"}, mpirun);
  CHECK(config.rendezvous == RendezvousMode::endpoint);
  CHECK(config.endpoint == Endpoint{"10.0.0.1", 29500});
  CHECK(config.node_rank == 1);
}

TEST_CASE("a missing master address is requested") {
  const Environment mpirun = {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}};
  const auto all = diagnostics({"train"}, mpirun);
  REQUIRE(all.size() == 1);
  CHECK(all[0] ==
        "Open MPI does not provide the host of node 0\n  hint: use --master-addr=HOST, the same on "
        "every "
        "node");
  CHECK(good({"--master-addr=h", "train"}, mpirun).node_rank == 1);
}

TEST_CASE("a pod takes its rank if the user sets the number of nodes") {
  const Environment pod = {{"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
                           {"JOB_COMPLETION_INDEX", "2"},
                           {"HOSTNAME", "train-2"}};
  CHECK(good({"train"}, pod).nodes_max == 1);
  const probe::File hosts{.path = "/etc/hosts", .text = "10.0.0.7\ttrain-2.train.svc\ttrain-2\n"};
  const auto config = good({"--nnodes=4", "train"}, pod, hosts);
  CHECK(config.node_rank == 2);
  CHECK(config.endpoint == Endpoint{"train-0.train.svc", 29500});
}

TEST_CASE("a batch script without srun is warned that it is alone, unless that is intended") {
  const Environment script = {{"SLURM_JOB_ID", "77"}, {"SLURM_JOB_NUM_NODES", "4"}};
  REQUIRE(good({"train"}, script).notes.size() == 1);
  CHECK(good({"train"}, script).notes[0].find("without srun") != std::string::npos);
  CHECK(good({"--nnodes=1", "train"}, script).notes.empty());
}

}  // namespace
}  // namespace cpprun::scheduler_settings_test

// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include "launcher/scheduler/scheduler_facts.h"
#include "tests/launcher/scheduler/files.h"

namespace cpprun::mpi_test {
namespace {

// What mpirun 4.1 sets in the second of two tasks, as far as it matters.
Environment second_of_two() {
  return {{"OMPI_COMM_WORLD_RANK", "1"},
          {"OMPI_COMM_WORLD_SIZE", "2"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
          {"OMPI_MCA_ess_base_jobid", "1294925825"},
          {"OMPI_MCA_orte_hnp_uri",
           "1294925824.0;tcp://10.0.0.1,192.168.0.1:45843;tcp6://[fd00::2]:41537"}};
}

TEST_CASE("mpirun sets the number of tasks, the rank, and its own host") {
  const auto facts = open_mpi_facts(second_of_two());
  REQUIRE(facts);
  CHECK(facts->nodes == Said<int>{2, "OMPI_COMM_WORLD_SIZE"});
  CHECK(facts->node_rank == Said<int>{1, "OMPI_COMM_WORLD_RANK"});
  CHECK(facts->master == Said<std::string>{"10.0.0.1", "OMPI_MCA_orte_hnp_uri"});
  CHECK_FALSE(facts->master_is_first);
  CHECK(facts->job == Said<std::string>{"mpi-1294925825", "OMPI_MCA_ess_base_jobid"});
  CHECK(facts->port->value == port_of("1294925825"));
}

TEST_CASE("node 0 warns if mpirun may run no task on its own host") {
  auto environment = second_of_two();
  environment["OMPI_COMM_WORLD_RANK"] = "0";
  environment["OMPI_MCA_orte_num_nodes"] = "2";
  environment["OMPI_MCA_ess_base_num_procs"] = "3";
  environment["OMPI_MCA_orte_local_daemon_uri"] = "1294925824.1;tcp://10.0.0.2:42591";
  environment["PMIX_HOSTNAME"] = "h1";
  CHECK(open_mpi_facts(environment)->doubt ==
        "warning: the master is 10.0.0.1, the host where mpirun was started "
        "(OMPI_MCA_orte_hnp_uri), but mpirun uses only 2 of 3 hosts and may run no cpprun there\n"
        "  hint: if 10.0.0.1 is a login node, use --master-addr=h1 (a host of the job)");
  auto there = environment;
  there["OMPI_MCA_orte_local_daemon_uri"] = "1294925824.0;tcp://10.0.0.1:45843";
  CHECK(open_mpi_facts(there)->doubt.empty());
  there = environment;
  there["OMPI_COMM_WORLD_RANK"] = "1";  // only node 0 warns
  CHECK(open_mpi_facts(there)->doubt.empty());
  there = environment;
  there["OMPI_MCA_ess_base_num_procs"] = "2";
  CHECK(open_mpi_facts(there)->doubt.empty());
}

TEST_CASE("later versions of Open MPI name their jobs after mpirun's host") {
  auto environment = second_of_two();
  environment.erase("OMPI_MCA_orte_hnp_uri");
  environment.erase("OMPI_MCA_ess_base_jobid");
  environment["PMIX_NAMESPACE"] = "prterun-gpu-node-1-4711@1";
  const auto facts = open_mpi_facts(environment);
  CHECK(facts->master == Said<std::string>{"gpu-node-1", "PMIX_NAMESPACE"});
  CHECK(facts->job->value == "mpi-prterun-gpu-node-1-4711@1");
  for (const auto* other : {"1294925825", "prterun-", "prterun"}) {
    environment["PMIX_NAMESPACE"] = other;
    CHECK_FALSE(open_mpi_facts(environment)->master);
  }
}

TEST_CASE("an invalid address is ignored") {
  auto environment = second_of_two();
  for (const auto* uri : {"", "x", "1.0;tcp6://[fd00::2]:41537", "1.0;tcp://:1"}) {
    environment["OMPI_MCA_orte_hnp_uri"] = uri;
    CHECK_FALSE(open_mpi_facts(environment)->master);
  }
}

TEST_CASE("several tasks on a node are an error of mpirun and mpiexec") {
  auto environment = second_of_two();
  environment["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  REQUIRE(open_mpi_facts(environment)->diagnostics.size() == 1);
  CHECK(open_mpi_facts(environment)->diagnostics[0].find("mpirun started 2 tasks on this node") ==
        0);
  environment["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  environment["OMPI_MCA_orte_num_nodes"] = "2";
  CHECK(open_mpi_facts(environment)->diagnostics.empty());
  environment["OMPI_COMM_WORLD_SIZE"] = "3";  // two on the other host
  REQUIRE(open_mpi_facts(environment)->diagnostics.size() == 1);
  CHECK(open_mpi_facts(environment)->diagnostics[0].find("mpirun started 3 tasks on 2 hosts") == 0);
  CHECK_FALSE(open_mpi_facts({{"OMPI_COMM_WORLD_RANK", "1"}}));
}

TEST_CASE("Hydra sets no hosts, but PBS around it does") {
  Environment environment = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "1"}};
  const auto alone = hydra_facts(environment, probe::files());
  REQUIRE(alone);
  CHECK(alone->nodes->value == 2);
  CHECK(alone->node_rank->value == 1);
  CHECK_FALSE(alone->master);
  environment["PBS_NODEFILE"] = "/aux/9";
  environment["PBS_JOBID"] = "9.head";
  const auto in_pbs = hydra_facts(environment, probe::files({{"/aux/9", "h1\nh1\nh2\n"}}));
  CHECK(in_pbs->master == Said<std::string>{"h1", "PBS_NODEFILE"});
  CHECK_FALSE(in_pbs->master_is_first);
  CHECK(in_pbs->job->value == "pbs-9.head");
  environment["MPI_LOCALNRANKS"] = "4";
  CHECK(hydra_facts(environment, probe::files())->diagnostics.size() == 1);
  CHECK_FALSE(hydra_facts({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, probe::files()));
}

}  // namespace
}  // namespace cpprun::mpi_test

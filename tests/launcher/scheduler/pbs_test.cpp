// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include "launcher/scheduler/scheduler_facts.h"
#include "tests/launcher/scheduler/files.h"

namespace cpprun::pbs_test {
namespace {

Environment second_of_two(const std::string& tasks_here = "1") {
  return {{"PALS_NODEID", "1"},           {"PALS_RANKID", "1"},    {"PMI_SIZE", "2"},
          {"PMI_LOCAL_SIZE", tasks_here}, {"PBS_JOBID", "9.head"}, {"PALS_APID", "8c1"},
          {"PBS_NODEFILE", "/aux/9"}};
}

TEST_CASE("PALS sets the number of nodes and the rank, and PBS the first host") {
  const auto facts = pbs_facts(second_of_two(), probe::files({{"/aux/9", "h1\nh1\nh2\nh2\n"}}));
  REQUIRE(facts);
  CHECK(facts->name == "PALS");
  CHECK(facts->nodes == Said<int>{2, "PMI_SIZE"});
  CHECK(facts->node_rank == Said<int>{1, "PALS_NODEID"});
  CHECK(facts->master == Said<std::string>{"h1", "PBS_NODEFILE"});
  CHECK(facts->job == Said<std::string>{"pbs-9.head", "PBS_JOBID"});
  CHECK(facts->diagnostics.empty());
}

TEST_CASE("a host file that exists only on the first host is reported with a hint") {
  const auto facts = pbs_facts(second_of_two(), probe::files());
  CHECK_FALSE(facts->master);
  CHECK(facts->no_master ==
        "PBS_NODEFILE=/aux/9 cannot be read on this host: No such file or directory\n  hint: in "
        "the job script, use --master-addr=$(head -n 1 $PBS_NODEFILE)");
}

TEST_CASE("several tasks on a node of PBS are an error") {
  const auto facts = pbs_facts(second_of_two("4"), probe::files({{"/aux/9", "h1\n"}}));
  REQUIRE(facts->diagnostics.size() == 1);
  CHECK(facts->diagnostics[0].find("mpiexec started 4 tasks on this node (PMI_LOCAL_SIZE)") == 0);
}

TEST_CASE("a PBS script runs on one of its hosts, and gets a note") {
  const Environment script = {{"PBS_JOBID", "9.head"}, {"PBS_NODEFILE", "/aux/9"}};
  const auto facts = pbs_facts(script, probe::files({{"/aux/9", "h1\nh2\n"}}));
  REQUIRE(facts);
  CHECK_FALSE(facts->nodes);
  REQUIRE(facts->notes.size() == 1);
  CHECK(facts->notes[0].find("this PBS job has 2 hosts (PBS_NODEFILE)") == 0);
  CHECK(pbs_facts(script, probe::files({{"/aux/9", "h1\nh1\n"}}))->notes.empty());
  CHECK(pbs_facts(script, probe::files())->notes.empty());
  CHECK_FALSE(pbs_facts({}, probe::files()));
}

}  // namespace
}  // namespace cpprun::pbs_test

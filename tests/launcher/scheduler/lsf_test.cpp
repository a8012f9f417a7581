// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include "launcher/scheduler/scheduler_facts.h"

namespace cpprun::lsf_test {
namespace {

TEST_CASE("jsrun sets ranks, and LSF hosts, of which the first may run only the script") {
  Environment environment = {{"LSB_JOBID", "5"},
                             {"LSB_JOBINDEX", "0"},
                             {"LSB_MCPU_HOSTS", "batch5 1 h01 42 h02 42"},
                             {"JSM_NAMESPACE_RANK", "1"},
                             {"JSM_NAMESPACE_SIZE", "2"},
                             {"JSM_NAMESPACE_LOCAL_SIZE", "1"}};
  const auto facts = lsf_facts(environment);
  REQUIRE(facts);
  CHECK(facts->nodes == Said<int>{2, "JSM_NAMESPACE_SIZE"});
  CHECK(facts->node_rank == Said<int>{1, "JSM_NAMESPACE_RANK"});
  CHECK(facts->master == Said<std::string>{"h01", "LSB_MCPU_HOSTS"});
  CHECK_FALSE(facts->master_is_first);
  CHECK(facts->job == Said<std::string>{"lsf-5", "LSB_JOBID"});
  environment["LSB_MCPU_HOSTS"] = "h01 42 h02 42";
  CHECK(lsf_facts(environment)->master->value == "h01");
  environment["JSM_NAMESPACE_LOCAL_SIZE"] = "6";
  REQUIRE(lsf_facts(environment)->diagnostics.size() == 1);
  CHECK(lsf_facts(environment)->diagnostics[0].find("jsrun started 6 tasks") == 0);
}

TEST_CASE("blaunch numbers its tasks from one") {
  const Environment environment = {{"LSB_JOBID", "5"},
                                   {"LSB_JOBINDEX", "3"},
                                   {"LSB_HOSTS", "h01 h01 h02"},
                                   {"LSF_PM_TASKID", "2"}};
  const auto facts = lsf_facts(environment);
  REQUIRE(facts);
  CHECK(facts->nodes == Said<int>{2, "LSB_HOSTS"});
  CHECK(facts->node_rank == Said<int>{1, "LSF_PM_TASKID"});
  CHECK(facts->master == Said<std::string>{"h01", "LSB_HOSTS"});
  CHECK(facts->master_is_first);
  CHECK(facts->job->value == "lsf-5_3");
}

TEST_CASE("a script of LSF is no task") {
  CHECK_FALSE(lsf_facts({{"LSB_JOBID", "5"}, {"LSB_HOSTS", "h01 h02"}}));
  CHECK_FALSE(lsf_facts({{"LSB_HOSTS", "h01 h02"}, {"LSF_PM_TASKID", "2"}}));
}

}  // namespace
}  // namespace cpprun::lsf_test

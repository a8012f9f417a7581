// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/scheduler/scheduler_facts.h"

#include <doctest/doctest.h>

namespace cpprun::said_test {
namespace {

TEST_CASE("the first variable with a valid number is used, and named") {
  const Environment environment = {{"A", ""}, {"B", "two"}, {"C", "-1"}, {"D", "4"}, {"E", "5"}};
  CHECK(said_number(environment, 0, {"A", "B", "C", "D", "E"}) == Said<int>{4, "D"});
  CHECK(said_number(environment, 5, {"D", "E"}) == Said<int>{5, "E"});
  CHECK_FALSE(said_number(environment, 0, {"A", "B", "C", "Z"}));
  CHECK(said_text(environment, {"Z", "A", "B"}) == Said<std::string>{"two", "B"});
}

TEST_CASE("a job's port is the same on all nodes, and outside the kernel's ephemeral range") {
  CHECK(port_of("slurm-77.0") == port_of("slurm-77.0"));
  CHECK(port_of("slurm-77.0") != port_of("slurm-77.1"));
  for (int job = 0; job < 1000; ++job) {
    const int port = port_of(std::to_string(job));
    CHECK(port >= 20000);
    CHECK(port < 30000);
  }
}

TEST_CASE("the hosts of a file are unique, in their order") {
  CHECK(hosts_of_lines("b\nb\n  a \r\n\nb\n") == std::vector<std::string>{"b", "a"});
  CHECK(hosts_of_lines("").empty());
}

TEST_CASE("too many tasks on a node are reported with the command for one task") {
  CHECK(crowded_text("mpirun", tasks_here({8, "X"}), "mpirun -N 1 cpprun …") ==
        "mpirun started 8 tasks on this node (X), but cpprun must run once per node and starts the "
        "workers itself\n  hint: use `mpirun -N 1 cpprun …`, or run each task as its own job with "
        "--standalone, or ignore mpirun with --no-scheduler");
}

}  // namespace
}  // namespace cpprun::said_test

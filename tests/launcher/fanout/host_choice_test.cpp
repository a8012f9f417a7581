// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/fanout/host_list.h"

#include <doctest/doctest.h>

namespace host_choice_test {

using namespace cpprun;
using namespace cpprun::fanout;

namespace {

using Typed = std::vector<std::string>;

Result<std::string> one_file(const std::string& path) {
  if (path != "hosts") return failure("No such file or directory");
  return std::string("a slots=2\nb\n");
}

}  // namespace

TEST_CASE("hosts come from a list, or from the allocation") {
  CHECK(hosts_of("a,b:4", {}).value() == std::vector<Host>{{"a", std::nullopt}, {"b", 4}});
  CHECK(hosts_of("slurm", {{"SLURM_JOB_NODELIST", "n[1-2]"}}).value() ==
        std::vector<Host>{{"n1", std::nullopt}, {"n2", std::nullopt}});
  CHECK(hosts_of("slurm", {}).error().at(0).starts_with("SLURM_JOB_NODELIST is not set"));
}

TEST_CASE("a host file is read, or reported as missing") {
  CHECK(members_of(hosts_in_file("hosts", "--hostfile", one_file).value()) ==
        std::vector<Member>{{0, "a", 2}, {1, "b", 0}});
  CHECK(hosts_in_file("gone", "--hostfile", one_file).error().at(0) ==
        "--hostfile=gone cannot be read: No such file or directory; give the path of a text file "
        "with one host per line");
}

TEST_CASE("the remote shell is the given one, srun in an allocation, and ssh otherwise") {
  CHECK(remote_shell("kubectl  exec {host} --", std::nullopt) ==
        Typed{"kubectl", "exec", "{host}", "--"});
  CHECK(remote_shell(std::nullopt, "slurm").front() == "srun");
  CHECK(remote_shell(std::nullopt, "a,b").front() == "ssh");
  CHECK(remote_shell(" ", "a").empty());
}

}  // namespace host_choice_test

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/fanout/bootstrap.h"

#include <doctest/doctest.h>

namespace agent_words_test {

using namespace cpprun;
using namespace cpprun::fanout;

using WordList = std::vector<std::string>;

TEST_CASE("the agents of a fixed-size job get their ranks, and slots win over the flags") {
  const JobTerms job{.flags = {"--nproc-per-node=2"}, .program = {"t.py", "--x"}, .nodes = "3"};
  CHECK(agent_words(job, {2, "c", 4}, {0, "10.0.0.1", 4000}) ==
        WordList{"--nproc-per-node=2", "--nproc-per-node=4", "--nnodes=3", "--node-rank=2",
                 "--master-addr=10.0.0.1", "--master-port=4000", "t.py", "--x"});
}

TEST_CASE("in an elastic job one host is the master, whichever hosts join or leave") {
  const JobTerms job{
      .program = {"t.py"}, .nodes = "2:3", .elastic = true, .conf = "join_timeout=9"};
  CHECK(agent_words(job, {1, "b", 0}, {1, "fd77::1", 4000}) ==
        WordList{"--nnodes=2:3", "--rdzv-backend=c10d", "--rdzv-endpoint=[fd77::1]:4000",
                 "--rdzv-conf=join_timeout=9,is_host=true", "t.py"});
  CHECK(agent_words(job, {2, "c", 0}, {1, "b", 4000})[2] == "--rdzv-endpoint=b:4000");
  CHECK(agent_words(job, {2, "c", 0}, {1, "b", 4000})[3] ==
        "--rdzv-conf=join_timeout=9,is_host=false");
}

TEST_CASE("the job's variables override the host's, and its PATH precedes the host's") {
  const JobTerms job{.environment = {{"PATH", "/venv/bin"}, {"OMP_NUM_THREADS", "2"}}};
  const auto merged = agent_environment(
      job, {{"PATH", "/bin"}, {"HOME", "/h"}, {"PET_NNODES", "7"}, {"OMP_NUM_THREADS", "9"}});
  CHECK(merged ==
        Environment{{"PATH", "/venv/bin:/bin"}, {"HOME", "/h"}, {"OMP_NUM_THREADS", "2"}});
}

TEST_CASE("variables of one host, and possible passwords, are passed only by name") {
  const Environment own = {{"NCCL_DEBUG", "INFO"},        {"NCCL_SOCKET_IFNAME", "eth7"},
                           {"CUDA_VISIBLE_DEVICES", "0"}, {"API_KEY", "x"},
                           {"PYTHONPATH", "/p"},          {"CPPRUN_SECRET_FILE", "/s"}};
  CHECK(*passed_environment(own, "") == Environment{{"NCCL_DEBUG", "INFO"}, {"PYTHONPATH", "/p"}});
  CHECK(passed_environment(own, "API_KEY,A=b=c")->at("API_KEY") == "x");
  CHECK(passed_environment(own, "API_KEY,A=b=c")->at("A") == "b=c");
  CHECK(passed_environment(own, "MISSING").error().reason ==
        "MISSING is not set here; use MISSING=VALUE");
}

TEST_CASE("the host replaces its placeholder in the remote shell") {
  CHECK(shell_words({"ssh", "-o", "BatchMode=yes"}, "a") ==
        WordList{"ssh", "-o", "BatchMode=yes", "a", "sh"});
  CHECK(shell_words({"kubectl", "exec", "-i", "{host}", "--"}, "pod-0") ==
        WordList{"kubectl", "exec", "-i", "pod-0", "--", "sh"});
}

}  // namespace agent_words_test

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/cli.h"

#include <doctest/doctest.h>

#include <chrono>
#include <map>

namespace fanout_settings_test {

using namespace cpprun;
using Words = std::vector<std::string>;

namespace {

CliOutcome read(Words words, Environment environment = {},
                const std::map<std::string, std::string>& files = {}) {
  CommandLine line;
  line.words = std::move(words);
  line.environment = std::move(environment);
  line.random_id = "random";
  line.read_file = [files](const std::string& path) -> Result<std::string> {
    const auto found = files.find(path);
    if (found == files.end()) return failure("No such file or directory");
    return found->second;
  };
  line.probe_file = [](const std::string&) { return FileKind::missing; };
  line.count_cpus = [] { return 1; };
  line.count_devices = [] { return 0; };
  return read_command_line(line);
}

fanout::Request request(Words words, Environment environment = {},
                        const std::map<std::string, std::string>& files = {}) {
  auto outcome = read(std::move(words), std::move(environment), files);
  if (const auto* diagnostics = std::get_if<CliDiagnostics>(&outcome)) FAIL(to_text(*diagnostics));
  REQUIRE(std::holds_alternative<CliFanOut>(outcome));
  return std::get<CliFanOut>(std::move(outcome)).request;
}

std::string diagnostics(Words words, Environment environment = {}) {
  auto outcome = read(std::move(words), std::move(environment));
  REQUIRE(std::holds_alternative<CliDiagnostics>(outcome));
  return to_text(std::get<CliDiagnostics>(outcome));
}

}  // namespace

TEST_CASE("hosts become members, and all other flags are passed to the agents") {
  const auto asked =
      request({"--hosts=a,b:4", "-r", "3", "--config=job", "--secret-file=s", "--no-python",
               "./train", "--lr=1"},
              {{"PET_MAX_RESTARTS", "2"}, {"NCCL_DEBUG", "INFO"}, {"AWS_SECRET", "x"}},
              {{"job", "log-dir = logs\n"}});
  CHECK(asked.wanted.members == std::vector<fanout::Member>{{0, "a", 0}, {1, "b", 4}});
  CHECK(asked.wanted.nodes_min == 2);
  CHECK_FALSE(asked.wanted.elastic);
  CHECK(asked.job.nodes == "2");
  CHECK(asked.job.flags == Words{"--no-python", "--max-restarts=2", "--log-dir=logs",
                                 "--redirects=3", "--no-scheduler"});
  CHECK(asked.job.program == Words{"./train", "--lr=1"});
  CHECK(asked.job.environment == Environment{{"NCCL_DEBUG", "INFO"}});
  CHECK(asked.shell == Words{"ssh", "-T", "-o", "BatchMode=yes", "{host}"});
  CHECK(asked.job.grace_milliseconds == 30'000);
}

TEST_CASE("one host is a job of one node, and a range sets the minimum") {
  CHECK(request({"--hosts=a", "x"}).job.nodes.empty());
  const auto elastic = request({"--hosts=a,b,c", "--nnodes=2:3", "--rdzv-conf=join_timeout=9",
                                "--master-addr=m", "--master-port=7", "x"});
  CHECK(elastic.job.nodes == "2:3");
  CHECK(elastic.job.elastic);
  CHECK(elastic.job.conf == "join_timeout=9");
  CHECK(elastic.job.flags == Words{"--no-scheduler"});
  CHECK(elastic.wanted.nodes_min == 2);
  CHECK(elastic.wanted.address == "m");
  CHECK(elastic.wanted.port == 7);
  CHECK(request({"--hosts=a,b", "--rdzv-conf=join_timeout=9", "x"}).job.flags ==
        Words{"--rdzv-conf=join_timeout=9", "--no-scheduler"});
}

TEST_CASE("hosts come from a file, or from Slurm's allocation and then by srun") {
  const auto file = request({"--hostfile=h", "--remote-shell= kubectl  exec -i {host} --", "x"}, {},
                            {{"h", "a slots=2\n# more\nb\n"}});
  CHECK(file.wanted.members == std::vector<fanout::Member>{{0, "a", 2}, {1, "b", 0}});
  CHECK(file.shell == Words{"kubectl", "exec", "-i", "{host}", "--"});
  const auto slurm =
      request({"--hosts=slurm", "x"},
              {{"SLURM_JOB_NODELIST", "n[1-2]"}, {"SLURM_JOB_ID", "7"}, {"SLURM_NNODES", "2"}});
  CHECK(slurm.wanted.members == std::vector<fanout::Member>{{0, "n1", 0}, {1, "n2", 0}});
  CHECK(slurm.shell.front() == "srun");
}

TEST_CASE("flags of one node, or that do not fit the hosts, are reported with the other errors") {
  const auto all = diagnostics({"--hosts=a,a,b", "--nnodes=5", "--node-rank=1", "--local-addr=l",
                                "--rdzv-endpoint=e", "--export=NONE", "x"});
  for (const char* part :
       {"--hosts: a is listed twice", "--node-rank cannot be used with --hosts",
        "--local-addr cannot be used with --hosts", "--rdzv-endpoint cannot be used with --hosts",
        "--export: NONE is not set here"}) {
    CAPTURE(part);
    CHECK(all.find(part) != all.npos);
  }
  CHECK(diagnostics({"--hosts=a,b", "--standalone", "x"})
            .find("--standalone cannot be used with --hosts") != std::string::npos);
  for (const char* const events : {"--events=/dev/fd/3", "--events=/proc/self/fd/3"}) {
    CHECK(diagnostics({"--hosts=a,b", events, "x"}).find(" cannot be used with --hosts") !=
          std::string::npos);
  }
  CHECK(diagnostics({"--hosts=a,b", "--nnodes=5", "x"}).find("--nnodes=5 does not match 2 hosts") !=
        std::string::npos);
  CHECK(diagnostics({"--hosts=a", "--hostfile=h", "x"}).find("--hosts exclude each other") !=
        std::string::npos);
  CHECK(diagnostics({"--hostfile=h", "x"}).find("--hostfile=h cannot be read: No such file") !=
        std::string::npos);
  CHECK(diagnostics({"--hosts=slurm", "x"}).find("SLURM_JOB_NODELIST is not set") !=
        std::string::npos);
  CHECK(diagnostics({"--export=A=1", "--remote-shell=r", "--ship", "x"})
            .find("has no effect without --hosts") != std::string::npos);
  CHECK(diagnostics({"--hosts=a", "--remote-shell= ", "x"}).find(" is empty") != std::string::npos);
  CHECK(diagnostics({"--hosts=a"}).find("no script given") != std::string::npos);
}

TEST_CASE("variables of one node, or of another size, do not stop --hosts") {
  const auto outcome = read({"--hosts=a,b", "x"}, {{"PET_NODE_RANK", "1"},
                                                   {"PET_STANDALONE", "1"},
                                                   {"PET_RDZV_ENDPOINT", "e"},
                                                   {"PET_LOCAL_ADDR", "l"},
                                                   {"PET_NNODES", "4"}});
  REQUIRE(std::holds_alternative<CliFanOut>(outcome));
  const auto& asked = std::get<CliFanOut>(outcome).request;
  CHECK(asked.job.nodes == "2");
  CHECK(asked.job.flags == Words{"--no-scheduler"});
}

TEST_CASE("each host counts its own GPUs, not the console") {
  const auto asked = request({"--hosts=a", "--nproc-per-node=gpu", "./train"});
  CHECK(asked.job.flags == Words{"--nproc-per-node=gpu", "--no-scheduler"});
  CHECK(diagnostics({"--hosts=a", "--nproc-per-node=all", "./train"}).find("neither a number") !=
        std::string::npos);
}

TEST_CASE("a dry run of hosts makes each of them print its preview as JSON") {
  const auto outcome = read({"--hosts=a,b", "--dry-run", "./train"});
  REQUIRE(std::holds_alternative<CliDryRun>(outcome));
  const auto& asked = std::get<CliDryRun>(outcome);
  REQUIRE(asked.request);
  CHECK(asked.request->job.is_rehearsal);
  CHECK(asked.request->job.program == Words{"./train"});
  CHECK(asked.request->job.flags == Words{"--no-scheduler", "--dry-run", "--json"});
  CHECK_FALSE(asked.as_json);
}

}  // namespace fanout_settings_test

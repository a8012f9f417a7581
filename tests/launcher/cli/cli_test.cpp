// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/cli.h"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>

#include "launcher/cli/declaration.h"
#include "tests/launcher/cli/cli_probe.h"

namespace cli_test {

using namespace cpprun;
using namespace cpprun::probe;
using namespace std::chrono_literals;

TEST_CASE("the main job's command line is parsed completely") {
  const auto config =
      good({"--nnodes=2", "--nproc_per_node=1", "--node_rank=0", "--master_addr=10.0.0.1",
            "--master_port=29500", "./train", "--threads=64", "--nnodes=9"});
  CHECK(config.rendezvous == RendezvousMode::fixed_master);
  CHECK(config.endpoint == Endpoint{"10.0.0.1", 29500});
  CHECK(config.nodes_min == 2);
  CHECK(config.nodes_max == 2);
  CHECK(config.node_rank == 0);
  CHECK(config.job == "none");
  CHECK(config.join_timeout == 900s);
  CHECK(config.program.script == "./train");
  CHECK(config.program.arguments == Words{"--threads=64", "--nnodes=9"});
}

TEST_CASE("a plain command has torchrun's defaults and a free port") {
  const auto config = good({"train.py"});
  CHECK(config.rendezvous == RendezvousMode::standalone);
  CHECK(config.endpoint == Endpoint{"127.0.0.1", 0});
  CHECK(config.job == "r4nd0m");
  CHECK(config.local_world_size == 1);
  CHECK(config.node_rank == std::nullopt);
  CHECK(config.role == "default");
  CHECK(config.restarts.max == 0);
  CHECK(config.grace == 30s);
  CHECK(config.lease() == 3s);
  CHECK(config.signals == std::vector<int>{SIGTERM, SIGINT, SIGHUP, SIGQUIT});
  CHECK(config.signals_text == "SIGTERM,SIGINT,SIGHUP,SIGQUIT");
  CHECK(config.notes.empty());
}

TEST_CASE("PET variables set defaults, and the command line wins") {
  const Environment pet = {{"PET_NNODES", "2"},    {"PET_NPROC_PER_NODE", "4"},
                           {"PET_NODE_RANK", "1"}, {"PET_MASTER_ADDR", "node0"},
                           {"PET_NO_PYTHON", "1"}, {"PET_STANDALONE", "0"}};
  const auto config = good({"--nproc-per-node=8", "train"}, pet);
  CHECK(config.nodes_max == 2);
  CHECK(config.local_world_size == 8);
  CHECK(config.node_rank == 1);
  CHECK(config.endpoint == Endpoint{"node0", 29500});
  CHECK(config.program.kind == ProgramKind::no_python);
  CHECK(diagnostics({"x"}, {{"PET_STANDALONE", "true"}, {"PET_MAX_RESTARTS", "many"}}) ==
        Words{"PET_STANDALONE=true is neither 1 (on) nor 0 (off)",
              "PET_MAX_RESTARTS=many is not a whole number of at least 0"});
}

TEST_CASE("all errors are reported together, each with its flag and a valid value") {
  CHECK(diagnostics({"--nnodes=2:1", "--nproc-per-node=none", "--rdzv-conf=foo", "--redirects=7",
                     "--master-port=x", "--frobnicate", "--role"}) ==
        Words{"unknown flag --frobnicate\n  hint: cpprun --help all lists the flags",
              "--role needs a value: --role=NAME",
              "--nnodes=2:1 is neither a number of nodes, such as 2, nor a range, such as 2:4",
              "--master-port=x is not a whole number from 0 to 65535",
              "--rdzv-conf: \"foo\" is not key=value, such as join_timeout=600",
              "--nproc-per-node=none is neither a number from 1 to 2048 nor cpu, gpu or auto",
              "--redirects: \"7\" is neither one digit (0 none, 1 stdout, 2 stderr, 3 both) nor a "
              "list such as 0:1,1:3 (local rank, then digit)",
              "no script given\n  hint: add the script after the flags"});
}

TEST_CASE("c10d with a range of nodes has an endpoint, its own port and timeouts") {
  const Config config = good({"--nnodes=1:4", "--rdzv-backend=c10d", "--rdzv-endpoint=head",
                              "--rdzv-id=7", "--rdzv-conf=last_call_timeout=3,is_host=False", "x"});
  CHECK(config.rendezvous == RendezvousMode::endpoint);
  CHECK(config.endpoint == Endpoint{"head", 29400});
  CHECK(config.nodes_min == 1);
  CHECK(config.nodes_max == 4);
  CHECK(config.join_timeout == std::chrono::seconds(600));
  CHECK(config.last_call == std::chrono::seconds(3));
  CHECK(config.is_host == false);
}

TEST_CASE("help names every flag, and both help and version win over errors") {
  const auto help = std::get<CliText>(read({"--frobnicate", "-h", "all"})).text;
  Flags flags;
  const Declaration declaration(flags);
  for (const auto& flag : declaration.facts())
    CHECK(help.find("--" + flag.name) != std::string::npos);
  CHECK(std::get<CliText>(read({"--version"})).text == "cpprun 1.2.3 (commit abc)\n");
}

TEST_CASE("a script that cannot be run is reported with the other errors, else at the start") {
  CHECK(diagnostics({"--node-rank=-1", "gone.py"}) ==
        Words{"--node-rank=-1 is not a whole number of at least 0",
              "cannot run \"gone.py\": no such file in the working directory"});
  CHECK(diagnostics({"--no-python", "--nnodes=0", "gone"}).back() ==
        "cannot run \"gone\": no such file in the working directory or on PATH");
  CHECK(good({"gone.py"}).program.script == "gone.py");
}

TEST_CASE("a dry run is separate, and invents no values") {
  const auto outcome = read({"--dry-run", "--json", "--standalone", "./train", "--json"});
  REQUIRE(std::holds_alternative<CliDryRun>(outcome));
  const auto& asked = std::get<CliDryRun>(outcome);
  CHECK(asked.as_json);
  CHECK_FALSE(asked.request);
  CHECK(asked.config.job.empty());
  CHECK(asked.config.program.arguments == Words{"--json"});
}

TEST_CASE("the errors of a dry run leave no file") {
  const auto outcome = read({"--dry-run", "--report=r", "--events=e", "--nnodes=0", "./train"});
  REQUIRE(std::holds_alternative<CliDiagnostics>(outcome));
  const auto& wrong = std::get<CliDiagnostics>(outcome);
  CHECK(wrong.diagnostics.size() == 1);
  CHECK(wrong.report_file.empty());
  CHECK(wrong.events_file.empty());
}

TEST_CASE("--json without --dry-run is an error, and no variable sets either") {
  CHECK(diagnostics({"--json", "./train"}) == Words{"--json has no effect without --dry-run"});
  CHECK(good({"./train"}, {{"PET_DRY_RUN", "1"}, {"PET_JSON", "1"}}).program.script == "./train");
}

}  // namespace cli_test

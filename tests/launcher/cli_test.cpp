#include "launcher/cli.h"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>

#include "launcher/flags.h"
#include "launcher/rendezvous_conf.h"

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

using Words = std::vector<std::string>;

CliOutcome read(Words words, Environment environment = {}) {
  return read_command_line({.words = std::move(words),
                            .environment = std::move(environment),
                            .cpu_count = 12,
                            .device_count = 0,
                            .random_id = "r4nd0m"});
}

Config good(Words words, Environment environment = {}) {
  auto outcome = read(std::move(words), std::move(environment));
  if (const auto* bad = std::get_if<CliMistakes>(&outcome)) FAIL(to_text(*bad));
  return std::get<Config>(outcome);
}

Words mistakes(Words words, Environment environment = {}) {
  auto outcome = read(std::move(words), std::move(environment));
  REQUIRE(std::holds_alternative<CliMistakes>(outcome));
  return std::get<CliMistakes>(outcome).mistakes;
}

}  // namespace

TEST_CASE("the main job's command line is understood, word for word") {
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
  CHECK(config.restarts_max == 0);
  CHECK(config.grace == 30s);
  CHECK(config.lease() == 3s);
  CHECK(config.signals == std::vector<int>{SIGTERM, SIGINT, SIGHUP, SIGQUIT});
  CHECK(config.signals_text == "SIGTERM,SIGINT,SIGHUP,SIGQUIT");
  CHECK(config.notes.empty());
}

TEST_CASE("dashes and underscores, equals and space, glued letters are all the same") {
  const auto expected = good({"--nproc-per-node=2", "--redirects=3", "--module", "pkg"});
  CHECK(good({"--nproc_per_node", "2", "-r3", "-m", "pkg"}) == expected);
  CHECK(good({"--nproc_per-node=2", "-r", "3", "--module", "pkg"}) == expected);
  CHECK(good({"--nproc-per-node", "2", "-mr3", "pkg"}) == expected);
}

TEST_CASE("unique beginnings are enough, others are refused with what they could mean") {
  CHECK(good({"--redirect=3", "--nproc=2", "--stand", "x"}).local_world_size == 2);
  CHECK(mistakes({"--master=1", "x"}) ==
        Words{"--master could mean --master-addr or --master-port; write it out"});
  CHECK(mistakes({"--nodes=2", "x"}) ==
        Words{"--nodes is no flag of cpprun; cpprun --help lists them"});
}

TEST_CASE("dashes alone: dropped before the script and right after it, kept elsewhere") {
  CHECK(good({"--", "train.py", "--", "y"}).program.arguments == Words{"--", "y"});
  CHECK(good({"train.py", "--", "y"}).program.arguments == Words{"y"});
  CHECK(good({"train.py", "x", "--", "y"}).program.arguments == Words{"x", "--", "y"});
  CHECK(good({"--", "-odd-name", "y"}).program.script == "-odd-name");
}

TEST_CASE("PET variables give defaults, the command line wins") {
  const Environment pet = {{"PET_NNODES", "2"},    {"PET_NPROC_PER_NODE", "4"},
                           {"PET_NODE_RANK", "1"}, {"PET_MASTER_ADDR", "node0"},
                           {"PET_NO_PYTHON", "1"}, {"PET_STANDALONE", "0"}};
  const auto config = good({"--nproc-per-node=8", "train"}, pet);
  CHECK(config.nodes_max == 2);
  CHECK(config.local_world_size == 8);
  CHECK(config.node_rank == 1);
  CHECK(config.endpoint == Endpoint{"node0", 29500});
  CHECK(config.program.kind == ProgramKind::no_python);
  CHECK(mistakes({"x"}, {{"PET_STANDALONE", "true"}, {"PET_MAX_RESTARTS", "many"}}) ==
        Words{"PET_STANDALONE=true is neither 1 (on) nor 0 (off)",
              "PET_MAX_RESTARTS=many is not a whole number from 0"});
}

TEST_CASE("every mistake is told at once, each with its flag and what would be right") {
  CHECK(mistakes({"--nnodes=2:1", "--nproc-per-node=none", "--rdzv-conf=foo", "--redirects=7",
                  "--master-port=x", "--frobnicate", "--role"}) ==
        Words{"--frobnicate is no flag of cpprun; cpprun --help lists them",
              "--role needs a value: --role=NAME",
              "--nnodes=2:1 is neither a number of nodes, as 2, nor a range, as 2:4",
              "--nproc-per-node=none is neither a number from 1 to 2048 nor cpu, gpu or auto",
              "--rdzv-conf: \"foo\" is not key=value, as in join_timeout=600",
              "--master-port=x is not a whole number from 0 to 65535",
              "--redirects: \"7\" is neither one digit (0 none, 1 stdout, 2 stderr, 3 both) nor a "
              "list such as 0:1,1:3 (local rank, then digit)",
              "there is no script to run; give one after the flags"});
}

TEST_CASE("a node rank beyond the nodes is a mistake") {
  CHECK(mistakes({"--nnodes=2", "--node-rank=2", "x"}) ==
        Words{"--node-rank=2 is beyond the last of 2 nodes, which has rank 1"});
}

TEST_CASE("which rendezvous a command gets follows torchrun, but a given id is kept") {
  CHECK(good({"--rdzv-id=7", "x"}).job == "7");
  CHECK(good({"--master-port=1234", "x"}).endpoint == Endpoint{"127.0.0.1", 1234});
  CHECK(good({"--master-port=1234", "x"}).rendezvous == RendezvousMode::fixed_master);
  CHECK(good({"--rdzv-endpoint=[::1]:1234", "x"}).endpoint == Endpoint{"::1", 1234});
  CHECK(good({"--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "x"}).rendezvous ==
        RendezvousMode::standalone);
  CHECK(good({"--rdzv-backend=c10d", "x"}).rendezvous == RendezvousMode::standalone);
  CHECK(good({"--nnodes=2:2", "x"}).rendezvous == RendezvousMode::fixed_master);
  CHECK(good({"--standalone", "--master-port=1", "x"}).notes ==
        Words{"--master-port is ignored with --standalone"});
  CHECK(mistakes({"--nnodes=2", "--rdzv-backend=c10d", "x"}) ==
        Words{"--rdzv-backend=c10d with 2 nodes needs --rdzv-endpoint=HOST[:PORT], the same on "
              "every node"});
  CHECK(mistakes({"--standalone", "--nnodes=2", "x"}) ==
        Words{"--standalone is one node by itself, and --nnodes=2 asks for more; leave one of them "
              "out"});
  CHECK(mistakes({"--nnodes=2", "--master-port=0", "x"}) ==
        Words{"--master-port: port 0 means any free one, which the other nodes could not know; "
              "give a number"});
}

TEST_CASE("c10d and a range of nodes: an endpoint, its own port and patience, a last call") {
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

TEST_CASE("workers are counted by number, processors or devices") {
  CHECK(good({"--nproc-per-node=cpu", "x"}).local_world_size == 12);
  CHECK(good({"--nproc-per-node=auto", "x"}).local_world_size == 12);
  CHECK(mistakes({"--nproc-per-node=gpu", "x"})
            .front()
            .starts_with("--nproc-per-node=gpu finds no GPU on this machine"));
  CHECK(mistakes({"--nproc-per-node=0", "x"}).size() == 1);
}

TEST_CASE("what is not there yet is refused with a sentence, its harmless values are not") {
  CHECK(mistakes({"--rdzv-backend=etcd-v2", "x"}) ==
        Words{"--rdzv-backend=etcd-v2 is not there; cpprun hosts its own store, leave the flag "
              "out"});
  CHECK(mistakes({"--numa-binding=node", "--virtual-local-rank", "--run-path", "--logs-specs=mine",
                  "--event-log-handler=console", "--duplicate-stdout-filters=a",
                  "--duplicate-stderr-filters=b", "x"})
            .size() == 7);
  good({"--logs-specs=default", "--event-log-handler=null", "--start-method=spawn",
        "--monitor-interval=0.1", "--duplicate-stdout-filters=", "x"});
}

TEST_CASE("flags without effect are accepted, checked, and said to have none") {
  CHECK(good({"--monitor-interval=5", "--start-method=fork", "x"}).notes.size() == 2);
  CHECK(mistakes({"--monitor-interval=0", "--start-method=magic", "x"}).size() == 2);
}

TEST_CASE("the grace comes from the flag, else from torch's variable") {
  const Environment torch = {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "7"}};
  CHECK(good({"x"}, torch).grace == 7s);
  CHECK(good({"--shutdown-timeout=0", "x"}, torch).grace == 0s);
  CHECK(mistakes({"--shutdown-timeout=-1", "x"}).size() == 1);
  CHECK(mistakes({"x"}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "soon"}}).size() == 1);
}

TEST_CASE("signals are read by name; one that cannot be handled is noted, as in torchrun") {
  const auto config = good({"--signals-to-handle=SIGUSR1,SIGTERM,SIGFOO,SIGTERM", "x"});
  CHECK(config.signals == std::vector<int>{SIGUSR1, SIGTERM});
  CHECK(config.signals_text == "SIGUSR1,SIGTERM,SIGFOO,SIGTERM");
  CHECK(config.notes == Words{"SIGFOO cannot be handled and is left out of --signals-to-handle"});
}

TEST_CASE("logs: a folder, none at all, a filter, a template") {
  const auto config = good({"--log-dir=/logs", "-t", "1:3", "--local-ranks-filter=0,2", "x"},
                           {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "${rank}: "}});
  CHECK(config.logs.root == "/logs");
  CHECK(config.logs.tee.of(1) == StreamChoice{true, true});
  CHECK(config.logs.console_ranks == std::vector<int>{0, 2});
  CHECK(config.logs.prefix_template == "${rank}: ");
  CHECK(good({"--log-dir=/dev/null", "x"}).logs.disabled);
  CHECK(mistakes({"--local-ranks-filter=a", "x"}).size() == 1);
}

TEST_CASE("rendezvous keys are read, and an unknown one is a mistake") {
  Words complaints;
  const auto patience = read_rendezvous_conf(
      " join_timeout = 5 , timeout=9,keep_alive_interval=2,keep_alive_max_attempt=4,read_timeout=1,"
      "last_call_timeout=8,is_host=yes",
      "F", complaints);
  CHECK(patience == Patience{5, 2, 4, 8, true});
  CHECK(complaints.empty());
  CHECK(read_rendezvous_conf("timeout=9", "F", complaints).join_seconds == 9);
  static_cast<void>(read_rendezvous_conf(
      "join_timeuot=5,is_host=maybe,join_timeout=0,rank=1,=3,store_type=file,ca_cert=x", "F",
      complaints));
  CHECK(complaints ==
        Words{"F: join_timeuot is no key; there are join_timeout, timeout, last_call_timeout, "
              "keep_alive_interval, keep_alive_max_attempt and is_host, and torchrun's others "
              "without effect",
              "F: is_host=maybe is neither true nor false",
              "F: join_timeout=0 is not a whole number above 0",
              "F: rank=1 belongs into --node-rank=1",
              "F: \"=3\" is not key=value, as in join_timeout=600",
              "F: store_type=file is not there, only tcp is",
              "F: ca_cert belongs to an etcd rendezvous, which is not there"});
}

TEST_CASE("help names every flag, and version the version; both win over mistakes") {
  const auto help = std::get<CliText>(read({"--frobnicate", "-h"})).text;
  for (const auto& flag : flags())
    CHECK(help.find("--" + std::string(flag.name)) != std::string::npos);
  CHECK(std::get<CliText>(read({"--version"})).text.starts_with("cpprun "));
}

TEST_CASE("a value may be a negative number but not another flag") {
  CHECK(mistakes({"--max-restarts", "-1", "x"}) ==
        Words{"--max-restarts=-1 is not a whole number from 0"});
  CHECK(mistakes({"--role", "--standalone", "x"}) == Words{"--role needs a value: --role=NAME"});
  CHECK(mistakes({"--standalone=1", "x"}) ==
        Words{"--standalone takes no value; leave out \"=1\""});
}

#include "launcher/settings.h"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>

#include "tests/launcher/cli_probe.h"

using namespace cpprun;
using namespace cpprun::probe;
using namespace std::chrono_literals;

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

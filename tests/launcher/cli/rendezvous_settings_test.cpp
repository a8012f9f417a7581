// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/rendezvous_settings.h"

#include <doctest/doctest.h>

#include "tests/launcher/cli/cli_probe.h"

using namespace cpprun;
using namespace cpprun::probe;
using namespace std::chrono_literals;

TEST_CASE("a node rank beyond the nodes is a mistake") {
  CHECK(mistakes({"--nnodes=2", "--node-rank=2", "x"}) ==
        Words{"--node-rank=2 is beyond the last of 2 nodes, which has rank 1"});
}

TEST_CASE("a job has a name, and a lease that a hiccup does not end") {
  CHECK(mistakes({"--rdzv-id=", "x"}) ==
        Words{"--rdzv-id needs a name: jobs of no name would meet each other; is the variable that "
              "it is made of set on this node?"});
  CHECK(mistakes({"--rdzv-conf=keep_alive_interval=0.01,keep_alive_max_attempt=2", "x"}) ==
        Words{"--rdzv-conf: keep_alive_interval=0.01 times keep_alive_max_attempt=2 is a lease of "
              "0.02 s, and none is shorter than 0.1 s: every hiccup would cost a node its seat"});
  CHECK(good({"--rdzv-conf=keep_alive_interval=0.05,keep_alive_max_attempt=2", "x"}).lease() ==
        100ms);
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

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/rendezvous_settings.h"

#include <doctest/doctest.h>

#include "tests/launcher/cli/cli_probe.h"

namespace rendezvous_settings_test {

using namespace cpprun;
using namespace cpprun::probe;
using namespace std::chrono_literals;

TEST_CASE("a node rank beyond the nodes is an error") {
  CHECK(diagnostics({"--nnodes=2", "--node-rank=2", "x"}) ==
        Words{"--node-rank=2 is too large: the job has 2 nodes, ranks 0 to 1"});
}

TEST_CASE("a job has a name, and a lease that survives a short delay") {
  CHECK(diagnostics({"--rdzv-id=", "x"}) ==
        Words{"--rdzv-id: empty value; check that the variable used for the value is set, or "
              "remove the flag"});
  CHECK(diagnostics({"--rdzv-conf=keep_alive_interval=0.01,keep_alive_max_attempt=2", "x"}) ==
        Words{"--rdzv-conf: keep_alive_interval=0.01 times keep_alive_max_attempt=2 is a lease of "
              "0.02 s, below the minimum of 0.1 s"});
  CHECK(good({"--rdzv-conf=keep_alive_interval=0.05,keep_alive_max_attempt=2", "x"}).lease() ==
        100ms);
}

TEST_CASE("the rendezvous is chosen as in torchrun, but a given id is kept") {
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
  CHECK(diagnostics({"--nnodes=2", "--rdzv-backend=c10d", "x"}) ==
        Words{"--rdzv-backend=c10d with 2 nodes needs --rdzv-endpoint=HOST[:PORT], the same on "
              "every node"});
  CHECK(diagnostics({"--standalone", "--nnodes=2", "x"}) ==
        Words{"--standalone runs a single node, but --nnodes=2 needs more\n  hint: use only one of "
              "them"});
  CHECK(diagnostics({"--nnodes=2", "--master-port=0", "x"}) ==
        Words{"--master-port: port 0 means any free port, which the other nodes cannot know"
              "\n  hint: use a fixed port"});
}

TEST_CASE("several endpoints are those of a cluster, and no node hosts the rendezvous") {
  const std::vector<Endpoint> set{{"a", 29400}, {"10.0.0.2", 7}, {"fd00::1", 29400}};
  const std::string text = "a,10.0.0.2:7,[fd00::1]:29400";
  const auto config = good({"--nnodes=2", "--rdzv-endpoint=" + text, "x"});
  CHECK(config.places == set);
  CHECK(config.endpoint == set.front());
  CHECK(config.rendezvous == RendezvousMode::endpoint);
  CHECK(config.join_timeout == 600s);
  CHECK(good({"--rdzv_endpoint", text, "--rdzv-backend=c10d", "x"}).places == set);
  CHECK(good({"x"}, {{"PET_RDZV_ENDPOINT", text}}).places == set);
  CHECK(
      good({"--config=job.toml", "x"}, {}, {.text = "rdzv-endpoint = \"" + text + "\"\n"}).places ==
      set);
  CHECK(good({"--config=job.toml", "x"}, {}, {.text = "rdzv-endpoint = [\"a\", \"10.0.0.2:7\"]\n"})
            .places == std::vector<Endpoint>{set[0], set[1]});
  CHECK(good({"--rdzv-conf=is_host=false", "--rdzv-endpoint=" + text, "x"}).places == set);
  CHECK(good({"--rdzv-backend=c10d", "--rdzv-endpoint=a:29400", "x"}).places.empty());
  CHECK(good({"--master-addr=h", "--rdzv-endpoint=a,b", "x"}).notes ==
        Words{"--master-addr is ignored: --rdzv-endpoint takes precedence"});
  CHECK(good({"--standalone", "--rdzv-endpoint=a,b", "x"}).places.empty());
  const auto elastic = good({"--nnodes=1:4", "--standby=auto", "--rdzv-endpoint=a,b", "x"});
  CHECK_FALSE(elastic.may_have_standby());
  CHECK(elastic.notes == Words{"--standby=auto has no effect: another cpprund of the cluster, not "
                               "a node, takes over from a lost leader"});
}

TEST_CASE("flags that contradict several endpoints are rejected by name") {
  CHECK(diagnostics({"--rdzv-endpoint=a,,b", "x"}) ==
        Words{"--rdzv-endpoint: \"a,,b\" has an empty entry between commas"});
  CHECK(diagnostics({"x"}, {{"PET_RDZV_ENDPOINT", "a:1,b:x"}}) ==
        Words{"PET_RDZV_ENDPOINT: \"b:x\": port \"x\" is not a number from 0 to 65535"});
  CHECK(diagnostics({"--rdzv-endpoint=a,b:0", "x"}) ==
        Words{"--rdzv-endpoint: port 0 means any free port, which the other nodes cannot know"
              "\n  hint: use a fixed port"});
  CHECK(diagnostics({"--rdzv-backend=static", "--rdzv-endpoint=a,b", "x"}) ==
        Words{"--rdzv-backend=static needs a single endpoint, but --rdzv-endpoint lists 2 "
              "cpprunds\n  hint: use one endpoint, or --rdzv-backend=c10d"});
  CHECK(diagnostics({"--rdzv-conf=is_host=true", "--rdzv-endpoint=a,b", "x"}) ==
        Words{"--rdzv-conf: is_host=true, but the rendezvous is hosted by one of the 2 cpprunds in "
              "--rdzv-endpoint\n  hint: remove is_host, or set the endpoint to this machine only"});
  CHECK(diagnostics({"--master-addr=a,b", "x"}).front().starts_with("--master-addr: "));
}

}  // namespace rendezvous_settings_test

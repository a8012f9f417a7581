// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/settings.h"

#include <doctest/doctest.h>

#include "tests/launcher/cli/cli_probe.h"

namespace settings_test {

using namespace cpprun;
using namespace cpprun::probe;

TEST_CASE("unsupported values are rejected with a sentence, their harmless ones are accepted") {
  CHECK(diagnostics({"--rdzv-backend=zookeeper", "x"}) ==
        Words{"--rdzv-backend=zookeeper is not a rendezvous backend\n  hint: use static, c10d or "
              "etcd"});
  CHECK(diagnostics({"--logs-specs=mine", "--event-log-handler=mine", "x"}).size() == 2);
  good({"--logs-specs=default", "--event-log-handler=null", "--start-method=spawn",
        "--monitor-interval=0.1", "--duplicate-stdout-filters=", "x"});
}

TEST_CASE("a typed flag takes precedence over a variable that contradicts it") {
  const auto alone = good({"--standalone", "--nnodes=1", "x"}, {{"PET_NODE_RANK", "3"}});
  CHECK_FALSE(alone.node_rank);
  CHECK(alone.rendezvous == RendezvousMode::standalone);
  CHECK(alone.notes == Words{"note: PET_NODE_RANK=3 is ignored: --standalone takes precedence"});
  CHECK(good({"--nnodes=2", "x"}, {{"PET_NODE_RANK", "2"}}).notes ==
        Words{"note: PET_NODE_RANK=2 is ignored: --nnodes=2 takes precedence"});
  CHECK(good({"--nnodes=2", "x"}, {{"PET_STANDALONE", "1"}}).nodes_max == 2);
  CHECK(good({"--standalone", "x"}, {{"PET_NNODES", "2"}}).nodes_max == 1);
  CHECK(good({"-m", "x"}, {{"PET_NO_PYTHON", "1"}}).program.kind == ProgramKind::module);
  CHECK(good({"--no-python", "x"}, {{"PET_MODULE", "1"}}).program.kind == ProgramKind::no_python);
  CHECK_FALSE(good({"--use-env", "x"}, {{"PET_PASS_LOCAL_RANK", "rank"}}).local_rank_flag);
  CHECK(good({"--standalone", "x"}, {{"PET_STANDALONE", "yes"}}).notes.empty());
}

TEST_CASE("a typed rendezvous takes precedence over the variables") {
  const auto fixed = good({"--nnodes=2", "--master-addr=h", "x"}, {{"PET_RDZV_BACKEND", "c10d"}});
  CHECK(fixed.rendezvous == RendezvousMode::fixed_master);
  CHECK(fixed.notes ==
        Words{"note: PET_RDZV_BACKEND=c10d is ignored: --master-addr=h takes precedence"});
  CHECK(good({"--rdzv-endpoint=a,b", "x"}, {{"PET_RDZV_BACKEND", "static"}}).places.size() == 2);
  CHECK(good({"--rdzv-backend=static", "x"}, {{"PET_RDZV_ENDPOINT", "a,b"}}).places.empty());
  const auto alone = good({"--standalone", "x"}, {{"PET_RDZV_CONF", "is_host=false"}});
  CHECK_FALSE(alone.is_host);
  CHECK(alone.notes ==
        Words{"note: PET_RDZV_CONF: is_host is ignored: --standalone takes precedence"});
  good({"--rdzv-endpoint=a,b", "x"}, {{"PET_RDZV_CONF", "is_host=true"}});
  good({"--rdzv-backend=static", "x"}, {{"PET_RDZV_CONF", "protocol=https"}});
}

TEST_CASE("other typed flags take precedence, too") {
  const auto codes =
      good({"--max-restarts=1", "--free-restart-codes=2", "x"}, {{"PET_NO_RESTART_CODES", "2,3"}});
  CHECK(codes.restarts.final_codes == std::vector<int>{3});
  CHECK(codes.notes ==
        Words{"note: PET_NO_RESTART_CODES=2,3 is ignored for the codes in --free-restart-codes=2"});
  const auto words =
      good({"--tee=3", "--duplicate-stdout-filters=a", "x"}, {{"PET_LOG_DIR", "/dev/null"}});
  CHECK_FALSE(words.logs.disabled);
  CHECK(good({"--report=f", "x"}, {{"PET_EVENTS", "f"}}).logs.events_file.empty());
}

TEST_CASE("contradicting values from one source are an error") {
  CHECK(diagnostics({"x"}, {{"PET_STANDALONE", "1"}, {"PET_NNODES", "2"}}).size() == 1);
  CHECK(diagnostics({"x"}, {{"PET_NNODES", "2"}, {"PET_NODE_RANK", "2"}}).size() == 1);
  CHECK(diagnostics({"-m", "--no-python", "x"}).size() == 1);
  CHECK(
      good({"--config=job.toml", "x"}, {{"PET_NNODES", "2"}}, {.text = "node-rank = 5\n"}).notes ==
      Words{"note: job.toml:1: node-rank=5 is ignored: PET_NNODES=2 takes precedence"});
}

}  // namespace settings_test

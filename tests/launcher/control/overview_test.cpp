// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/text.h"

#include <doctest/doctest.h>

namespace overview_test {

using namespace cpprun;

namespace {

JobView running() {
  return {.id = "seen",
          .state = "running",
          .now = 1000,
          .since = 800,
          .round = 2,
          .nodes_min = 2,
          .nodes_max = 2,
          .running = 2,
          .world_size = 4,
          .restarts = 1,
          .restarts_max = 3,
          .rounds = {{.round = 1,
                      .began = 700,
                      .ended = 790,
                      .failure = FailureView{.rank = 3,
                                             .host = "beta",
                                             .exit_code = 137,
                                             .signal = "SIGKILL",
                                             .cause = "out_of_memory"}},
                     {.round = 2, .began = 800}}};
}

const std::vector<NodeView> two_nodes{{.host = "alpha",
                                       .node = 0,
                                       .state = "running",
                                       .since = 800,
                                       .hosts_coordinator = true,
                                       .pid = 10,
                                       .workers = 2,
                                       .base_rank = 0},
                                      {.host = "beta",
                                       .node = 1,
                                       .state = "running",
                                       .since = 800,
                                       .silence = 0.3,
                                       .is_connected = false,
                                       .pid = 11,
                                       .workers = 2,
                                       .base_rank = 2}};

}  // namespace

TEST_CASE("a list has a line for each job, with its endpoint") {
  CHECK(list_text({{running(), "/run/x.sock"}}, {}) ==
        "JOB   STATE    SINCE  ROUND  NODES  WORKERS  RESTARTS  AT\n"
        "seen  running  3 min      2    2/2        4       1/3  /run/x.sock\n");
}

TEST_CASE("a status has a summary, then the nodes, then what ended each round") {
  CHECK(status_text(running(), two_nodes, {}) ==
        "job \"seen\" has been running for 3 min: round 2, 2/2 nodes, 4 workers; 1 of 3 restarts "
        "used\n"
        "\n"
        "NODE  HOST   STATE          SINCE  RANKS  HEARD  PID\n"
        "   0  alpha  running        3 min    0-1   here   10\n"
        "   1  beta   running, away  3 min    2-3  0.3 s   11\n"
        "\n"
        "ROUND  BEGAN      LASTED  ENDED BY\n"
        "    1  5 min ago   1 min  rank 3 on beta: SIGKILL (out_of_memory)\n"
        "    2  3 min ago   3 min  (running)\n");
}

TEST_CASE("the URL of a job's status page is printed in a list and in a status, if it is known") {
  JobView job = running();
  job.page = "http://127.0.0.1:29500/";
  CHECK(list_text({{job, "/run/x.sock"}}, {}).ends_with("1/3  http://127.0.0.1:29500/\n"));
  job.command = "python -u train.py";
  job.user = "ann";
  CHECK(status_text(job, {}, {}).find("\ncommand: python -u train.py (user ann)\n") !=
        std::string::npos);
  CHECK(status_text(job, {}, {}).find("\nstatus page: http://127.0.0.1:29500/\n") !=
        std::string::npos);
}

TEST_CASE("progress is a sentence of the known figures") {
  CHECK(progress_sentence({}).empty());
  CHECK(progress_sentence({.step = 4}).empty());  // the table of nodes shows it
  CHECK(progress_sentence({.step = 1200, .total = 5000, .remaining = 1083}) ==
        "step 1200 of 5000 (24 %), 18 min left");
  CHECK(progress_sentence({.step = 12, .total = 50, .metrics = {{"loss", 0.123456}, {"lr", {}}}}) ==
        "step 12 of 50 (24 %), loss 0.1235, lr NaN");
  CHECK(progress_sentence({.step = 4999, .total = 5000}) == "step 4999 of 5000 (99 %)");
  CHECK(progress_sentence({.step = 60, .total = 50}) == "step 60 of 50 (100 %)");
  JobView job = running();
  job.progress = {.metrics = {{"loss", 2.0}}};
  CHECK(status_text(job, {}, {}).find("\nloss 2\n") != std::string::npos);
}

TEST_CASE("worker figures are shown when a node has them") {
  auto nodes = two_nodes;
  nodes[1].figures = {
      .step = 1200, .steps_per_second = 3.5, .resident_bytes = 3.0 * 1024 * 1024 * 1024};
  const auto lines = lines_of(nodes_table(nodes, 1000), {});
  CHECK(lines[0].ends_with("STEP  STEPS/S   MEMORY"));
  CHECK(lines[1].ends_with("   -        -        -"));
  CHECK(lines[2].ends_with("1200     3.50  3.0 GiB"));
}

TEST_CASE("a finished job prints its result, and a waiting one what it waits for") {
  JobView over = running();
  over.state = "over";
  over.exit_code = 137;
  over.reason = "rank 3 failed";
  CHECK(job_sentence(over) == "job \"seen\" ended with exit code 137: rank 3 failed");
  JobView waits = running();
  waits.state = "gathering";
  waits.waits_for = "1 of 2 nodes have joined";
  const auto text = status_text(waits, {}, {});
  CHECK(text.find("has been waiting for nodes") != std::string::npos);
  CHECK(text.find("\n1 of 2 nodes have joined\n") != std::string::npos);
  JobView alone = running();
  alone.cover = "if node 0 on a is lost, the job is lost";
  CHECK(status_text(alone, {}, {}).find("\nif node 0 on a is lost, the job is lost\n") !=
        std::string::npos);
  alone.warnings = {"do something"};
  CHECK(status_text(alone, {}, {}).find("\nwarning: do something\n") != std::string::npos);
  CHECK(status_text(alone, {}, {}).find("\nif node 0") == std::string::npos);
}

TEST_CASE("untrusted names cannot forge a line") {
  JobView job = running();
  job.id = "a\nb";
  CHECK(job_sentence(job).find('\n') == std::string::npos);
  CHECK(failure_text({.rank = 1, .host = "x\ny", .exit_code = 2}) == "rank 1 on x?y: exit code 2");
}

TEST_CASE("states also differ by colour") {
  CHECK(tint_of("running") == Tint::good);
  CHECK(tint_of("gathering") == Tint::busy);
  CHECK(tint_of("draining") == Tint::bad);
  CHECK(tint_of("over") == Tint::plain);
}

}  // namespace overview_test

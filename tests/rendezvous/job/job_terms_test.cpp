// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/job_terms.h"

#include <doctest/doctest.h>

namespace job_terms_test {

using namespace cpprun;

namespace {

const JobTerms terms{.id = "j", .nodes_min = 2, .nodes_max = 4, .restarts = {.max = 3}};

link::Join join() {
  return {.job = "j", .host = "beta", .nodes_min = 2, .nodes_max = 4, .restarts = {.max = 3}};
}

}  // namespace

TEST_CASE("a node with the same terms has nothing to object to") {
  CHECK(disagreement(terms, join()) == std::nullopt);
  CHECK(terms.elastic());
  CHECK_FALSE(JobTerms{.id = "j", .nodes_min = 2, .nodes_max = 2}.elastic());
}

TEST_CASE("every disagreement names both sides and the flag") {
  auto nodes = join();
  nodes.nodes_max = 5;
  CHECK(disagreement(terms, nodes) ==
        "this job runs with --nnodes=2:4, but beta came with --nnodes=2:5; start every node with "
        "the same");
  auto restarts = join();
  restarts.restarts.max = 0;
  CHECK(disagreement(terms, restarts) ==
        "this job runs with --max-restarts=3, but beta came with --max-restarts=0; the budget is "
        "the job's, start every node with the same");
  auto store = join();
  store.store_is_local = true;
  CHECK(disagreement(terms, store) ==
        "this job runs with --store=direct, but beta came with --store=local (local is the default "
        "of a node with a secret, direct of one without); start every node with the same");
  auto rank = join();
  rank.node_rank = 4;
  CHECK(disagreement(terms, rank) == "--node_rank=4 on beta is outside 0…3 of --nnodes=2:4");
}

}  // namespace job_terms_test

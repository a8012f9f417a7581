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

TEST_CASE("a node with the same terms is accepted") {
  CHECK(disagreement(terms, join()) == std::nullopt);
  CHECK(terms.elastic());
  CHECK_FALSE(JobTerms{.id = "j", .nodes_min = 2, .nodes_max = 2}.elastic());
}

TEST_CASE("every disagreement names both sides and the flag") {
  auto nodes = join();
  nodes.nodes_max = 5;
  CHECK(disagreement(terms, nodes) ==
        "this job uses --nnodes=2:4, but beta has --nnodes=2:5; use the same value on every node");
  auto restarts = join();
  restarts.restarts.max = 0;
  CHECK(disagreement(terms, restarts) ==
        "this job uses --max-restarts=3, but beta has --max-restarts=0; use the same restart "
        "budget on every node");
  auto store = join();
  store.store_is_local = true;
  CHECK(disagreement(terms, store) ==
        "this job uses --store=direct, but beta has --store=local (the default is local with a "
        "secret, several cpprunds or etcd, otherwise direct); use the same value on every node");
  auto rank = join();
  rank.node_rank = 4;
  CHECK(disagreement(terms, rank) ==
        "--node-rank=4 on beta is out of range (0 to 3 with --nnodes=2:4)");
}

}  // namespace job_terms_test

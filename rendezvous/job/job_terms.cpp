// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/job_terms.h"

#include <fmt/format.h>

namespace cpprun {

namespace {

std::string nodes_text(int nodes_min, int nodes_max) {
  return nodes_min == nodes_max ? fmt::format("--nnodes={}", nodes_max)
                                : fmt::format("--nnodes={}:{}", nodes_min, nodes_max);
}

const char* store_text(bool is_local) {
  return is_local ? "--store=local" : "--store=direct";
}

}  // namespace

JobTerms terms_of(const link::Join& join) {
  return {.id = join.job,
          .nodes_min = join.nodes_min,
          .nodes_max = join.nodes_max,
          .restarts = join.restarts,
          .store_is_local = join.store_is_local};
}

std::optional<std::string> disagreement(const JobTerms& terms, const link::Join& join) {
  if (join.nodes_min != terms.nodes_min || join.nodes_max != terms.nodes_max) {
    return fmt::format("this job runs with {}, but {} came with {}; start every node with the same",
                       nodes_text(terms.nodes_min, terms.nodes_max), join.host,
                       nodes_text(join.nodes_min, join.nodes_max));
  }
  if (join.restarts != terms.restarts) {
    return fmt::format(
        "this job runs with {}, but {} came with {}; the budget is the job's, start every node "
        "with the same",
        to_text(terms.restarts), join.host, to_text(join.restarts));
  }
  if (join.store_is_local != terms.store_is_local) {
    return fmt::format(
        "this job runs with {}, but {} came with {} (local is the default of a node with a secret, "
        "direct of one without); start every node with the same",
        store_text(terms.store_is_local), join.host, store_text(join.store_is_local));
  }
  if (join.node_rank && (*join.node_rank < 0 || *join.node_rank >= terms.nodes_max)) {
    return fmt::format("--node_rank={} on {} is outside 0…{} of {}", *join.node_rank, join.host,
                       terms.nodes_max - 1, nodes_text(terms.nodes_min, terms.nodes_max));
  }
  return std::nullopt;
}

}  // namespace cpprun

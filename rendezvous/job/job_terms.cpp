// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/job_terms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cpprun {

namespace {

std::string nodes_text(int nodes_min, int nodes_max) {
  return nodes_min == nodes_max ? fmt::format("--nnodes={}", nodes_max)
                                : fmt::format("--nnodes={}:{}", nodes_min, nodes_max);
}

std::string policy_text(const JobTerms& terms) {
  std::string text = fmt::format("--max-restarts={}", terms.restarts_max);
  if (terms.restart_backoff > Duration{}) {
    text += fmt::format(" --restart-backoff={}", in_seconds(terms.restart_backoff));
  }
  if (terms.restart_window > Duration{}) {
    text += fmt::format(" --restart-window={}", in_seconds(terms.restart_window));
  }
  if (!terms.no_restart_codes.empty()) {
    text += fmt::format(" --no-restart-codes={}", fmt::join(terms.no_restart_codes, ","));
  }
  return text;
}

}  // namespace

JobTerms terms_of(const link::Join& join) {
  return {.id = join.job,
          .nodes_min = join.nodes_min,
          .nodes_max = join.nodes_max,
          .restarts_max = join.restarts_max,
          .restart_backoff = join.backoff,
          .restart_window = join.window,
          .no_restart_codes = join.no_restart_codes};
}

std::optional<std::string> disagreement(const JobTerms& terms, const link::Join& join) {
  if (join.nodes_min != terms.nodes_min || join.nodes_max != terms.nodes_max) {
    return fmt::format("this job runs with {}, but {} came with {}; start every node with the same",
                       nodes_text(terms.nodes_min, terms.nodes_max), join.host,
                       nodes_text(join.nodes_min, join.nodes_max));
  }
  if (const JobTerms theirs = terms_of(join); policy_text(theirs) != policy_text(terms)) {
    return fmt::format(
        "this job runs with {}, but {} came with {}; the budget is the job's, start every node "
        "with the same",
        policy_text(terms), join.host, policy_text(theirs));
  }
  if (join.node_rank && (*join.node_rank < 0 || *join.node_rank >= terms.nodes_max)) {
    return fmt::format("--node_rank={} on {} is outside 0…{} of {}", *join.node_rank, join.host,
                       terms.nodes_max - 1, nodes_text(terms.nodes_min, terms.nodes_max));
  }
  return std::nullopt;
}

}  // namespace cpprun

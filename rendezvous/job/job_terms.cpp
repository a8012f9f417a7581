// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/job_terms.h"

#include <fmt/format.h>

#include <cstdint>

#include "proto/link/bounds.h"
#include "rendezvous/job/bounds.h"

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
    return fmt::format("this job uses {}, but {} has {}; use the same value on every node",
                       nodes_text(terms.nodes_min, terms.nodes_max), join.host,
                       nodes_text(join.nodes_min, join.nodes_max));
  }
  if (join.restarts != terms.restarts) {
    return fmt::format("this job uses {}, but {} has {}; use the same restart budget on every node",
                       to_text(terms.restarts), join.host, to_text(join.restarts));
  }
  if (join.store_is_local != terms.store_is_local) {
    return fmt::format(
        "this job uses {}, but {} has {} (the default is local with a secret, several cpprunds or "
        "etcd, otherwise direct); use the same value on every node",
        store_text(terms.store_is_local), join.host, store_text(join.store_is_local));
  }
  if (join.node_rank && (*join.node_rank < 0 || *join.node_rank >= terms.nodes_max)) {
    return fmt::format("--node-rank={} on {} is out of range (0 to {} with {})", *join.node_rank,
                       join.host, terms.nodes_max - 1,
                       nodes_text(terms.nodes_min, terms.nodes_max));
  }
  return std::nullopt;
}

std::optional<std::string> impossible(const link::Join& join) {
  const auto outside = [](const char* name, std::int64_t value) {
    return fmt::format("invalid join message: {}={} is out of range", name, value);
  };
  if (join.job.empty())
    return "invalid join message: no job id; use the same --rdzv-id on every node";
  if (join.nodes_min < 1) return outside("min", join.nodes_min);
  if (join.nodes_max < join.nodes_min || join.nodes_max > bounds::nodes_max) {
    return outside("max", join.nodes_max);
  }
  if (join.local_world_size < 1 || join.local_world_size > bounds::local_world_size_max) {
    return outside("workers", join.local_world_size);
  }
  if (join.restarts.max < 0) return outside("restarts", join.restarts.max);
  const auto impossible_time = [&outside](const char* name, Duration duration) {
    return outside(name, std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
  };
  if (join.restarts.backoff < Duration{})
    return impossible_time("backoff_ms", join.restarts.backoff);
  if (join.restarts.window < Duration{}) return impossible_time("window_ms", join.restarts.window);
  if (join.lease != Duration{} && join.lease < bounds::lease_min) {
    return impossible_time("lease_ms", join.lease);
  }
  if (join.last_call < Duration{}) return impossible_time("last_call_ms", join.last_call);
  // The numbers of the next rounds must be greater, and must not wrap to 0.
  if (join.after.value > bounds::round_number_max) return outside("after", join.after.value);
  return std::nullopt;
}

std::string unknown_round_of(const link::Join& join) {
  return fmt::format(
      "all workers of {} exited with 0 in round {}, which this master does not know: this is a "
      "different master, or the job has ended and its record was removed",
      join.host, join.after.value);
}

std::string seat_taken_text(const JobTerms& terms, const Member& holder, const link::Join& join) {
  return fmt::format(
      "node rank {} is taken by {} (pid {}), but {} (pid {}) has the same; give each node its own "
      "--node-rank, from 0 to {}",
      *join.node_rank, holder.join.host, holder.join.pid, join.host, join.pid, terms.nodes_max - 1);
}

std::optional<std::string> join_check(const JobTerms& terms, const Round& round, Duration lease,
                                      const link::Join& join) {
  if (join.after != RoundNumber{} && !join.idle) {
    // Its workers may be alive while other nodes have their ranks: it must not join as it is.
    return fmt::format(
        "{} tries to resume round {}, which this coordinator does not run; either the node was "
        "declared lost (silent for {} s), or it reached another master",
        join.host, join.after.value, in_seconds(lease));
  }
  if (join.done && join.after.value > round.number().value) return unknown_round_of(join);
  if (auto reason = disagreement(terms, join)) return reason;
  // A node that assumed a longer lease would still compute when another node has its ranks.
  if (join.lease != Duration{} &&
      join.lease != std::chrono::floor<std::chrono::milliseconds>(lease)) {
    return fmt::format(
        "this job declares a node lost after {} s, but {} has {} s (keep_alive_interval times "
        "keep_alive_max_attempt of --rdzv-conf); use the same values on every node",
        in_seconds(lease), join.host, in_seconds(join.lease));
  }
  if (join.node_rank) {
    // The holder may be dead without that being known yet. A node started in its place waits here
    // until that is certain, and is not rejected. One such claimant is enough.
    if (const auto claimant = round.claimant_of(*join.node_rank)) {
      return seat_taken_text(terms, *round.find(*claimant), join);
    }
    const Member* holder = round.holder_of(*join.node_rank);
    if (holder != nullptr && holder->local) return seat_taken_text(terms, *holder, join);
  }
  return std::nullopt;
}

}  // namespace cpprun

#include "rendezvous/reception.h"

#include <fmt/format.h>

namespace cpprun {

std::optional<std::string> objection(const JobTerms& terms, const Round& round, Duration lease,
                                     const link::Join& join) {
  if (join.after != RoundNumber{} && !join.idle) {
    // Its workers may be alive, and others have their ranks by now: it must not come in as it is.
    return fmt::format(
        "round {}, of which {} still is, does not go on here: either this node was silent "
        "for {} s and was given up, or this is another master",
        join.after.value, join.host, std::chrono::duration<double>(lease).count());
  }
  if (auto reason = disagreement(terms, join)) return reason;
  if (join.node_rank) {
    if (const Member* holder = round.holder_of(*join.node_rank)) {
      return fmt::format(
          "node rank {} is taken by {} (pid {}); {} (pid {}) asked for it too: give each node its "
          "own --node_rank, from 0 to {}",
          *join.node_rank, holder->join.host, holder->join.pid, join.host, join.pid,
          terms.nodes_max - 1);
    }
  }
  return std::nullopt;
}

}  // namespace cpprun

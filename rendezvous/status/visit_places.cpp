// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/visit_places.h"

#include <map>
#include <tuple>

namespace cpprun {

std::optional<std::size_t> who_gives_way(const std::vector<VisitPlace>& taken, Standing newcomer) {
  std::map<std::string, std::size_t> strangers;
  for (const VisitPlace& each : taken) {
    if (each.standing == Standing::stranger) ++strangers[each.source];
  }
  // The least in regard, of the most that came from one place, and the longest there.
  const auto rank = [&](const VisitPlace& each) {
    const std::size_t crowd = each.standing == Standing::stranger ? strangers[each.source] : 0;
    return std::tuple(each.standing, taken.size() - crowd, each.since);
  };
  std::optional<std::size_t> first;
  for (std::size_t at = 0; at < taken.size(); ++at) {
    const VisitPlace& each = taken[at];
    const bool is_below = each.standing < newcomer || each.standing == Standing::stranger;
    if (!is_below && (each.standing > newcomer || !each.is_idle)) continue;
    if (!first || rank(each) < rank(taken[*first])) first = at;
  }
  return first;
}

}  // namespace cpprun

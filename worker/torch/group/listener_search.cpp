// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/listener_search.h"

#include <algorithm>

namespace cpprun {

namespace {

// A look at whoever answers at once, on this machine or beside it.
constexpr Duration attempt_min = std::chrono::milliseconds(1);

}  // namespace

std::string search_listener(const ListenerSearch& search, TimePoint deadline) {
  std::string why;
  while (true) {
    const auto addresses = search.resolve();
    if (!addresses) why = addresses.error().reason;
    for (std::size_t each = 0; addresses && each < *addresses; ++each) {
      // The last of several addresses has to have its turn as well: one that swallows what is sent
      // to it takes half of what is left, and no more.
      const TimePoint now = search.now();
      why = search.reach(each, now + std::max<Duration>((deadline - now) / 2, attempt_min));
      if (why.empty()) return why;
    }
    if (search.now() >= deadline) return why;
    search.pause(deadline);
  }
}

}  // namespace cpprun

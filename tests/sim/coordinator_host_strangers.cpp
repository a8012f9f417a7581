// SPDX-License-Identifier: BSD-3-Clause
// Messages of unidentified clients and of an operator to a simulated coordinator.

#include <utility>

#include "proto/link/codec.h"
#include "tests/sim/coordinator_host.h"

namespace cpprun::sim {

LinkId CoordinatorHost::unidentified_comes(const std::string& address) {
  const LinkId link{++universe_.last_link.value};
  unidentified_connections_.insert(link);
  unidentified_addresses_.insert(address);
  program_.receive([this, link, address] {
    tell(Coordinator::Opened{{.link = link, .peer = address, .local = false}});
  });
  return link;
}

// An invalid frame ends the link, as in LinkChannel.
void CoordinatorHost::unidentified_says(LinkId link, const std::string& bytes) {
  if (!unidentified_connections_.contains(link)) return;
  program_.receive([this, link, bytes] {
    if (!unidentified_connections_.contains(link)) return;
    const auto decoded = link::decode(bytes);
    if (decoded && *decoded) {
      tell(Coordinator::Said{link, (*decoded)->message});
      judge_unidentified();
    } else {
      unidentified_leaves(link, false);
    }
  });
}

void CoordinatorHost::unidentified_leaves(LinkId link, bool broken) {
  if (unidentified_connections_.erase(link) == 0) return;
  program_.receive([this, link, broken] { tell(Coordinator::Closed{link, "it went", broken}); });
}

void CoordinatorHost::take(OperatorCommand command) {
  program_.receive([this, command = std::move(command)] {
    tell(Coordinator::Ordered{0, command});
  });
}

}  // namespace cpprun::sim

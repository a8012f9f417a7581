// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/io/worker_admission.h"

#include <fmt/format.h>
#include <unistd.h>

namespace cpprun {

Result<void> admit_worker(const SocketPair& pair) {
  const auto owner = owner_of_peer(pair);
  if (!owner) return failure("whose it is cannot be told: " + owner.error().reason);
  const auto own = static_cast<std::uint32_t>(::geteuid());
  // Root may look into our memory, too.
  if (*owner == own || *owner == 0) return {};
  return failure(fmt::format(
      "it is of user {}, and the store of this node is for the workers of user {}", *owner, own));
}

}  // namespace cpprun

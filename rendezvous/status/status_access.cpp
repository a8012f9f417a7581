// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/status_access.h"

#include <fmt/format.h>

namespace cpprun {

namespace {

constexpr std::uint32_t root = 0;

}  // namespace

std::optional<StatusAccess> status_access(std::string_view name) {
  if (name == "none") return StatusAccess::none;
  if (name == "user") return StatusAccess::user;
  if (name == "host") return StatusAccess::host;
  if (name == "network") return StatusAccess::network;
  return std::nullopt;
}

bool asks_whose(StatusAccess access, bool by_loopback) {
  return access == StatusAccess::user && by_loopback;
}

Result<void> may_look(StatusAccess access, const Visitor& visitor, std::uint32_t own_user) {
  if (access == StatusAccess::none) return failure("nothing is shown here (--status-access=none)");
  if (access == StatusAccess::network || visitor.credential) return {};
  if (!visitor.by_loopback) {
    return failure(
        "only this machine may look: ask over its loopback address, for instance through ssh -L, "
        "or start with --status-access=network");
  }
  if (access == StatusAccess::host) return {};
  if (!visitor.user) {
    return failure(fmt::format(
        "only the user that runs this may look, and whose connection this is cannot be known: {}; "
        "--status-access=host lets everybody on this machine look",
        visitor.user.error().reason));
  }
  if (*visitor.user == own_user || *visitor.user == root) return {};
  return failure(fmt::format(
      "only the user that runs this (uid {}) may look, and this is a connection of uid {}; "
      "--status-access=host lets everybody on this machine look",
      own_user, *visitor.user));
}

Result<void> may_order(const Visitor& visitor, std::uint32_t own_user) {
  if (visitor.credential) {
    if (visitor.credential->may_order) return {};
    return failure("that token lets its holder look, and ask for nothing: make one with --order");
  }
  if (!visitor.by_loopback) {
    return failure(
        "only this machine may ask for that, whatever --status-access says: ask over its loopback "
        "address, for instance through ssh -L");
  }
  if (!visitor.user) {
    return failure(fmt::format(
        "only the user that runs this may ask for that, and whose connection this is cannot be "
        "known: {}",
        visitor.user.error().reason));
  }
  if (*visitor.user == own_user || *visitor.user == root) return {};
  return failure(fmt::format(
      "only the user that runs this (uid {}) and root may ask for that, whatever --status-access "
      "says, and this is a connection of uid {}",
      own_user, *visitor.user));
}

}  // namespace cpprun

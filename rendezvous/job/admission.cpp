// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/admission.h"

#include <algorithm>

namespace cpprun {

namespace {

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

}  // namespace

void Admission::follow(const Round& round) {
  admitted_.clear();
  admits_loopback_ = false;
  for (const auto& [link, each] : round.members()) {
    const Member& member = *each;
    if (member.state == Member::State::waiting) continue;
    const auto& further = member.further_peers;
    const bool is_here = member.local || is_loopback(member.peer) ||
                         std::any_of(further.begin(), further.end(), is_loopback);
    if (is_here) admits_loopback_ = true;
    admitted_.insert(member.peer);
    admitted_.insert(member.further_peers.begin(), member.further_peers.end());
    // Of itself the coordinator's own process tells the truth.
    if (!member.local) continue;
    admitted_.insert(member.join.addresses.begin(), member.join.addresses.end());
  }
}

Result<void> Admission::check(const std::string& address) const {
  if (is_loopback(address) ? admits_loopback_ : admitted_.contains(address)) return {};
  return failure(
      "no node of the round that runs reaches its master from that address: give every node the "
      "same address of the master, as a number");
}

}  // namespace cpprun

#include "rendezvous/job/admission.h"

namespace cpprun {

namespace {

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

}  // namespace

void Admission::follow(const Round& round) {
  admitted_.clear();
  admits_loopback_ = false;
  for (const auto& [link, member] : round.members()) {
    if (member.state == Member::State::waiting) continue;
    if (member.local || is_loopback(member.peer)) admits_loopback_ = true;
    admitted_.insert(member.peer);
    // Of itself the coordinator's own process tells the truth.
    if (!member.local) continue;
    admitted_.insert(member.join.addresses.begin(), member.join.addresses.end());
  }
}

Result<void> Admission::check(const std::string& address) const {
  if (is_loopback(address) ? admits_loopback_ : admitted_.contains(address)) return {};
  return failure(
      "no node of the round that runs has its link from that address: where the master's name has "
      "several addresses, give every node the same one, as a number");
}

}  // namespace cpprun

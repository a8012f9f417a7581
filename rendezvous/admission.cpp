#include "rendezvous/admission.h"

namespace cpprun {

namespace {

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

}  // namespace

void Admission::follow(const Round& round) {
  admitted_.clear();
  for (const auto& [link, member] : round.members()) {
    if (member.state == Member::State::waiting) continue;
    admitted_.insert(member.peer);
    admitted_.insert(member.join.addresses.begin(), member.join.addresses.end());
  }
}

Result<void> Admission::check(const std::string& address) const {
  if (is_loopback(address) || admitted_.contains(address)) return {};
  return failure("no node of this job has that address");
}

}  // namespace cpprun

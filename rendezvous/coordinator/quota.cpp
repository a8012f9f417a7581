// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/quota.h"

#include <arpa/inet.h>

#include "rendezvous/peer_address.h"

namespace cpprun {

std::string source_of(const std::string& address) {
  PeerAddress parsed;
  if (::inet_pton(AF_INET6, address.c_str(), parsed.ip.data()) != 1) return address;
  return parsed.source_text();
}

bool Quota::take(const std::string& address) {
  if (taken(address) >= most_) return false;
  ++taken_[source_of(address)];
  return true;
}

void Quota::give_back(const std::string& address) {
  const auto found = taken_.find(source_of(address));
  if (found != taken_.end() && --found->second == 0) taken_.erase(found);
}

std::size_t Quota::taken(const std::string& address) const {
  const auto found = taken_.find(source_of(address));
  return found == taken_.end() ? 0 : found->second;
}

}  // namespace cpprun

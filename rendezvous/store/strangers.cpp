// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/strangers.h"

#include <algorithm>

namespace cpprun {
namespace {

// The line is tidied when it is longer than this and than twice the connections there are.
constexpr std::size_t line_length_min = 64;

Session* still_silent(SessionTable& table, ConnectionId id) {
  Session* const session = table.find(id);
  return session != nullptr && session->speaks == Speaks::unknown_yet ? session : nullptr;
}

}  // namespace

void Strangers::add(ConnectionId id, SessionTable& table) {
  line_.push_back(id);
  if (line_.size() <= std::max(line_length_min, 2 * table.size())) return;
  std::erase_if(line_, [&](ConnectionId each) { return still_silent(table, each) == nullptr; });
}

Session* Strangers::longest_silent(SessionTable& table, ConnectionId newest) {
  while (!line_.empty()) {
    if (line_.front() == newest) return nullptr;
    if (Session* const silent = still_silent(table, line_.front())) return silent;
    line_.pop_front();
  }
  return nullptr;
}

Session* Strangers::longest_silent_of(SessionTable& table, const PeerAddress& source) const {
  for (const ConnectionId each : line_) {
    Session* const silent = still_silent(table, each);
    if (silent != nullptr && silent->peer.source() == source) return silent;
  }
  return nullptr;
}

}  // namespace cpprun

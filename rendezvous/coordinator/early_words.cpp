// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/early_words.h"

#include <utility>

#include "proto/standby_bounds.h"

namespace cpprun {

bool EarlyWords::keep(LinkId link, const link::Message& message) {
  const auto found = words_.find(link);
  if (found == words_.end() || std::holds_alternative<link::Heartbeat>(message)) return true;
  if (found->second.size() >= bounds::early_words_max) return false;
  found->second.push_back(message);
  return true;
}

std::vector<link::Message> EarlyWords::take(LinkId link) {
  auto taken = words_.extract(link);
  return taken.empty() ? std::vector<link::Message>() : std::move(taken.mapped());
}

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/early_words.h"

#include <utility>

#include "proto/bounds.h"
#include "proto/link/codec.h"

namespace cpprun {

bool EarlyWords::keep(LinkId link, const link::Message& message) {
  const auto found = words_.find(link);
  if (found == words_.end() || std::holds_alternative<link::Heartbeat>(message)) return true;
  Kept& kept = found->second;
  const std::size_t bytes = link::encode(message).size();
  if (kept.messages.size() >= bounds::early_words_max) return false;
  if (bytes_ + bytes > bounds::early_bytes_max) return false;
  kept.messages.push_back(message);
  kept.bytes += bytes;
  bytes_ += bytes;
  return true;
}

std::vector<link::Message> EarlyWords::take(LinkId link) {
  auto taken = words_.extract(link);
  if (taken.empty()) return {};
  bytes_ -= taken.mapped().bytes;
  return std::move(taken.mapped().messages);
}

}  // namespace cpprun

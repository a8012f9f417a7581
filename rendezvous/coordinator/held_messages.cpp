// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/held_messages.h"

#include <algorithm>
#include <utility>

#include "proto/link/codec.h"
#include "rendezvous/coordinator/bounds.h"

namespace cpprun {

namespace {

// The link to which this action reports how its job ended, if it does.
std::optional<LinkId> ended_for(const coordinator::Action& action) {
  const auto* const say = std::get_if<coordinator::Say>(&action);
  if (say == nullptr || !std::holds_alternative<link::Finish>(say->message)) return std::nullopt;
  return say->link;
}

}  // namespace

bool CommitQueue::is_awaited(const Numbers& numbers) const {
  for (std::size_t at = 0; at < numbers.size(); ++at) {
    if (numbers[at] > kept_[at]) return true;
  }
  return false;
}

void CommitQueue::wait_for(CommitSource source, std::uint64_t number) {
  std::uint64_t& awaited = awaited_[static_cast<std::size_t>(source)];
  awaited = std::max(awaited, number);
}

bool CommitQueue::hold(Word word) {
  if (!holds()) return false;
  held_.push_back({awaited_, std::move(word)});
  return true;
}

bool CommitQueue::hold(const coordinator::Action& action) {
  if (!holds()) return false;
  if (const auto link = ended_for(action)) ends_.insert(*link);
  return hold(Word{action});
}

bool CommitQueue::hold(LinkId link, std::string_view frame) {
  if (!holds()) return false;
  bytes_[link] += frame.size();
  return hold(Word{Frame{link, std::string(frame)}});
}

void CommitQueue::kept(CommitSource source, std::uint64_t through) {
  std::uint64_t& kept = kept_[static_cast<std::size_t>(source)];
  kept = std::max(kept, through);
}

std::optional<CommitQueue::Word> CommitQueue::next() {
  if (held_.empty() || is_awaited(held_.front().numbers)) return std::nullopt;
  Word word = std::move(held_.front().word);
  held_.pop_front();
  if (const auto* const frame = std::get_if<Frame>(&word)) {
    const auto bytes = bytes_.find(frame->link);
    bytes->second -= frame->bytes.size();
    if (bytes->second == 0) bytes_.erase(bytes);
  } else if (const auto link = ended_for(std::get<coordinator::Action>(word))) {
    ends_.erase(*link);
  }
  return word;
}

std::size_t CommitQueue::bytes_for(LinkId link) const {
  const auto found = bytes_.find(link);
  return found == bytes_.end() ? 0 : found->second;
}

std::vector<coordinator::Answered> CommitQueue::drop_all() {
  std::vector<coordinator::Answered> orders;
  for (Held& held : held_) {
    auto* const action = std::get_if<coordinator::Action>(&held.word);
    auto* const answered = action == nullptr ? nullptr : std::get_if<coordinator::Answered>(action);
    if (answered != nullptr) orders.push_back(std::move(*answered));
  }
  held_.clear();
  bytes_.clear();
  ends_.clear();
  awaited_ = kept_;
  return orders;
}

bool PendingMessages::keep(LinkId link, const link::Message& message) {
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

std::vector<link::Message> PendingMessages::take(LinkId link) {
  auto taken = words_.extract(link);
  if (taken.empty()) return {};
  bytes_ -= taken.mapped().bytes;
  return std::move(taken.mapped().messages);
}

}  // namespace cpprun

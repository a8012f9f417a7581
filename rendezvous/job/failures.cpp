// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/failures.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <tuple>
#include <utility>

#include "proto/bounds.h"

namespace cpprun {

namespace {

auto place(const Failures::Entry& entry) {
  return std::tuple{entry.failure.consequence, entry.late,    entry.at,          !entry.lost,
                    entry.failure.group_rank,  entry.noticed, entry.failure.rank};
}

// Causes of a worker that lost a peer or never met it (launcher/failure/causes.cpp).
constexpr std::array<std::string_view, 4> lost_a_peer = {"peer_gone", "peer_silent", "store_gone",
                                                         "peer_missing"};

// Clocks of two nodes are known to a few milliseconds, and a process takes some to be reaped.
constexpr Duration clocks_differ_max = std::chrono::milliseconds(50);

}  // namespace

void Failures::add(Entry entry) {
  const bool known = std::any_of(entries_.begin(), entries_.end(), [&](const Entry& each) {
    return each.failure.rank == entry.failure.rank && each.lost == entry.lost;
  });
  if (known) return;
  ++count_;
  const auto by_place = [](const Entry& a, const Entry& b) { return place(a) < place(b); };
  entries_.insert(std::upper_bound(entries_.begin(), entries_.end(), entry, by_place),
                  std::move(entry));
  // The first cause is among those kept: whoever is dropped comes after all of them.
  if (entries_.size() > bounds::consequences_max + 1) entries_.pop_back();
  judge_leaver();
}

void Failures::add_leaver(Entry leaver) {
  if (!leaver_ || leaver.at < leaver_->at) leaver_ = std::move(leaver);
  judge_leaver();
}

// The moment of the failure stays that of the first bad end: until then the others computed.
void Failures::judge_leaver() {
  blamed_.reset();
  if (!leaver_ || empty()) return;
  const Entry& first = entries_.front();
  const bool is_missed = std::ranges::find(lost_a_peer, first.failure.cause) != lost_a_peer.end();
  if (!is_missed || first.lost || leaver_->at > first.at + clocks_differ_max) return;
  blamed_ = leaver_;
  blamed_->at = first.at;
  blamed_->failure.status = first.failure.status;
  blamed_->failure.consequence = false;
}

const Failures::Entry* Failures::root() const {
  if (blamed_) return &*blamed_;
  return empty() ? nullptr : &entries_.front();
}

void Failures::realign(GroupRank node,
                       const std::function<std::optional<TimePoint>(link::AgentTime)>& at) {
  for (Entry& each : entries_) {
    if (each.failure.group_rank != node || each.noticed == link::AgentTime{}) continue;
    if (const auto moment = at(each.noticed)) each.at = std::min(*moment, each.heard);
  }
  std::ranges::sort(entries_, {}, place);
  if (leaver_ && leaver_->failure.group_rank == node) {
    if (const auto moment = at(leaver_->noticed)) leaver_->at = std::min(*moment, leaver_->heard);
  }
  judge_leaver();
}

void Failures::drop_ends_after(TimePoint moment) {
  count_ -= std::erase_if(entries_,
                          [moment](const Entry& each) { return !each.lost && each.at > moment; });
  // Those that were counted and not kept came after all that were.
  if (entries_.size() <= bounds::consequences_max) count_ = entries_.size();
  judge_leaver();
}

std::vector<link::Consequence> Failures::consequences() const {
  std::vector<const Entry*> others;
  for (std::size_t i = blamed_ ? 0 : 1; i < entries_.size(); ++i) others.push_back(&entries_[i]);
  std::stable_sort(others.begin(), others.end(),
                   [](const Entry* a, const Entry* b) { return a->at < b->at; });
  std::vector<link::Consequence> found;
  for (const Entry* each : others) {
    found.push_back({.rank = each->failure.rank,
                     .group_rank = each->failure.group_rank,
                     .status = each->failure.status});
  }
  return found;
}

}  // namespace cpprun

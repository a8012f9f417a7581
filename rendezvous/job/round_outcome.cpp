// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/round_outcome.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <tuple>
#include <utility>

#include "proto/link/bounds.h"
#include "proto/text.h"
#include "rendezvous/job/bounds.h"

namespace cpprun {

namespace {

auto place(const Failures::Entry& entry) {
  return std::tuple{entry.failure.consequence, entry.late,    entry.at,          !entry.lost,
                    entry.failure.group_rank,  entry.noticed, entry.failure.rank};
}

// Causes of a worker that lost a peer or never met it (launcher/failure/causes.cpp).
constexpr std::array<std::string_view, 4> lost_a_peer = {"peer_gone", "peer_silent", "store_gone",
                                                         "peer_missing"};

// The clocks of two nodes are known to a few milliseconds, and reaping a process takes a few more.
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
  // The first cause is among the kept entries: a dropped entry comes after all of them.
  if (entries_.size() > bounds::consequences_max + 1) entries_.pop_back();
  judge_leaver();
}

void Failures::add_leaver(Entry leaver) {
  if (!leaver_ || leaver.at < leaver_->at) leaver_ = std::move(leaver);
  judge_leaver();
}

// The failure keeps the time of the first bad end: until then the other workers computed.
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
  // Entries that were counted but not kept came after all kept ones.
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

void RoundEnd::come_to(const link::Reached& far) {
  reached.step = std::max(reached.step, far.step);
  reached.checkpoint_step = std::max(reached.checkpoint_step, far.checkpoint_step);
}

void RoundEnd::polite_since(TimePoint asked, const std::string& why) {
  at = std::min(at, asked);
  const bool had_failed = !failures.empty();
  failures.drop_ends_after(asked);
  if (had_failed && failures.empty()) reason = why;
}

link::Finish finish_of(const RoundEnd& round_end) {
  const Failures::Entry* root = round_end.failures.root();
  if (root == nullptr || (round_end.stop && round_end.failures.all_follow())) {
    const bool by_signal = round_end.stop && round_end.stop->signal != 0;
    return {.exit_code = by_signal ? 128 + round_end.stop->signal : 1, .reason = round_end.reason};
  }
  // Whatever a node reports about its worker: a job that has failed never exits with 0.
  const int code = link::exit_code_of(root->failure.status);
  return {.exit_code = code == 0 ? 1 : code,
          .reason = root->what,
          .root = root->failure,
          .consequences = round_end.failures.consequences(),
          .consequence_count = static_cast<int>(round_end.failures.consequence_count())};
}

namespace {

void count(std::map<std::string, std::size_t>& counts, const std::string& cause) {
  std::string key = cause.empty() ? "unknown" : cause;
  // Agents report the cause: they must not make us keep more names than there are causes.
  if (!counts.contains(key) && counts.size() >= bounds::causes_counted_max) key = "other";
  ++counts[key];
}

}  // namespace

void tell_end(RoundRecord& record, const RoundEnd& end) {
  record.reason = plain_line(end.reason, bounds::later_message_bytes_max);
  const Failures::Entry* const root = end.failures.root();
  if (root == nullptr) return;
  record.root = root->failure;
  std::string& message = record.root->message;
  if (message.size() > bounds::history_message_bytes_max) {
    message = plain_line(message, bounds::history_message_bytes_max);
  }
  record.consequences = end.failures.consequences();
  if (record.consequences.size() > bounds::consequences_brief_max) {
    record.consequences.resize(bounds::consequences_brief_max);
  }
  record.consequence_count = end.failures.consequence_count();
}

void RoundHistory::sealed(TimePoint now, RoundNumber round, int restart) {
  RoundRecord record{.round = round, .restart = restart, .began = now};
  if (kept_.first.size() < bounds::first_rounds_kept_max && kept_.last.empty()) {
    kept_.first.push_back(std::move(record));
    return;
  }
  kept_.last.push_back(std::move(record));
  if (kept_.last.size() <= bounds::last_rounds_kept_max) return;
  kept_.last.pop_front();
  ++kept_.left_out;
}

void RoundHistory::worker_restarted(const std::string& cause) {
  RoundRecord& record = kept_.last.empty() ? kept_.first.back() : kept_.last.back();
  ++record.worker_restarts;
  count(kept_.failures, cause);
  count(kept_.restarts, cause);
}

void RoundHistory::closed(TimePoint now, const RoundEnd& end, bool restarted) {
  if (kept_.first.empty()) return;  // the job ended before its first round
  RoundRecord& record = kept_.last.empty() ? kept_.first.back() : kept_.last.back();
  if (record.ended) return;
  tell_end(record, end);
  record.ended = now;
  if (record.root) count(kept_.failures, record.root->cause);
  if (restarted) count(kept_.restarts, record.root ? record.root->cause : "");
}

// Called for each node of a new round, about the round before: searches the newest first.
const link::Failure* RoundHistory::root_of(RoundNumber round) const {
  const auto find_in = [round](const auto& records) -> const RoundRecord* {
    const auto found = std::find_if(records.rbegin(), records.rend(),
                                    [round](const auto& each) { return each.round == round; });
    return found == records.rend() ? nullptr : &*found;
  };
  const RoundRecord* record = find_in(kept_.last);
  if (record == nullptr) record = find_in(kept_.first);
  return record != nullptr && record->root ? &*record->root : nullptr;
}

std::vector<RoundRecord> RoundHistory::list() const {
  std::vector<RoundRecord> all = kept_.first;
  all.insert(all.end(), kept_.last.begin(), kept_.last.end());
  return all;
}

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/round_history.h"

#include <algorithm>
#include <utility>

#include "proto/bounds.h"
#include "proto/text.h"

namespace cpprun {

namespace {

void count(std::map<std::string, std::size_t>& counts, const std::string& cause) {
  std::string key = cause.empty() ? "unknown" : cause;
  // Agents say what the cause is: nobody shall make us keep more names than there are causes.
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

void RoundHistory::closed(TimePoint now, const RoundEnd& end, bool restarted) {
  if (kept_.first.empty()) return;  // it ends before there was a round
  RoundRecord& record = kept_.last.empty() ? kept_.first.back() : kept_.last.back();
  if (record.ended) return;
  tell_end(record, end);
  record.ended = now;
  if (record.root) count(kept_.failures, record.root->cause);
  if (restarted) count(kept_.restarts, record.root ? record.root->cause : "");
}

// Asked for each node of a new round, about the round before: the newest are looked at first.
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

// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/job/time_ledger.h"

#include <algorithm>
#include <utility>

#include "proto/bounds.h"

namespace cpprun {

namespace {

NodeDuration whole(Duration time) {
  return std::chrono::floor<NodeDuration>(time);
}

NodeDuration reading(TimePoint now) {
  return whole(now.time_since_epoch());
}

constexpr std::size_t index(Account account) {
  return static_cast<std::size_t>(account);
}

}  // namespace

void TimeLedger::book(TimePoint now) {
  const NodeDuration passed = reading(now) - until_.value_or(reading(now));
  if (passed < NodeDuration{}) return;
  until_ = reading(now);
  for (std::size_t i = 0; i < account_count; ++i) {
    if (nodes_[i] == 0) continue;
    const NodeDuration time = passed * static_cast<NodeDuration::rep>(nodes_[i]);
    const auto account = static_cast<Account>(i);
    if (account == Account::training) round_training_ += time;
    if (account == Account::starting) round_starting_ += time;
    if (account == Account::training || account == Account::standing_by) {
      kept_[i] += time;
    } else if (broken_) {
      (*broken_)[i] += time;
    } else {
      lost_[current_].time[i] += time;
    }
  }
}

void TimeLedger::place(TimePoint now, const Nodes& nodes) {
  if (nodes == nodes_) return;
  if (!began_) began_ = reading(now);
  book(now);
  nodes_ = nodes;
}

void TimeLedger::sealed(TimePoint now) {
  book(now);
  round_training_ = {};
  round_starting_ = {};
  unsaved_.clear();
  trains_ = false;
}

void TimeLedger::unsaved(Duration time) {
  unsaved_.push_back(whole(time));
}

void TimeLedger::broken(TimePoint now) {
  book(now);
  broken_.emplace();
  nodes_at_break_ = nodes_[index(Account::training)] + nodes_[index(Account::starting)];
}

// At most so much of what the round has booked there is taken away again.
NodeDuration TimeLedger::take(Account from, NodeDuration most) {
  const bool is_training = from == Account::training;
  NodeDuration& of_round = is_training ? round_training_ : round_starting_;
  NodeDuration& booked = is_training ? of(kept_, from) : of(lost_[current_].time, from);
  const NodeDuration taken = std::clamp(most, NodeDuration{}, std::min(of_round, booked));
  of_round -= taken;
  booked -= taken;
  return taken;
}

void TimeLedger::settled(TimePoint now, const Cause& cause) {
  book(now);
  NodeTime time = std::exchange(broken_, std::nullopt).value_or(NodeTime{});
  // What went on before the word came was not training, whatever it looked like.
  const NodeDuration unnoticed = whole(cause.unnoticed);
  const NodeDuration in_vain = unnoticed * static_cast<NodeDuration::rep>(nodes_at_break_);
  const NodeDuration found = take(Account::training, in_vain);
  of(time, Account::detecting) += found + take(Account::starting, in_vain - found);
  for (const NodeDuration unsaved : unsaved_) {
    if (!cause.failed) break;
    // The last of it is booked already, as the time until the failure was noticed.
    of(time, Account::redoing) += take(Account::training, unsaved - unnoticed);
  }
  unsaved_.clear();
  LostTime& lost = entry(cause.id, cause.host);
  for (std::size_t i = 0; i < account_count; ++i) lost.time[i] += time[i];
  current_ = static_cast<std::size_t>(&lost - lost_.data());
}

LostTime& TimeLedger::entry(const std::string& id, const std::string& host) {
  const auto of_id = [this](const std::string& wanted) {
    return std::ranges::find(lost_, wanted, &LostTime::cause);
  };
  auto found = of_id(id);
  // Agents say what the cause is: nobody shall make us keep more names than there are causes.
  const bool is_full = lost_.size() >= bounds::causes_counted_max;
  if (found == lost_.end() && is_full) found = of_id("other");
  if (found == lost_.end()) {
    lost_.push_back({.cause = is_full ? "other" : id, .host = host});
    found = std::prev(lost_.end());
  }
  if (found->host != host) found->host.clear();
  ++found->count;
  return *found;
}

void TimeLedger::has_worked(TimePoint now) {
  book(now);
  if (trains_) return;
  const NodeDuration unheard = take(Account::starting, round_starting_);
  of(kept_, Account::training) += unheard;
  round_training_ += unheard;
}

TimeUse TimeLedger::told(TimePoint now) const {
  TimeLedger until_now = *this;
  until_now.book(now);
  const bool anybody = std::ranges::any_of(nodes_, [](std::size_t count) { return count > 0; });
  const NodeDuration until = anybody ? *until_now.until_ : until_.value_or(NodeDuration{});
  TimeUse use{.wall = began_ ? until - *began_ : NodeDuration{}, .nodes = until_now.kept_};
  for (const LostTime& each : until_now.lost_) {
    for (std::size_t i = 0; i < account_count; ++i) use.nodes[i] += each.time[i];
    if (each.count > 0 || sum_of(each.time) > NodeDuration{}) use.lost.push_back(each);
  }
  if (until_now.broken_) {
    for (std::size_t i = 0; i < account_count; ++i) use.nodes[i] += (*until_now.broken_)[i];
  }
  return use;
}

std::optional<std::string> TimeLedger::check() const {
  const auto is_negative = [](NodeDuration time) { return time < NodeDuration{}; };
  if (std::ranges::any_of(kept_, is_negative)) return "an account has less than no time";
  for (const LostTime& each : lost_) {
    if (std::ranges::any_of(each.time, is_negative)) return "a cause has taken less than no time";
  }
  return std::nullopt;
}

}  // namespace cpprun

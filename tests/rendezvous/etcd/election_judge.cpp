// SPDX-License-Identifier: BSD-3-Clause
#include "tests/rendezvous/etcd/election_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rendezvous/etcd/election_view.h"

namespace cpprun::test {

using namespace std::chrono_literals;

void ElectionJudge::object(TimePoint now, std::string what) {
  if (objection_.empty()) {
    objection_ = fmt::format("at {:.3f} s: {}", in_seconds(now.time_since_epoch()), what);
  }
}

std::optional<int> ElectionJudge::leader(TimePoint now) const {
  for (const auto& [who, leading] : leading_) {
    if (now < leading.until) return who;
  }
  return std::nullopt;
}

// `who` has just won.
void ElectionJudge::check_won(TimePoint now, int who) {
  for (const auto& [other, leading] : leading_) {
    if (other == who || now >= leading.until) continue;
    object(now, fmt::format("{} wins epoch {}, and {} leads with {} for another {:.3f} s", who,
                            epoch_, other, leading.epoch, in_seconds(leading.until - now)));
  }
}

// `who` has just received the end of its lease.
void ElectionJudge::check_right(TimePoint now, int who) {
  const Leading& leading = leading_[who];
  if (leading.epoch == epoch_ || leading.until <= won_at_) return;
  object(now, fmt::format("{} leads with epoch {} for {:.3f} s after {} has won {}", who,
                          leading.epoch, in_seconds(leading.until - won_at_), winner_, epoch_));
}

void ElectionJudge::received(TimePoint now, int who, const election::Action& action,
                             TimePoint until) {
  if (const auto* const leads = std::get_if<election::Leads>(&action)) {
    if (leads->epoch <= received_epoch_) {
      object(now, fmt::format("epoch {} comes after {}", leads->epoch, received_epoch_));
    }
    received_epoch_ = leads->epoch;
    ++leaders_;
    leading_[who] = {until, leads->epoch};
    complete_ = {names_[who]};
    may_have_begun_.reset();
    check_right(now, who);
  } else if (std::holds_alternative<election::Renewed>(action)) {
    if (!leading_.contains(who)) return object(now, fmt::format("{} is renewed idly", who));
    leading_[who].until = until;
    check_right(now, who);
  } else if (std::holds_alternative<election::Deposed>(action)) {
    if (leading_.erase(who) == 0) object(now, fmt::format("{} is deposed twice", who));
  } else if (const auto* const found = std::get_if<election::Found>(&action)) {
    check_found(now, *found);
  } else if (const auto* const written = std::get_if<election::Written>(&action)) {
    // Commands before the last written one no longer matter.
    for (auto& [name, kept] : kept_) {
      auto& commands = kept.commands;
      const auto after = std::ranges::find_if(
          commands, [&](const auto& command) { return command.first > written->through; });
      if (after - commands.begin() > 1) commands.erase(commands.begin(), after - 1);
    }
  }
}

void ElectionJudge::commands(int who, const election::Event& event) {
  if (who != winner_) return;
  if (const auto* const keep = std::get_if<election::Keep>(&event)) {
    auto& commands = kept_[keep->name].commands;
    if (commands.empty()) commands.emplace_back(0, std::nullopt);
    commands.emplace_back(keep->number, keep->record);
  } else if (const auto* const drop = std::get_if<election::Drop>(&event)) {
    auto& commands = kept_[drop->name].commands;
    if (commands.empty()) commands.emplace_back(0, std::nullopt);
    commands.emplace_back(drop->number, std::nullopt);
  }
}

void ElectionJudge::check_found(TimePoint now, const election::Found& found) {
  auto records = found.records;
  for (auto& [name, kept] : kept_) {
    const auto there = records.find(name);
    const auto stands = there == records.end() ? std::nullopt : std::optional(there->second);
    const bool is_possible = std::ranges::any_of(
        kept.commands, [&](const auto& command) { return command.second == stands; });
    if (!is_possible) {
      object(now, fmt::format("of \"{}\" the next leader finds {}, but {} was written", name,
                              stands.value_or("nothing"),
                              kept.commands.front().second.value_or("nothing")));
    }
    kept.commands = {{0, stands}};
    records.erase(name);
  }
  if (!records.empty()) {
    object(now, fmt::format("\"{}\" is found, but was never written", records.begin()->first));
  }
  if (std::ranges::count(may_be_found_, found.synced) == 0) {
    object(now, "the list of synced programs is not the published one");
  }
}

void ElectionJudge::ended(int who) {
  leading_.erase(who);
}

void ElectionJudge::awake(TimePoint now, int who) {
  const auto leading = leading_.find(who);
  if (leading != leading_.end() && now > leading->second.until + 1ms) {
    object(now, fmt::format("{} leads on though its time is over", who));
  }
}

void ElectionJudge::decided(TimePoint now, int who, const etcd::Transaction& transaction,
                            const etcd::Decided& decided) {
  if (!decided.succeeded) return;
  bool is_win = false;
  for (const auto& each : transaction.compares) {
    is_win = is_win || (each.key == keys_.leader() && each.revision == 0);
  }
  for (const auto& each : transaction.success) {
    const auto* const put = std::get_if<etcd::Put>(&each);
    const auto* const gone = std::get_if<etcd::Delete>(&each);
    if (put == nullptr && gone == nullptr) continue;
    if (put != nullptr && put->key == keys_.leader() && is_win) {
      epoch_ = decided.header.revision;
      winner_ = who;
      won_at_ = now;
      check_won(now, who);
      may_be_found_ = {complete_};
      if (may_have_begun_) may_be_found_.push_back(*may_have_begun_);
    } else if (who != winner_) {
      object(now, fmt::format("{} changes \"{}\" after {} has won epoch {}", who,
                              put != nullptr ? put->key : gone->key, winner_, epoch_));
    }
    if (put != nullptr && put->key == keys_.synced()) {
      const auto synced = read_synced(put->value);
      if (!synced || synced->before) continue;
      if (received_epoch_ == epoch_ || synced->is_vacant) {
        complete_ = synced->names;
        may_have_begun_.reset();
      } else {
        may_have_begun_ = synced->names;
      }
    }
  }
}

}  // namespace cpprun::test

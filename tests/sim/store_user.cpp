// SPDX-License-Identifier: BSD-3-Clause
#include "tests/sim/store_user.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "proto/c10d/codec.h"

namespace cpprun::sim {

using namespace std::chrono_literals;
using Kind = StoreOperation::Kind;

namespace {

constexpr Duration wait_max = 4s;  // before it gives up a wait

// Every round has the same keys, so that a request that reaches another round's store shows.
constexpr const char* counter_key = "counter";
constexpr const char* text_key = "text";
constexpr const char* log_key = "log";
constexpr const char* queue_key = "queue";

template <class Each>
void with_request(const std::string& key, const StoreOperation& operation, Each each) {
  const c10d::Bytes one[] = {key};
  switch (operation.kind) {
    case Kind::set:
      return each(c10d::Set{key, operation.value});
    case Kind::get:
      return each(c10d::Get{key});
    case Kind::add:
      return each(c10d::Add{key, operation.delta});
    case Kind::compare_set:
      return each(c10d::CompareSet{key, operation.expected, operation.value});
    case Kind::append:
      return each(c10d::Append{key, operation.value});
    case Kind::wait:
      return each(c10d::Wait{one});
    case Kind::check:
      return each(c10d::Check{one});
    case Kind::erase:
      return each(c10d::DeleteKey{key});
    case Kind::push:
      return each(c10d::QueuePush{key, operation.value});
    case Kind::pop:
      return each(c10d::QueuePop{key});
    case Kind::length:
      return each(c10d::QueueLen{key});
  }
}

Kind pick(Random& random, std::initializer_list<std::pair<Kind, int>> shares) {
  int sum = 0;
  for (const auto& [kind, share] : shares) sum += share;
  int roll = random.between(1, sum);
  for (const auto& [kind, share] : shares) {
    if (roll <= share) return kind;
    roll -= share;
  }
  return Kind::get;
}

}  // namespace

StoreUser::StoreUser(Universe& universe, Self self, Random random, Hooks hooks)
    : universe_(universe), self_(self), random_(random), hooks_(std::move(hooks)) {}

void StoreUser::later(Duration delay, void (StoreUser::*what)()) {
  universe_.time.later(delay, [weak = weak_from_this(), what] {
    const auto self = weak.lock();
    if (self && self->is_alive_) (*self.*what)();
  });
}

// --- its life ------------------------------------------------------------------------------------

void StoreUser::begin() {
  left_to_do_ = random_.between(2, universe_.scenario.stores->requests_max);
  later(random_.up_to(20ms), &StoreUser::connect);
  later(random_.up_to(20ms), &StoreUser::act);
}

void StoreUser::end() {
  is_alive_ = false;
  if (connection_) std::exchange(connection_, nullptr)->leave();
}

void StoreUser::connect() {
  connection_ = hooks_.connect();
  if (!connection_) return;
  number_ = universe_.stores.new_connection();
  const std::weak_ptr<StoreUser> weak = weak_from_this();
  connection_->heard = [weak](std::string_view bytes) {
    if (const auto self = weak.lock()) self->hear(bytes);
  };
  connection_->ended = [weak] {
    if (const auto self = weak.lock()) self->lost();
  };
  c10d::encode(c10d::Validate{}, c10d::Dialect::d, to_say_);
}

void StoreUser::lost() {
  connection_.reset();
  pending_.clear();
  answers_due_ = 0;
  ++waits_;
  to_say_.clear();
  heard_.clear();
  if (connections_left_-- > 0) later(random_.up_to(300ms), &StoreUser::connect);
}

// Mostly in bursts, and some at other times.
void StoreUser::act() {
  if (left_to_do_ == 0 && answers_due_ == 0) return;
  if (connection_ && answers_due_ == 0 && left_to_do_ > 0) {
    --left_to_do_;
    ask_some();
  } else {
    look_for_silence();
  }
  const auto job = static_cast<std::size_t>(self_.job);
  const Duration most = universe_.scenario.jobs[job].work_max / 8;
  later(1ms + random_.up_to(random_.chance(0.5) ? Duration{20ms} : most), &StoreUser::act);
}

// --- requests ------------------------------------------------------------------------------------

void StoreUser::ask_some() {
  for (int left = random_.between(1, 4); left > 0; --left) {
    const int roll = random_.between(1, 10);
    ask_of(roll <= 3 ? counter_key : roll <= 6 ? text_key : roll <= 8 ? log_key : queue_key);
    // A waiting worker sends nothing else.
    if (pending_.back().expected.kind == c10d::ReplyKind::waited) break;
  }
  connection_->say(std::exchange(to_say_, {}));
}

void StoreUser::ask_of(const std::string& key) {
  StoreOperation operation{.client = number_};
  if (key == counter_key) {
    operation.kind = pick(
        random_,
        {{Kind::add, 55}, {Kind::get, 20}, {Kind::check, 10}, {Kind::wait, 12}, {Kind::erase, 3}});
    operation.delta = random_.between(0, 3);
  } else if (key == text_key) {
    operation.kind = pick(random_, {{Kind::set, 30},
                                    {Kind::get, 25},
                                    {Kind::compare_set, 20},
                                    {Kind::erase, 10},
                                    {Kind::check, 8},
                                    {Kind::wait, 7}});
    operation.value = value();
    if (random_.chance(0.8)) operation.expected = last_seen_;
  } else if (key == log_key) {
    operation.kind =
        pick(random_, {{Kind::append, 60}, {Kind::get, 30}, {Kind::check, 5}, {Kind::wait, 5}});
    operation.value = fmt::format("{}.{} ", self_.rank.value, asked_);
  } else {
    operation.kind = pick(random_, {{Kind::push, 45}, {Kind::pop, 40}, {Kind::length, 15}});
    operation.value = value();
  }
  ask(key, std::move(operation));
}

// Unique in all rounds.
std::string StoreUser::value() {
  std::string unique =
      fmt::format("{}.{}.{}.{}", self_.round.number.value, self_.round.store_port, number_, asked_);
  if (random_.chance(0.1)) {
    const auto most = static_cast<int>(universe_.scenario.stores->value_bytes_max);
    unique.append(static_cast<std::size_t>(random_.between(0, most)), '.');
  }
  return unique;
}

void StoreUser::ask(const std::string& key, StoreOperation operation) {
  ++asked_;
  Pending pending{.asked = {}, .key = key};
  with_request(key, operation, [&](const c10d::Request& request) {
    c10d::encode(request, c10d::Dialect::d, to_say_);
    pending.expected = c10d::expected_of(request);
  });
  if (operation.kind == Kind::wait) {
    universe_.time.later(random_.up_to(wait_max), [weak = weak_from_this(), which = ++waits_] {
      const auto self = weak.lock();
      if (self && self->is_alive_ && self->waits_ == which) self->give_up_waiting();
    });
  }
  pending.asked = universe_.stores.ask(self_.job, self_.round, key, std::move(operation));
  if (pending.expected.kind != c10d::ReplyKind::none) ++answers_due_;
  pending_.push_back(std::move(pending));
}

void StoreUser::give_up_waiting() {
  if (!connection_) return;
  c10d::encode(c10d::CancelWait{}, c10d::Dialect::d, to_say_);
  pending_.push_back({.asked = {}, .expected = {.kind = c10d::ReplyKind::waited}});
  ++answers_due_;
  connection_->say(std::exchange(to_say_, {}));
}

// --- replies -------------------------------------------------------------------------------------

void StoreUser::hear(std::string_view bytes) {
  heard_ += bytes;
  while (!heard_.empty() && hear_one()) continue;
}

bool StoreUser::hear_one() {
  while (!pending_.empty() && pending_.front().expected.kind == c10d::ReplyKind::none) {
    universe_.stores.carried_out(*pending_.front().asked);
    pending_.pop_front();
  }
  const auto who = [this] {
    return fmt::format("rank {} of round {} on node {}", self_.rank.value, self_.round.number.value,
                       self_.node);
  };
  if (pending_.empty()) {
    universe_.judge.must(false, who() + " receives a reply without a request");
    return false;
  }
  const auto decoded = decoder_.decode(heard_, pending_.front().expected);
  if (std::holds_alternative<c10d::NeedMoreReply>(decoded)) return false;
  const auto* complete = std::get_if<c10d::CompleteReply>(&decoded);
  if (complete == nullptr) {
    universe_.judge.must(false, who() + " receives a reply that answers no request");
    heard_.clear();
    return false;
  }
  take(complete->reply);
  heard_.erase(0, complete->size);
  return true;
}

void StoreUser::take(const c10d::Reply& reply) {
  const Pending pending = std::move(pending_.front());
  pending_.pop_front();
  --answers_due_;
  std::string told;
  std::int64_t number = 0;
  if (const auto* value = std::get_if<c10d::Value>(&reply)) {
    told = value->value;
    if (pending.key == text_key) last_seen_ = told;
  } else if (const auto* sum = std::get_if<c10d::Number>(&reply)) {
    number = sum->number;
  } else if (const auto* checked = std::get_if<c10d::Checked>(&reply)) {
    number = checked->ready ? 1 : 0;
  } else if (const auto* popped = std::get_if<c10d::Popped>(&reply)) {
    number = popped->length_before;
    if (number > 0) told = popped->value;
  } else if (const auto* waited = std::get_if<c10d::Waited>(&reply)) {
    ++waits_;
    if (waited->cancelled) {
      // A cancelled wait has no reply of its own.
      const bool was_wait = pending.asked.has_value();
      const bool was_given_up = !was_wait || (!pending_.empty() && !pending_.front().asked);
      universe_.judge.must(was_given_up, "a wait is cancelled that was not given up");
      if (was_wait && was_given_up) {
        pending_.pop_front();
        --answers_due_;
      }
      return;
    }
    universe_.judge.must(pending.asked.has_value(), "a wait ends well when it was given up");
  }
  if (pending.asked) universe_.stores.answered(*pending.asked, std::move(told), number);
}

// If nothing is in flight, nothing will arrive: a pending request would wait forever.
void StoreUser::look_for_silence() {
  if (!connection_ || answers_due_ == 0 || !connection_->is_still()) return;
  const auto first = std::find_if(pending_.begin(), pending_.end(), [](const Pending& each) {
    return each.expected.kind != c10d::ReplyKind::none;
  });
  const bool waits_for_key = first->asked && first->expected.kind == c10d::ReplyKind::waited;
  if (waits_for_key && first + 1 == pending_.end() &&
      !universe_.stores.is_there(self_.job, self_.round, first->key)) {
    return;
  }
  universe_.judge.must(!hooks_.is_calm(self_.round),
                       fmt::format("rank {} of round {} on node {} waits for an answer of its "
                                   "store, and nothing is under way",
                                   self_.rank.value, self_.round.number.value, self_.node));
}

}  // namespace cpprun::sim

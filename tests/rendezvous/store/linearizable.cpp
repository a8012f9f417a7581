// SPDX-License-Identifier: BSD-3-Clause
#include "tests/rendezvous/store/linearizable.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace cpprun {

namespace {

using Kind = StoreOperation::Kind;

constexpr std::size_t steps_max = 4'000'000;
constexpr std::size_t no_operation = static_cast<std::size_t>(-1);
constexpr int at_end_client = -1;
constexpr char end_of_entry = '\n';  // of a queue, whose entries are kept in one text

const char* name_of(Kind kind) {
  constexpr std::array names = {"SET",   "GET",    "ADD",  "COMPARE_SET", "APPEND", "WAIT",
                                "CHECK", "DELETE", "PUSH", "POP",         "LENGTH"};
  return names.at(static_cast<std::size_t>(kind));
}

std::optional<std::int64_t> number_in(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc{} && end == text.data() + text.size();
  return is_number ? std::optional(number) : std::nullopt;
}

std::int64_t length_of(const std::string& queue) {
  return std::count(queue.begin(), queue.end(), end_of_entry);
}

// The key's value after that operation if it was this before; nullopt if the operation would then
// have had another result.
std::optional<std::string> after(const std::string& before, const StoreOperation& operation) {
  const auto matches = [&](bool is_so) { return is_so || !operation.is_answered; };
  const auto if_matches = [&](bool is_so, std::string state) {
    return matches(is_so) ? std::optional(std::move(state)) : std::nullopt;
  };
  switch (operation.kind) {
    case Kind::set:
      return operation.value;
    case Kind::get:
      return if_matches(operation.told == before, before);
    case Kind::add: {
      const auto number = before.empty() ? 0 : number_in(before);
      if (!number) return std::nullopt;
      return if_matches(operation.number == *number + operation.delta,
                        std::to_string(*number + operation.delta));
    }
    case Kind::compare_set:
      if (before.empty() && !operation.expected.empty()) {
        return if_matches(operation.told == operation.expected, before);
      }
      if (before != operation.expected) return if_matches(operation.told == before, before);
      return if_matches(operation.told == operation.value, operation.value);
    case Kind::append:
      return before + operation.value;
    case Kind::wait:
      return if_matches(!before.empty(), before);
    case Kind::check:
      return if_matches((operation.number != 0) == !before.empty(), before);
    case Kind::erase:
      return if_matches((operation.number != 0) == !before.empty(), "");
    case Kind::push:
      return before + operation.value + end_of_entry;
    case Kind::pop: {
      const std::size_t end = before.find(end_of_entry);
      if (end == std::string::npos) return if_matches(operation.number == 0, before);
      return if_matches(
          operation.number == length_of(before) && operation.told == before.substr(0, end),
          before.substr(end + 1));
    }
    case Kind::length:
      return if_matches(operation.number == length_of(before), before);
  }
  return std::nullopt;
}

// What is known of a queue before any search: which client received which entry. The entry that was
// received first was pushed first, which leaves few orders of entries that were pushed
// concurrently.
class Takings {
 public:
  // An entry that no client received is like any other: its identity does not matter from here on.
  explicit Takings(std::vector<StoreOperation>& history) {
    for (const StoreOperation& each : history) {
      if (each.kind != Kind::pop) continue;
      if (!each.is_answered) {
        ++unknown_pops_;
      } else if (each.number > 0) {
        pops_.insert({each.told, {.began = each.began, .ended = *each.ended}});
      }
    }
    for (std::size_t at = 0; at < history.size(); ++at) {
      if (history[at].kind != Kind::push) continue;
      const auto pop = pops_.find(history[at].value);
      if (pop == pops_.end()) {
        history[at].value = std::string(1, nameless);
      } else {
        pop->second.push = at;
      }
    }
  }

  // Whether that can be the next push, after all of these.
  template <class IsDone>
  bool may_follow(const std::string& queue, const std::string& value, IsDone is_done) const {
    const auto own = pops_.find(value);
    const bool has_name = own != pops_.end();
    for (const auto& [entry, taken] : pops_) {
      const bool is_first = has_name ? taken.ended < own->second.began : unknown_pops_ == 0;
      if (is_first && taken.push != no_operation && !is_done(taken.push)) return false;
    }
    if (!has_name) return true;
    std::int64_t unknown_pops = 0;
    for (std::size_t from = 0; from < queue.size();) {
      const std::size_t end = queue.find(end_of_entry, from);
      const auto taken = pops_.find(queue.substr(from, end - from));
      from = end + 1;
      if (taken == pops_.end() && ++unknown_pops > unknown_pops_) return false;
      if (taken != pops_.end() && own->second.ended < taken->second.began) return false;
    }
    return true;
  }

 private:
  struct Taken {
    std::uint64_t began = 0;
    std::uint64_t ended = 0;
    std::size_t push = no_operation;  // the operation that pushed it
  };
  static constexpr char nameless = '?';
  std::unordered_map<std::string, Taken> pops_;  // by entry
  std::int64_t unknown_pops_ = 0;                // pops whose result is unknown
};

class Search {
 public:
  Search(std::vector<StoreOperation> history, const std::string* log)
      : takings_(history), history_(std::move(history)), log_(log) {
    for (std::size_t at = 0; at < history_.size(); ++at) note(at);
    std::sort(marks_.begin(), marks_.end(),
              [](const Mark& a, const Mark& b) { return a.moment < b.moment; });
    next_.resize(marks_.size() + 1);
    before_.resize(marks_.size() + 1);
    for (std::size_t at = 0; at <= marks_.size(); ++at) {
      next_[at] = at + 1;
      before_[at] = at == 0 ? marks_.size() : at - 1;
    }
    next_[marks_.size()] = 0;  // the slot behind the last is before the first
    done_.resize((history_.size() + 63) / 64);
  }

  std::string objection() {
    std::size_t at = next_[marks_.size()];
    while (ended_left_ > 0) {
      if (++steps_ > steps_max) return "there are too many orders of it to try them all";
      if (!marks_[at].is_end) {
        if (take(at)) {
          at = next_[marks_.size()];
        } else {
          at = next_[at];
        }
        continue;
      }
      // It has ended, and there was no place for it before.
      if (deepest_ <= taken_.size()) {
        deepest_ = taken_.size();
        stuck_ = marks_[at].operation;
      }
      if (taken_.empty()) return why();
      at = next_[put_back()];
    }
    return {};
  }

 private:
  struct Mark {
    std::uint64_t moment = 0;
    std::size_t operation = 0;
    bool is_end = false;
  };
  struct Taken {
    std::size_t mark = 0;
    std::string state;  // before it
  };

  void note(std::size_t at) {
    marks_.push_back({history_[at].began, at, false});
    if (history_[at].ended) {
      marks_.push_back({*history_[at].ended, at, true});
      ++ended_left_;
    }
    const auto same = [&](std::size_t other) {
      return history_[other].client == history_[at].client;
    };
    std::size_t earlier = at;
    while (earlier > 0 && !same(earlier - 1)) --earlier;
    earlier_.push_back(earlier == 0 ? no_operation : earlier - 1);
  }

  bool is_done(std::size_t operation) const {
    return (done_[operation / 64] >> (operation % 64) & 1) != 0;
  }

  // True if it can have been the next and that state was not tried before.
  bool take(std::size_t mark) {
    const std::size_t operation = marks_[mark].operation;
    const std::size_t earlier = earlier_[operation];
    if (earlier != no_operation && !is_done(earlier)) return false;
    const StoreOperation& asked = history_[operation];
    const auto is_pushed = [this](std::size_t push) { return is_done(push); };
    if (asked.kind == Kind::push && !takings_.may_follow(state_, asked.value, is_pushed)) {
      return false;
    }
    auto state = after(state_, asked);
    if (!state) return false;
    // In an append-only log, every earlier state is a prefix of the final one.
    if (log_ != nullptr && !log_->starts_with(*state)) return false;
    done_[operation / 64] ^= std::uint64_t{1} << (operation % 64);
    if (!tried_.insert(key_of(*state)).second) {
      done_[operation / 64] ^= std::uint64_t{1} << (operation % 64);
      return false;
    }
    taken_.push_back({mark, std::exchange(state_, *std::move(state))});
    lift(mark);
    if (history_[operation].ended) {
      --ended_left_;
      lift(end_of(operation));
    }
    return true;
  }

  std::size_t put_back() {
    const Taken last = std::move(taken_.back());
    taken_.pop_back();
    const std::size_t operation = marks_[last.mark].operation;
    state_ = last.state;
    done_[operation / 64] ^= std::uint64_t{1} << (operation % 64);
    if (history_[operation].ended) {
      ++ended_left_;
      put_down(end_of(operation));
    }
    put_down(last.mark);
    return last.mark;
  }

  std::size_t end_of(std::size_t operation) const {
    const auto found = std::lower_bound(
        marks_.begin(), marks_.end(), *history_[operation].ended,
        [](const Mark& mark, std::uint64_t moment) { return mark.moment < moment; });
    return static_cast<std::size_t>(found - marks_.begin());
  }

  void lift(std::size_t mark) {
    next_[before_[mark]] = next_[mark];
    before_[next_[mark]] = before_[mark];
  }
  void put_down(std::size_t mark) {
    next_[before_[mark]] = mark;
    before_[next_[mark]] = mark;
  }

  std::string key_of(const std::string& state) const {
    std::string key(reinterpret_cast<const char*>(done_.data()), done_.size() * sizeof(done_[0]));
    return key + state;
  }

  std::string why() const {
    const StoreOperation& operation = history_[stuck_];
    const std::string what = operation.client == at_end_client
                                 ? "it is in the end"
                                 : fmt::format("{} of connection {} returned",
                                               name_of(operation.kind), operation.client);
    return fmt::format("nothing explains what {}: \"{}\", {}", what, operation.told,
                       operation.number);
  }

  const Takings takings_;
  const std::vector<StoreOperation> history_;
  const std::string* log_;
  std::vector<std::size_t> earlier_;  // of the same connection, by operation
  std::vector<Mark> marks_;           // starts and ends of operations, in order
  std::vector<std::size_t> next_;     // the remaining marks, as a ring
  std::vector<std::size_t> before_;
  std::vector<std::uint64_t> done_;
  std::size_t ended_left_ = 0;
  std::string state_;
  std::vector<Taken> taken_;
  std::unordered_set<std::string> tried_;
  std::size_t steps_ = 0;
  std::size_t deepest_ = 0;
  std::size_t stuck_ = 0;
};

bool is_of_queue(const StoreOperation& operation) {
  return operation.kind == Kind::push || operation.kind == Kind::pop ||
         operation.kind == Kind::length;
}

bool leaves_a_log(const StoreOperation& operation) {
  return operation.kind == Kind::append || operation.kind == Kind::get ||
         operation.kind == Kind::wait || operation.kind == Kind::check;
}

}  // namespace

std::string objection_to(std::span<const StoreOperation> history,
                         const std::optional<KeyAtEnd>& at_end) {
  std::vector<StoreOperation> all(history.begin(), history.end());
  std::sort(all.begin(), all.end(),
            [](const StoreOperation& a, const StoreOperation& b) { return a.began < b.began; });
  const bool is_log = at_end && std::all_of(all.begin(), all.end(), leaves_a_log);
  if (at_end) {
    const bool is_queue = std::any_of(all.begin(), all.end(), is_of_queue);
    all.push_back({.kind = is_queue ? Kind::length : Kind::get,
                   .client = at_end_client,
                   .began = UINT64_MAX - 1,
                   .ended = UINT64_MAX,
                   .is_answered = true,
                   .told = at_end->value,
                   .number = at_end->length});
  }
  return Search(std::move(all), is_log ? &at_end->value : nullptr).objection();
}

}  // namespace cpprun

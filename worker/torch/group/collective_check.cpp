// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/collective_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <numeric>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "worker/env/bounds.h"
#include "worker/torch/group/distributed_error.h"

namespace cpprun {

namespace {

struct Camp {
  std::string call;
  std::vector<int> ranks;
};

// Sorted by first rank.
std::vector<Camp> camps_of(const std::vector<std::optional<Call>>& calls) {
  std::vector<Camp> camps;
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    if (!calls[rank]) continue;
    auto camp = std::find_if(camps.begin(), camps.end(), [&calls, rank](const Camp& each) {
      return each.call == calls[rank]->text;
    });
    if (camp == camps.end()) camp = camps.insert(camps.end(), Camp{calls[rank]->text, {}});
    camp->ranks.push_back(static_cast<int>(rank));
  }
  return camps;
}

std::string name_camps(const std::vector<Camp>& camps) {
  std::string text;
  for (const Camp& camp : camps) {
    text += fmt::format("{}{} {} {}", text.empty() ? "" : "; ", name_ranks(camp.ranks),
                        camp.ranks.size() == 1 ? "calls" : "call", camp.call);
  }
  return text;
}

std::vector<std::optional<std::int64_t>> steps_of(const std::vector<std::optional<Call>>& calls) {
  std::vector<std::optional<std::int64_t>> steps;
  for (const auto& call : calls) steps.push_back(call ? std::optional(call->steps) : std::nullopt);
  return steps;
}

std::vector<int> all_ranks(std::size_t count) {
  std::vector<int> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

std::string name_ranks(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

std::optional<std::string> disagreement(std::int64_t number,
                                        const std::vector<std::optional<Call>>& calls) {
  const auto camps = camps_of(calls);
  if (camps.size() < 2) return std::nullopt;
  return fmt::format("the ranks disagree about collective {}: {}{}", number, name_camps(camps),
                     short_of_steps(steps_of(calls), all_ranks(calls.size())));
}

std::string absence(std::int64_t number, const std::vector<std::optional<Call>>& calls,
                    std::chrono::milliseconds waited) {
  std::vector<int> absent;
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    if (!calls[rank]) absent.push_back(static_cast<int>(rank));
  }
  const auto camps = camps_of(calls);
  return fmt::format("{} did not reach collective {} within {:.3g} s{}", name_ranks(absent), number,
                     std::chrono::duration<double>(waited).count(),
                     camps.empty() ? "" : "; " + name_camps(camps));
}

std::string parted(const std::vector<std::optional<Call>>& calls, const std::vector<int>& ranks) {
  std::vector<std::optional<Call>> kinds = calls;
  for (auto& kind : kinds) {
    if (kind)
      kind->text = fmt::format("{} {}", kind->steps, kind->text.substr(0, kind->text.find('(')));
  }
  if (camps_of(kinds).size() < 2) return {};
  auto camps = camps_of(calls);
  for (Camp& camp : camps) {
    for (int& rank : camp.ranks) rank = ranks[static_cast<std::size_t>(rank)];
  }
  return "the ranks wait in different calls: " + name_camps(camps) +
         short_of_steps(steps_of(calls), ranks);
}

std::optional<std::string> model_difference(const std::vector<std::string>& models) {
  std::vector<std::istringstream> readers(models.begin(), models.end());
  while (true) {
    std::vector<std::optional<Call>> lines;
    bool ended = true;
    for (auto& reader : readers) {
      std::string line;
      const bool got = static_cast<bool>(std::getline(reader, line));
      ended = ended && !got;
      lines.push_back(Call{.text = got ? line : "no further tensor"});
    }
    if (ended) return std::nullopt;
    const auto camps = camps_of(lines);
    if (camps.size() < 2) continue;
    std::string text;
    for (const Camp& camp : camps) {
      text +=
          fmt::format("{}{} on {}", text.empty() ? "" : "; ", camp.call, name_ranks(camp.ranks));
    }
    return text;
  }
}

std::string short_of_steps(const std::vector<std::optional<std::int64_t>>& steps,
                           const std::vector<int>& ranks) {
  std::int64_t most = 0;
  for (const auto& each : steps) most = std::max(most, each.value_or(0));
  std::vector<int> behind;
  std::vector<std::int64_t> made;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i] || *steps[i] == most) continue;
    behind.push_back(ranks[i]);
    made.push_back(*steps[i]);
  }
  if (behind.empty()) return {};
  return fmt::format(
      "; {} {} behind in DistributedDataParallel, at step {} while others are at {}: {}",
      name_ranks(behind), behind.size() == 1 ? "is" : "are", fmt::join(made, ", "), most,
      uneven_advice);
}

namespace {

std::string call_key(std::int64_t number, int rank) {
  return fmt::format("call/{}/{}", number, rank);
}

std::string verdict_key(std::int64_t number) {
  return fmt::format("verdict/{}", number);
}

// A store may not hold an empty value, so agreement has a text.
constexpr const char* all_agree = "all agree";
constexpr const char* leaving = "nothing: it leaves the group";

// `12 all_reduce(sum, Float [4] on cpu)`
std::string to_text(const Call& call) {
  return fmt::format("{} {}", call.steps, call.text);
}

Call call_from(const std::string& text) {
  const std::size_t blank = text.find(' ');
  return {.text = text.substr(blank + 1), .steps = std::stoll(text.substr(0, blank))};
}

}  // namespace

CollectiveCheck::CollectiveCheck(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                                 std::chrono::milliseconds timeout)
    : store_(std::move(store)), rank_(rank), size_(size), timeout_(timeout) {}

CollectiveCheck::~CollectiveCheck() = default;

void CollectiveCheck::agree(const std::string& call, std::int64_t steps) {
  ++number_;
  store_->set(call_key(number_, rank_), to_text({.text = call, .steps = steps}));
  if (rank_ == 0) {
    const std::string verdict = judge();
    rule(verdict);
    if (verdict != all_agree) throw DistributedError(verdict);
    return;
  }
  std::string verdict;
  try {
    // Rank 0 may itself wait this long for another rank before it publishes the verdict.
    const std::vector<std::string> keys = {verdict_key(number_)};
    store_->wait(keys, timeout_ + bounds::worker_goodbye_wait_max);
    verdict = store_->get_to_str(verdict_key(number_));
  } catch (const std::exception&) {
    verdict = fmt::format(
        "rank 0 did not reach collective {} within {:.3g} s, while rank {} calls {}", number_,
        std::chrono::duration<double>(timeout_ + bounds::worker_goodbye_wait_max).count(), rank_,
        call);
  }
  if (verdict != all_agree) throw DistributedError(verdict);
}

void CollectiveCheck::leave(std::int64_t steps) {
  ++number_;
  store_->set(call_key(number_, rank_), to_text({.text = leaving, .steps = steps}));
  if (rank_ != 0) return;
  rule(fmt::format(
      "rank 0 left the group after {} collectives and {} DistributedDataParallel steps, "
      "while others continue: {}",
      number_ - 1, steps, uneven_advice));
}

void CollectiveCheck::rule(const std::string& verdict) {
  store_->set(verdict_key(number_), verdict);
  // Every rank that reached this collective has read the previous verdict.
  if (number_ > 1) store_->deleteKey(verdict_key(number_ - 1));
}

std::string CollectiveCheck::judge() {
  std::vector<std::string> keys;
  for (int rank = 0; rank < size_; ++rank) keys.push_back(call_key(number_, rank));
  std::vector<std::optional<Call>> calls;
  bool complete = true;
  try {
    store_->wait(keys, timeout_);
  } catch (const std::exception&) {
    complete = false;
  }
  for (const std::string& key : keys) {
    const bool came = complete || store_->check({key});
    calls.push_back(came ? std::optional(call_from(store_->get_to_str(key))) : std::nullopt);
    if (complete) store_->deleteKey(key);
  }
  return complete ? disagreement(number_, calls).value_or(all_agree)
                  : absence(number_, calls, timeout_);
}

}  // namespace cpprun

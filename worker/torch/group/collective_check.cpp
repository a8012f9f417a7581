// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/collective_check.h"

#include <fmt/format.h>

#include <optional>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "proto/bounds.h"
#include "worker/torch/group/agreement.h"
#include "worker/torch/group/distributed_error.h"

namespace cpprun {
namespace {

std::string call_key(std::int64_t number, int rank) {
  return fmt::format("call/{}/{}", number, rank);
}

std::string verdict_key(std::int64_t number) {
  return fmt::format("verdict/{}", number);
}

// A store may not hold an empty value, so agreement has a word.
constexpr const char* all_agree = "all agree";
constexpr const char* leaving = "nothing more: it leaves the group";

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
    // Rank 0 may wait as long as that for somebody else before it says so.
    const std::vector<std::string> keys = {verdict_key(number_)};
    store_->wait(keys, timeout_ + bounds::worker_goodbye_wait_max);
    verdict = store_->get_to_str(verdict_key(number_));
  } catch (const std::exception&) {
    verdict = fmt::format(
        "rank 0 did not come to collective {} within {:.3g} s, while rank {} calls {}", number_,
        std::chrono::duration<double>(timeout_ + bounds::worker_goodbye_wait_max).count(), rank_,
        call);
  }
  if (verdict != all_agree) throw DistributedError(verdict);
}

void CollectiveCheck::leave(std::int64_t steps) {
  ++number_;
  store_->set(call_key(number_, rank_), to_text({.text = leaving, .steps = steps}));
  if (rank_ != 0) return;
  rule(
      fmt::format("rank 0 has left the group, after {} collectives and {} steps of "
                  "DistributedDataParallel, while others go on: {}",
                  number_ - 1, steps, uneven_advice));
}

void CollectiveCheck::rule(const std::string& verdict) {
  store_->set(verdict_key(number_), verdict);
  // Everybody who came to this collective has read the verdict on the one before.
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

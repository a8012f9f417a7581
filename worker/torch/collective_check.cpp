#include "worker/torch/collective_check.h"

#include <fmt/format.h>

#include <optional>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "proto/bounds.h"
#include "worker/torch/agreement.h"
#include "worker/torch/distributed_error.h"

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

}  // namespace

CollectiveCheck::CollectiveCheck(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                                 std::chrono::milliseconds timeout)
    : store_(std::move(store)), rank_(rank), size_(size), timeout_(timeout) {}

CollectiveCheck::~CollectiveCheck() = default;

void CollectiveCheck::agree(const std::string& call) {
  ++number_;
  store_->set(call_key(number_, rank_), call);
  if (rank_ == 0) {
    const std::string verdict = judge();
    store_->set(verdict_key(number_), verdict);
    // Everybody who came to this collective has read the verdict on the one before.
    if (number_ > 1) store_->deleteKey(verdict_key(number_ - 1));
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

std::string CollectiveCheck::judge() {
  std::vector<std::string> keys;
  for (int rank = 0; rank < size_; ++rank) keys.push_back(call_key(number_, rank));
  try {
    store_->wait(keys, timeout_);
  } catch (const std::exception&) {
    std::vector<std::optional<std::string>> calls;
    for (const std::string& key : keys) {
      const bool came = store_->check({key});
      calls.push_back(came ? std::optional(store_->get_to_str(key)) : std::nullopt);
    }
    return absence(number_, calls, timeout_);
  }
  std::vector<std::string> calls;
  for (const std::string& key : keys) {
    calls.push_back(store_->get_to_str(key));
    store_->deleteKey(key);
  }
  return disagreement(number_, calls).value_or(all_agree);
}

}  // namespace cpprun

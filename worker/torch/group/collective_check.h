// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Error messages for ranks that compare their next collective. Does not depend on LibTorch: a call
// is a text such as `all_reduce(sum, Float [4, 3] on cpu)`.

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace c10d {
class Store;
}  // namespace c10d

namespace cpprun {

struct Call {
  std::string text;
  std::int64_t steps = 0;  // DistributedDataParallel steps that the rank has begun
};

// `calls`: one per rank. Absent if all have the same text.
std::optional<std::string> disagreement(std::int64_t number,
                                        const std::vector<std::optional<Call>>& calls);

// For when some ranks called nothing in time: their entries in `calls` are empty.
std::string absence(std::int64_t number, const std::vector<std::optional<Call>>& calls,
                    std::chrono::milliseconds waited);

// `calls`: what each rank waits in, absent if unknown; `ranks`: their names. A rank that has left
// the group has the text `has_left`. Returns a clause that names the ranks if they are in different
// steps or in operations of different kinds, because then no operation can end. Empty otherwise;
// for example, ranks at different buckets of one step still make progress.
inline constexpr const char* has_left = "nothing: it has left the group";
std::string parted(const std::vector<std::optional<Call>>& calls, const std::vector<int>& ranks);

// `models`: the model of each rank, one line for each tensor. Returns the first difference and
// which ranks have which value. Absent if all models are equal.
std::optional<std::string> model_difference(const std::vector<std::string>& models);

// `rank 3`, `ranks 0, 2`.
std::string name_ranks(const std::vector<int>& ranks);

// Advice for ranks with unequal numbers of steps.
inline constexpr const char* uneven_advice =
    "give every rank the same number of batches (DistributedSampler does), or use cpprun::Join "
    "(join.h; torch's Join in Python)";

// `steps`: DistributedDataParallel steps that each rank has begun, absent if unknown; `ranks`:
// their names. Returns a clause that names the ranks that ran out of batches first, with advice.
// Empty if all have begun equally many.
std::string short_of_steps(const std::vector<std::optional<std::int64_t>>& steps,
                           const std::vector<int>& ranks);

// The debug mode of the collectives. Before each collective, the ranks publish the call at their
// store, and each rank proceeds only if all calls are equal. So a mismatch is an error message on
// every rank instead of a hang, an abort or a wrong number.
//
// Rank 0 compares. A rank that leaves the group publishes a last call that equals no other.

class CollectiveCheck {
 public:
  // `store` must be for this check alone.
  CollectiveCheck(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                  std::chrono::milliseconds timeout);
  ~CollectiveCheck();
  CollectiveCheck(const CollectiveCheck&) = delete;
  CollectiveCheck& operator=(const CollectiveCheck&) = delete;

  // Returns when all ranks are about to make this call. Otherwise throws DistributedError, with the
  // same text on every rank. `steps`: DistributedDataParallel steps that this rank has begun; if
  // the ranks diverge, they show which ran out of batches.
  void agree(const std::string& call, std::int64_t steps);

  // This rank leaves the group. Ranks that continue fail at once instead of waiting for it.
  void leave(std::int64_t steps);

 private:
  std::string judge();
  void rule(const std::string& verdict);

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_ = 0;
  int size_ = 1;
  std::chrono::milliseconds timeout_;
  std::int64_t number_ = 0;  // of the current collective, counted from 1
};

}  // namespace cpprun

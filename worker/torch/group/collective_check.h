// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What ranks that compare their next collective find out about each other, in words. Knows no
// LibTorch: a call is a text such as `all_reduce(sum, Float [4, 3] on cpu)`.

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
  std::int64_t steps = 0;  // of DistributedDataParallel that the rank has begun
};

// `calls` has one per rank. Absent when all have the same text.
std::optional<std::string> disagreement(std::int64_t number,
                                        const std::vector<std::optional<Call>>& calls);

// Some ranks did not call anything in time: their place in `calls` is empty.
std::string absence(std::int64_t number, const std::vector<std::optional<Call>>& calls,
                    std::chrono::milliseconds waited);

// What ranks wait in, absent where that is not known, with their names in `ranks`; one that has
// left the group calls `has_left`. A clause that names them if they are in different steps or in
// operations of different kinds: then none of them ends. Empty if not, as where ranks are at
// different buckets of one step, which goes on.
inline constexpr const char* has_left = "nothing more: it has left the group";
std::string parted(const std::vector<std::optional<Call>>& calls, const std::vector<int>& ranks);

// Each rank's model, one line for each of its tensors: the first place where they differ, with the
// ranks that have it so. Absent if all are the same.
std::optional<std::string> model_difference(const std::vector<std::string>& models);

// `rank 3`, `ranks 0, 2`.
std::string name_ranks(const std::vector<int>& ranks);

// What to do about ranks with unequal numbers of steps. There is no Join for C++: it would have to
// know every collective of a step to answer in the place of a rank that has no batch.
inline constexpr const char* uneven_advice =
    "give every rank equally many batches (DistributedSampler does), or stop all with the first "
    "that has none left (all_reduce with ReduceOp::min whether each has one; in Python: Join)";

// How many steps of DistributedDataParallel each rank has begun, absent where that is not known;
// the ranks' names are in `ranks`. A clause that names who ran out of batches first and says what
// to do; empty when all have begun equally many.
std::string short_of_steps(const std::vector<std::optional<std::int64_t>>& steps,
                           const std::vector<int>& ranks);

// The debug mode of the collectives: before each of them the ranks tell each other at their store
// what they are about to call, and none goes on unless it is the same. A mismatch then is a
// sentence on every rank instead of a hang, an abort or a wrong number.
//
// Rank 0 judges. A rank that leaves the group makes a last call that agrees with no other.

class CollectiveCheck {
 public:
  // `store` is the group's own: nobody else writes there.
  CollectiveCheck(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                  std::chrono::milliseconds timeout);
  ~CollectiveCheck();
  CollectiveCheck(const CollectiveCheck&) = delete;
  CollectiveCheck& operator=(const CollectiveCheck&) = delete;

  // Returns when all ranks are about to make this call; throws DistributedError, on every rank with
  // the same words, when they are not. `steps` are those of DistributedDataParallel that this rank
  // has begun: when the ranks part, they tell who ran out of batches.
  void agree(const std::string& call, std::int64_t steps);

  // This rank leaves the group: whoever goes on is told at once, instead of waiting for it.
  void leave(std::int64_t steps);

 private:
  std::string judge();
  void rule(const std::string& verdict);

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_ = 0;
  int size_ = 1;
  std::chrono::milliseconds timeout_;
  std::int64_t number_ = 0;  // of the collective that is being agreed on, from one
};

}  // namespace cpprun

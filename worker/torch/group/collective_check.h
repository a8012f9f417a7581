// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The debug mode of the collectives: before each of them the ranks tell each other at their store
// what they are about to call, and none goes on unless it is the same. A mismatch then is a
// sentence on every rank instead of a hang, an abort or a wrong number.
//
// Rank 0 judges. A rank that leaves the group makes a last call that agrees with no other.

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace c10d {
class Store;
}  // namespace c10d

namespace cpprun {

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

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What makes a change in etcd one of this leader's: it happens only while the key "leader" is the
// one that it has won, and only after its change before. The second half is for changes of which
// nobody knows whether they have happened: they are asked for once more, word for word, and
// whichever comes first is the only one. Without it a change that was held up somewhere could undo
// a later one.

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/etcd/contest_keys.h"
#include "rendezvous/etcd/etcd_request.h"

namespace cpprun {

// The last change of the leader of that epoch: its key goes, and `synced` says that no right of it
// is left. Whenever it arrives, a later leader is not touched.
etcd::Transaction resignation(const ContestKeys& keys, etcd::Revision epoch, std::string synced);

class Fence {
 public:
  // In the transaction with which it wins: the first turn is its own.
  static etcd::Put first_turn(const ContestKeys& keys) { return {keys.turn(), "0"}; }

  Fence() = default;
  explicit Fence(etcd::Revision epoch) : epoch_(epoch), turn_changed_(epoch) {}

  etcd::Revision epoch() const { return epoch_; }
  // The next change. Only when the one before was judged to be done.
  etcd::Transaction guard(const ContestKeys& keys, std::vector<etcd::Operation> operations);

  enum class Verdict { done, lost };
  // What became of the change that was made last. Lost: somebody else leads.
  Verdict judge(const etcd::Decided& decided);

 private:
  std::string turn_text() const;

  etcd::Revision epoch_ = 0;
  etcd::Revision turn_changed_ = 0;  // by its last change
  std::uint64_t turn_ = 0;           // how many it has begun
};

}  // namespace cpprun

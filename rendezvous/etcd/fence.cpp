// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/fence.h"

#include <fmt/format.h>

#include <utility>

namespace cpprun {

etcd::Transaction resignation(const ContestKeys& keys, etcd::Revision epoch, std::string synced) {
  return {.compares = {{keys.leader(), etcd::Compare::Target::created, epoch}},
          .success = {etcd::Delete{keys.leader()}, etcd::Put{keys.synced(), std::move(synced)}}};
}

std::string Fence::turn_text() const {
  return fmt::format("{}/{}", epoch_, turn_);
}

etcd::Transaction Fence::guard(const ContestKeys& keys, std::vector<etcd::Operation> operations) {
  using Target = etcd::Compare::Target;
  ++turn_;
  operations.push_back(etcd::Put{keys.turn(), turn_text()});
  return {.compares = {{keys.leader(), Target::created, epoch_},
                       {keys.turn(), Target::changed, turn_changed_}},
          .success = std::move(operations),
          .otherwise = {etcd::Read{keys.leader()}, etcd::Read{keys.turn()}}};
}

Fence::Verdict Fence::judge(const etcd::Decided& decided) {
  if (decided.succeeded) {
    turn_changed_ = decided.header.revision;
    return Verdict::done;
  }
  // It has happened already, when it was asked for the first time.
  const auto& turn = decided.outcomes[1].pairs;
  if (!turn.empty() && turn.front().value == turn_text()) {
    turn_changed_ = turn.front().changed;
    return Verdict::done;
  }
  return Verdict::lost;
}

}  // namespace cpprun

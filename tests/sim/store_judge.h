// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The workers' requests to their jobs' stores, the replies, and the final content of the stores:
// for each round of each job a history of every key, which one store must be able to explain. A
// round is identified by its number and its master's port: see RoundId.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tests/rendezvous/store/linearizable.h"
#include "tests/sim/judge.h"

namespace cpprun::sim {

class StoreJudge {
 public:
  // One operation.
  class Asked {
   public:
    const StoreOperation& operation() const { return history_->at(at_); }

   private:
    friend class StoreJudge;
    std::vector<StoreOperation>* history_ = nullptr;
    std::size_t at_ = 0;
  };

  int new_connection() { return ++connections_; }
  // A worker of that round sends a request. `began` and the reply are filled in here.
  Asked ask(int job, RoundId round, const std::string& key, StoreOperation operation);
  // It is answered, with a value, a number, or both.
  void answered(const Asked& asked, std::string told, std::int64_t number);
  // It has no reply, but a later request was answered.
  void carried_out(const Asked& asked);
  // Records the current content of the keys that were requested.
  void look(int job, RoundId round, const std::function<KeyAtEnd(const std::string&)>& value_of);
  // Whether the key existed at the last look.
  bool is_there(int job, RoundId round, const std::string& key) const;

  std::uint64_t answers() const { return answers_; }
  // The first history that is impossible for one store.
  std::optional<std::string> objection() const;

 private:
  struct KeyHistory {
    std::vector<StoreOperation> operations;
    std::optional<KeyAtEnd> at_end;
  };
  using Round = std::tuple<int, RoundNumber, int>;  // job, number, port
  static Round round_key(int job, RoundId round) { return {job, round.number, round.store_port}; }

  std::map<Round, std::map<std::string, KeyHistory>> rounds_;
  int connections_ = 0;
  std::uint64_t moment_ = 0;
  std::uint64_t answers_ = 0;
};

}  // namespace cpprun::sim

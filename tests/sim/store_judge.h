// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What workers ask their jobs' stores, what they are told, and what is in the stores in the end:
// for each round of each job a history of every key, which one store must be able to explain. A
// round is known by its number and its master's port, as everywhere here: see RoundId.

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
  // A worker of that round asks. `began`, and what it will be told, are filled in here.
  Asked ask(int job, RoundId round, const std::string& key, StoreOperation operation);
  // It is answered, with a value, a number, or both.
  void answered(const Asked& asked, std::string told, std::int64_t number);
  // It is never answered, and something that was asked after it was.
  void carried_out(const Asked& asked);
  // What a key has now, as far as somebody has asked for it.
  void look(int job, RoundId round, const std::function<KeyAtEnd(const std::string&)>& value_of);
  // Whether there is anything at that key, as of the last look.
  bool is_there(int job, RoundId round, const std::string& key) const;

  std::uint64_t answers() const { return answers_; }
  // The first history that nobody can have made.
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

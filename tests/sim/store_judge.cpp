// SPDX-License-Identifier: BSD-3-Clause
#include "tests/sim/store_judge.h"

#include <fmt/format.h>

#include <utility>

namespace cpprun::sim {

StoreJudge::Asked StoreJudge::ask(int job, RoundId round, const std::string& key,
                                  StoreOperation operation) {
  operation.began = ++moment_;
  Asked asked;
  asked.history_ = &rounds_[round_key(job, round)][key].operations;
  asked.at_ = asked.history_->size();
  asked.history_->push_back(std::move(operation));
  return asked;
}

void StoreJudge::answered(const Asked& asked, std::string told, std::int64_t number) {
  StoreOperation& operation = asked.history_->at(asked.at_);
  operation.ended = ++moment_;
  operation.is_answered = true;
  operation.told = std::move(told);
  operation.number = number;
  ++answers_;
}

void StoreJudge::carried_out(const Asked& asked) {
  asked.history_->at(asked.at_).ended = ++moment_;
}

void StoreJudge::look(int job, RoundId round,
                      const std::function<KeyAtEnd(const std::string&)>& value_of) {
  const auto found = rounds_.find(round_key(job, round));
  if (found == rounds_.end()) return;
  for (auto& [key, history] : found->second) history.at_end = value_of(key);
}

bool StoreJudge::is_there(int job, RoundId round, const std::string& key) const {
  const auto found = rounds_.find(round_key(job, round));
  if (found == rounds_.end()) return false;
  const auto history = found->second.find(key);
  return history != found->second.end() && history->second.at_end &&
         !history->second.at_end->value.empty();
}

std::optional<std::string> StoreJudge::objection() const {
  for (const auto& [round, keys] : rounds_) {
    for (const auto& [key, history] : keys) {
      const std::string objection = objection_to(history.operations, history.at_end);
      if (objection.empty()) continue;
      return fmt::format("one store cannot have been all of key {} of round {} of job {}: {}", key,
                         std::get<1>(round).value, std::get<0>(round), objection);
    }
  }
  return std::nullopt;
}

}  // namespace cpprun::sim

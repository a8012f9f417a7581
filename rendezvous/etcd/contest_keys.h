// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Where in etcd one contest keeps what.

#include <optional>
#include <string>
#include <string_view>

#include "proto/result.h"

namespace cpprun {

class ContestKeys {
 public:
  // "/cpprun/name/", or with something else in front. Why it cannot be, as a clause.
  static Result<ContestKeys> make(std::string_view name, std::string_view before = "/cpprun/");

  const std::string& prefix() const { return prefix_; }
  std::string leader() const { return prefix_ + "leader"; }
  std::string synced() const { return prefix_ + "synced"; }
  std::string cluster() const { return prefix_ + "cluster"; }
  // Changes with every change of the leader's, so that one that is late is known as such.
  std::string turn() const { return prefix_ + "turn"; }
  std::string record(std::string_view name) const { return records() + std::string(name); }
  std::string records() const { return prefix_ + "jobs/"; }
  // Behind the last record.
  std::string records_end() const { return prefix_ + "jobs0"; }
  // Nothing: it is the key of something else.
  std::optional<std::string> name_of_record(std::string_view key) const;

 private:
  explicit ContestKeys(std::string prefix) : prefix_(std::move(prefix)) {}
  std::string prefix_;
};

}  // namespace cpprun

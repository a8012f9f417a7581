// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a cpprund in a cluster stores about itself in its --state directory, beside its jobs.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proto/result.h"

namespace cpprun {

struct SelfRecord {
  std::string life;          // id of this life (place.h)
  std::string boot = {};     // boot id of the machine; empty: unknown
  std::string set = {};      // name of the cluster (--cluster)
  std::string cluster = {};  // id of the cluster in etcd; empty: no etcd
  std::uint64_t epoch = 0;   // highest epoch it has seen
  bool has_all = false;      // the directory holds everything that it has sent to clients
  bool is_synced = false;    // and that state survives a power failure
  friend bool operator==(const SelfRecord&, const SelfRecord&) = default;
};

std::string self_record_bytes(const SelfRecord& record);
// Whether `bytes` are such a record at all. The error of read_self_record() completes the clause
// "the record …".
bool is_self_record(std::string_view bytes);
Result<SelfRecord> read_self_record(std::string_view bytes);

// Why a cpprund of cluster `set` must not use this state: a predicate that completes "DIRECTORY …"
// and includes a hint. nullopt: it may. `set` is empty without etcd: then there is no election.
std::optional<std::string> objection_to(const SelfRecord& found, std::string_view set);

// The life to resume, given the record found and the machine's current boot id. nullopt: a new life
// begins.
std::optional<std::string> life_that_goes_on(const SelfRecord& found, std::string_view boot);

}  // namespace cpprun

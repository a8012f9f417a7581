// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a cpprund that is one of several keeps of itself in its folder (--state), beside its jobs.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proto/result.h"

namespace cpprun {

struct SelfRecord {
  std::string life;          // which one of its lives that was (place.h)
  std::string boot = {};     // of the machine; empty: not known
  std::string set = {};      // of the cppruns among which it is one (--cluster)
  std::string cluster = {};  // as etcd knows it; empty: of no etcd
  std::uint64_t epoch = 0;   // the greatest that it has heard of
  bool has_all = false;      // what lies beside it is everything that it has told anybody
  bool is_synced = false;    // and outlives the machine's power
  friend bool operator==(const SelfRecord&, const SelfRecord&) = default;
};

std::string self_record_bytes(const SelfRecord& record);
// Whether that is one at all; an error is a clause that completes "the record …".
bool is_self_record(std::string_view bytes);
Result<SelfRecord> read_self_record(std::string_view bytes);

// Why whoever is one of these goes on with nothing that lies there, as a clause that completes
// "FOLDER …", with the cure; nothing: it may. `set`: its cluster; empty: it is of no etcd, and
// nobody would judge who leads.
std::optional<std::string> objection_to(const SelfRecord& found, std::string_view set);

// Which life goes on where that was found, in this boot of the machine; nothing: another one
// begins.
std::optional<std::string> life_that_goes_on(const SelfRecord& found, std::string_view boot);

}  // namespace cpprun

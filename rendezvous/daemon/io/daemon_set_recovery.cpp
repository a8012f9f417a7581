// SPDX-License-Identifier: BSD-3-Clause
// The part of DaemonSet that goes on with what the one that led before has left.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rendezvous/daemon/io/daemon_set.h"
#include "rendezvous/job/exclusions_json.h"
#include "rendezvous/job/job_record_json.h"

namespace cpprun {

// Whoever has followed until the end knows everything, and so does whoever has led last. If neither
// is here, etcd has the records; what the stores held is lost. Whether its folder has it all.
bool DaemonSet::recover_all() {
  const bool is_named = std::ranges::find(found_.synced, options_.name) != found_.synced.end();
  const bool is_synced = !contest_ || found_.synced.empty() || is_named;
  if (is_synced && follower_.is_whole()) return recover(follower_.records(), "its standby's copy");
  if (is_synced && has_led_) return recover(own_records_, "what it had when it led last");
  server_.end_replicas({});
  if (is_synced && callbacks_.recover_own()) return true;
  callbacks_.forget_own();
  std::map<std::string, std::string> records;
  for (const contest::Record& each : found_.records) records[each.name] = each.record;
  return recover(records, "etcd's records, without the stores");
}

bool DaemonSet::recover(const std::map<std::string, std::string>& records, const char* source) {
  // The one before may have begun a store, and not the record of its round.
  server_.end_replicas(records);
  std::size_t count = 0;
  for (const auto& [job, bytes] : records) {
    if (job == hosts_record_name) {
      recover_hosts(bytes);
      continue;
    }
    auto record = read_job_record(bytes, moment());
    if (!record || record->job() != job) {
      callbacks_.say(LogLevel::error,
                     fmt::format("job \"{}\" does not go on: its record {}", job,
                                 record ? "is of another job" : record.error().reason));
      server_.end_replica(job);
      continue;
    }
    record->alive = watch_.lost_at();
    server_.recover_with_replica(*std::move(record));
    ++count;
  }
  // Of what etcd had and nobody knows any more.
  for (const contest::Record& each : found_.records) {
    if (!records.contains(each.name)) forget(each.name);
  }
  if (count == 0) return true;
  callbacks_.say(LogLevel::info,
                 fmt::format("goes on with {} job{}: {}", count, count == 1 ? "" : "s", source));
  return false;
}

void DaemonSet::recover_hosts(const std::string& bytes) {
  auto hosts = read_hosts_record(bytes, moment());
  if (hosts) return server_.recover_hosts(*std::move(hosts));
  callbacks_.say(LogLevel::error,
                 fmt::format("hosts that were excluded get seats until they are excluded again: "
                             "their record {}",
                             hosts.error().reason));
}

}  // namespace cpprun

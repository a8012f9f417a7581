// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/records.h"

#include <utility>

#include "rendezvous/job/exclusions_json.h"
#include "rendezvous/job/job_record_json.h"

namespace cpprun {

std::string record_bytes(const Coordinator& coordinator, const std::string& name,
                         const Moment& moment) {
  if (name == hosts_record_name) {
    const auto& hosts = coordinator.excluded_hosts();
    return hosts.empty() ? std::string() : hosts_record_bytes(hosts, moment);
  }
  const JobRecord record = coordinator.record_of(name);
  return record.nodes.empty() ? std::string() : job_record_bytes(record, moment);
}

std::map<std::string, std::string> all_records(const Coordinator& coordinator,
                                               const Moment& moment) {
  std::map<std::string, std::string> records;
  const auto add = [&](const std::string& name) {
    auto bytes = record_bytes(coordinator, name, moment);
    if (!bytes.empty()) records[name] = std::move(bytes);
  };
  add(hosts_record_name);
  for (const Job* const job : coordinator.jobs_after("", coordinator.job_count())) {
    add(job->terms().id);
  }
  return records;
}

}  // namespace cpprun

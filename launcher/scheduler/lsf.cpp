// SPDX-License-Identifier: BSD-3-Clause
// Variables: LSF's "Environment variables set for job execution" (LSB_*, LSF_PM_TASKID of
// blaunch), and those of jsrun (JSM_NAMESPACE_*).
#include <algorithm>

#include "launcher/scheduler/said.h"
#include "launcher/scheduler/scheduler_facts.h"
#include "proto/text.h"

namespace cpprun {

namespace {

// LSB_MCPU_HOSTS: "batch5 1 h01 42 h02 42"; LSB_HOSTS: "h01 h01 h02".
std::vector<std::string> hosts_of(const Environment& environment, std::string& source) {
  std::vector<std::string> hosts;
  const auto counted = said_text(environment, {"LSB_MCPU_HOSTS"});
  const auto slots = said_text(environment, {"LSB_HOSTS"});
  if (!counted && !slots) return hosts;
  source = counted ? counted->source : slots->source;
  for (const auto word : split(counted ? counted->value : slots->value, ' ')) {
    if (word.empty() || (counted && exact_number<int>(word))) continue;
    if (std::ranges::find(hosts, word) == hosts.end()) hosts.emplace_back(word);
  }
  return hosts;
}

void read_jsrun(const Environment& environment, SchedulerFacts& facts) {
  facts.nodes = said_number(environment, 1, {"JSM_NAMESPACE_SIZE"});
  const auto here = said_number(environment, 1, {"JSM_NAMESPACE_LOCAL_SIZE"});
  if (here && here->value > 1) {
    facts.mistakes.push_back(
        crowded_text("jsrun", tasks_here(*here), "jsrun --rs_per_host 1 cpprun …"));
  }
  // Which resource set is on which host is its own affair.
  facts.master_is_first = false;
}

}  // namespace

std::optional<SchedulerFacts> lsf_facts(const Environment& environment) {
  SchedulerFacts facts{.name = "LSF"};
  const auto job = said_text(environment, {"LSB_JOBID"});
  if (!job) return std::nullopt;
  std::string source;
  auto hosts = hosts_of(environment, source);
  facts.node_rank = said_number(environment, 0, {"JSM_NAMESPACE_RANK"});
  const auto task = said_number(environment, 1, {"LSF_PM_TASKID"});
  if (facts.node_rank) {
    read_jsrun(environment, facts);
    // Where the job's script has a host of its own, that one stands first and runs no task.
    if (facts.nodes && hosts.size() == static_cast<std::size_t>(facts.nodes->value) + 1) {
      hosts.erase(hosts.begin());
    }
  } else if (task && !hosts.empty()) {
    facts.node_rank = {task->value - 1, task->source};
    facts.nodes = {static_cast<int>(hosts.size()), source};
  } else {
    return std::nullopt;
  }
  if (!hosts.empty()) facts.master = {hosts.front(), source};
  const auto index = said_text(environment, {"LSB_JOBINDEX"});
  const std::string id =
      index && index->value != "0" ? job->value + "_" + index->value : job->value;
  facts.job = {"lsf-" + id, job->source};
  facts.port = {port_of(id), job->source};
  return facts;
}

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/rival_master.h"

#include <fmt/format.h>

#include <utility>

#include "proto/bounds.h"

namespace cpprun {

void RivalMaster::look_at(TimePoint now, std::vector<std::string> addresses) {
  addresses_ = std::move(addresses);
  if (addresses_.size() > bounds::node_addresses_max) addresses_.resize(bounds::node_addresses_max);
  due_.reset();
  if (!addresses_.empty()) due_ = now;
}

std::vector<std::string> RivalMaster::take_due(TimePoint now) {
  if (!due_ || *due_ > now) return {};
  due_ = now + bounds::status_interval;
  return addresses_;
}

RivalVerdict judge_rival(const Config& config, const AgentFacts& facts, const link::Hosts& answer) {
  const std::string where = to_string(config.endpoint);
  if (answer.itself) return {};
  if (answer.job.empty()) {
    return {.sentence = fmt::format("a cpprund answers at {}, and this node hosts its job itself: "
                                    "to meet at the daemon use --rdzv-backend=c10d and "
                                    "--rdzv-endpoint={}, without --node-rank",
                                    where, where)};
  }
  if (answer.job != config.job) {
    return {.sentence =
                fmt::format("{} is the master of another job, \"{}\", at {}, where the other nodes "
                            "of this one will look for theirs: give each job an address of its own",
                            answer.host, answer.job, where)};
  }
  const std::string job = answer.job == "none" ? "this job" : fmt::format("job \"{}\"", answer.job);
  return {
      .sentence = fmt::format("there are two masters of {}: {} (pid {}) hosts it at {}, and "
                              "this node, {}, hosts it as well; start one of them, and no other, "
                              "with --node-rank=0 (or is_host=true)",
                              job, answer.host, answer.pid, where, facts.host),
      .same_job = true};
}

}  // namespace cpprun

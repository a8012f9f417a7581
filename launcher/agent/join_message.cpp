// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/join_message.h"

#include <string>
#include <utility>
#include <vector>

#include "proto/bounds.h"
#include "proto/link/codec.h"

namespace cpprun {

namespace {

// As it travels: the coordinator in this very process must hear what all others hear.
Duration milliseconds(Duration duration) {
  return std::chrono::floor<std::chrono::milliseconds>(duration);
}

bool fits(const link::Join& join) {
  return link::encode(join).size() <= bounds::round_frame_bytes_max;
}

std::vector<std::string> addresses_for_others(const std::vector<NetworkInterface>& interfaces) {
  std::vector<std::string> addresses;
  for (const NetworkInterface& each : interfaces) {
    if (each.loopback || !each.up) continue;
    for (const std::string& address : each.addresses) {
      // Link-local addresses mean something else on every machine.
      if (!address.starts_with("fe80:")) addresses.push_back(address);
    }
  }
  return addresses;
}

}  // namespace

link::Join join_message(const Config& config, const AgentFacts& facts, const JoinState& state) {
  link::Join join{.job = config.job,
                  .host = facts.host,
                  .pid = facts.pid,
                  .agent = facts.agent,
                  .node_rank = config.node_rank,
                  .nodes_min = config.nodes_min,
                  .nodes_max = config.nodes_max,
                  .local_world_size = config.local_world_size,
                  .role = config.role,
                  .restarts = config.restarts,
                  .lease = milliseconds(config.lease()),
                  .last_call = milliseconds(config.last_call),
                  .after = state.after,
                  .idle = state.idle,
                  .done = state.done,
                  .sent = state.sent,
                  .store_is_local = config.store == StoreWay::local,
                  // Where there is a set, another cpprund leads.
                  .can_lead = config.may_have_standby() && state.epoch == 0,
                  .vote = state.vote,
                  .turns = true,
                  .epoch = state.epoch,
                  .fresh = state.fresh};
  for (Duration* const each :
       {&join.restarts.backoff, &join.restarts.window, &join.restarts.host_limit.window}) {
    *each = milliseconds(*each);
  }
  auto addresses = addresses_for_others(facts.interfaces);
  if (addresses.size() <= bounds::node_addresses_max) {
    // Mostly all of them fit, and encoding them once tells it.
    join.addresses = addresses;
    if (fits(join)) return join;
    join.addresses.clear();
  }
  for (std::string& address : addresses) {
    if (join.addresses.size() == bounds::node_addresses_max) return join;
    join.addresses.push_back(std::move(address));
    if (!fits(join)) join.addresses.pop_back();
  }
  return join;
}

}  // namespace cpprun

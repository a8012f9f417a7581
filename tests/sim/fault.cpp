// SPDX-License-Identifier: BSD-3-Clause
#include "tests/sim/fault.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace cpprun::sim {

namespace {

struct Name {
  FaultKind kind;
  std::string_view name;
  std::string_view group;
};

constexpr std::array names = {
    Name{FaultKind::worker_exits, "exit", "workers"},
    Name{FaultKind::worker_crashes, "crash", "workers"},
    Name{FaultKind::spawn_fails, "spawn", "workers"},
    Name{FaultKind::worker_hangs, "hang", "workers"},
    Name{FaultKind::worker_stuck, "stuck", "workers"},
    Name{FaultKind::worker_leaves, "leftover", "workers"},
    Name{FaultKind::agent_killed, "kill", "agents"},
    Name{FaultKind::agent_stopped, "stop", "agents"},
    Name{FaultKind::agent_signalled, "term", "agents"},
    Name{FaultKind::host_dies, "host", "agents"},
    Name{FaultKind::node_returns, "return", "agents"},
    Name{FaultKind::node_is_late, "late", "agents"},
    Name{FaultKind::link_breaks, "break", "network"},
    Name{FaultKind::half_open, "half-open", "network"},
    Name{FaultKind::partition, "partition", "network"},
    Name{FaultKind::one_way_out, "one-way-out", "network"},
    Name{FaultKind::one_way_in, "one-way-in", "network"},
    Name{FaultKind::loss, "loss", "network"},
    Name{FaultKind::slow_network, "slow", "network"},
    Name{FaultKind::clock_skew, "skew", "clocks"},
    Name{FaultKind::clock_jump, "jump", "clocks"},
    Name{FaultKind::coordinator_killed, "coordinator-kill", "coordinator"},
    Name{FaultKind::coordinator_stopped, "coordinator-stop", "coordinator"},
    Name{FaultKind::coordinator_host_dies, "coordinator-host", "coordinator"},
    Name{FaultKind::coordinator_restarted, "coordinator-restart", "records"},
    Name{FaultKind::drained_reset, "drained-reset", "moments"},
    Name{FaultKind::unidentified, "stranger", "strangers"},
    Name{FaultKind::liar, "liar", "strangers"},
    Name{FaultKind::order_stop, "order-stop", "orders"},
    Name{FaultKind::order_restart, "order-restart", "orders"},
    Name{FaultKind::order_save, "order-save", "orders"},
    Name{FaultKind::order_drain, "order-drain", "orders"},
    Name{FaultKind::order_exclude, "order-exclude", "orders"},
    Name{FaultKind::order_include, "order-include", "orders"},
    Name{FaultKind::order_forget, "order-forget", "orders"},
    Name{FaultKind::hang_watch, "hang-watch", "hangs"},
    Name{FaultKind::order_capture, "order-capture", "hangs"},
    Name{FaultKind::job_freezes, "freeze", "hangs"},
    Name{FaultKind::reconfigure, "reconfigure", "reconfigure"},
    Name{FaultKind::restart_rules, "rules", "policies"},
    Name{FaultKind::restart_scope, "restart-scope", "alone"},
    Name{FaultKind::local_stores, "local-stores", "stores"},
    Name{FaultKind::standby, "standby", "standby"},
    Name{FaultKind::replica_controller, "daemon-set", "set"},
    Name{FaultKind::daemon_cut, "daemon-cut", "set"},
    Name{FaultKind::daemon_skew, "daemon-skew", "set"},
    Name{FaultKind::hand_over, "hand-over", "set"},
    Name{FaultKind::etcd_trouble, "etcd", "set"},
    Name{FaultKind::agent_upgraded, "upgrade", "upgrades"},
    Name{FaultKind::all_suspended, "suspend", "suspension"},
    Name{FaultKind::secure_wire, "tls", "wire"},
    Name{FaultKind::bytes_damaged, "damage", "wire"},
};

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

std::string_view name_of(FaultKind kind) {
  return std::find_if(names.begin(), names.end(),
                      [kind](const Name& each) { return each.kind == kind; })
      ->name;
}

std::string to_text(const Fault& fault) {
  std::string text = fmt::format("{} at {:.3f} s", name_of(fault.kind), seconds(fault.at));
  if (fault.lasts > Duration{}) text += fmt::format(" for {:.3f} s", seconds(fault.lasts));
  if (!fault.nodes.empty()) text += fmt::format(", nodes {}", fmt::join(fault.nodes, " "));
  return text + fmt::format(" (local rank {}, value {})", fault.local_rank, fault.value);
}

Result<FaultKinds> parse_kinds(std::string_view text) {
  FaultKinds kinds;
  while (!text.empty()) {
    const auto comma = std::min(text.find(','), text.size());
    const std::string_view word = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    bool known = word == "none";
    for (const Name& each : names) {
      const bool is_later = each.group == "moments" || each.group == "strangers" ||
                            each.group == "orders" || each.group == "policies";
      const bool is_named_only = each.group == "records" || each.group == "stores" ||
                                 each.group == "standby" || each.group == "set" ||
                                 each.group == "wire" || each.group == "suspension" ||
                                 each.group == "hangs" || each.group == "alone" ||
                                 each.group == "upgrades" || each.group == "reconfigure";
      const bool is_meant =
          !is_named_only && (word == "everything" || (word == "all" && !is_later));
      if (word != each.name && word != each.group && !is_meant) continue;
      kinds.insert(each.kind);
      known = true;
    }
    if (!known) {
      return failure(fmt::format("there is no fault \"{}\"; there are: {}", word, kinds_text()));
    }
  }
  return kinds;
}

std::string kinds_text() {
  std::string text =
      "everything (without records, alone, stores, standby, set, suspension, hangs, upgrades, "
      "reconfigure and "
      "wire), all "
      "(without "
      "moments, "
      "strangers, "
      "orders and "
      "policies "
      "as well), "
      "none";
  std::string_view group;
  for (const Name& each : names) {
    text += each.group == group ? ", " : fmt::format("; {}: ", each.group);
    text += each.name;
    group = each.group;
  }
  return text;
}

}  // namespace cpprun::sim

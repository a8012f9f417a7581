// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/status/daemon_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace cpprun {

namespace {

std::string_view host_in(std::string_view place) {
  return place.substr(0, place.rfind(':'));
}

// The standby that would take over: the first in sync, preferably on another machine.
const StandbySnapshot* successor_of(const DaemonSnapshot& daemon) {
  const StandbySnapshot* found = nullptr;
  for (const StandbySnapshot& each : daemon.standbys) {
    if (!each.is_in_sync) continue;
    const bool is_elsewhere = host_in(each.place) != host_in(daemon.place);
    if (found == nullptr) found = &each;
    if (is_elsewhere) return &each;
  }
  return found;
}

// What happens to the jobs if this machine is lost and no standby takes over.
std::string fate(const DaemonSnapshot& daemon) {
  if (daemon.durable == true) {
    return "the workers of its jobs are stopped, unless a cpprund with the same state directory "
           "(--state) starts again before the lease of the jobs ends";
  }
  if (daemon.has_etcd) {
    return "the workers of its jobs are stopped, and restart with empty stores when there is a "
           "leader again";
  }
  if (!daemon.durable) {
    return "its jobs are lost and their workers are stopped";
  }
  return "its jobs are lost and their workers are stopped, because the cpprund cannot write to its "
         "state directory (--state; see its log)";
}

std::string catching_up(const StandbySnapshot& standby) {
  return fmt::format("\"{}\" at {} is a standby, but not in sync yet ({} bytes behind)",
                     standby.name, standby.place, standby.bytes_behind);
}

std::string without_successor(const DaemonSnapshot& daemon) {
  if (!daemon.standbys.empty()) {
    return fmt::format(
        "{}: if this machine is lost before that, {}; if this lasts, check the network between the "
        "two and the log of the standby",
        catching_up(daemon.standbys.front()), fate(daemon));
  }
  if (daemon.has_etcd) {
    return fmt::format(
        "no standby: if this machine is lost, {}; start another cpprund with "
        "the same --etcd and --cluster on another machine",
        fate(daemon));
  }
  return fmt::format(
      "no standby: if this machine is lost, {}; start two cpprunds with "
      "--etcd on two machines",
      fate(daemon));
}

void warn_of_leader(const DaemonSnapshot& daemon, std::vector<std::string>& warnings) {
  const StandbySnapshot* const successor = successor_of(daemon);
  if (successor == nullptr) {
    warnings.push_back(without_successor(daemon));
  } else if (host_in(successor->place) == host_in(daemon.place)) {
    warnings.push_back(fmt::format(
        "every cpprund that can become the leader is on this machine ({}): if this machine is "
        "lost, {}; start another cpprund with the same --etcd and --cluster on another machine",
        host_in(daemon.place), fate(daemon)));
  }
}

void warn_of_standby(const DaemonSnapshot& daemon, std::vector<std::string>& warnings) {
  if (daemon.leader.empty()) {
    warnings.emplace_back("this cpprund knows no leader; check the other cpprunds and etcd");
  } else if (!daemon.is_in_sync) {
    warnings.push_back(
        fmt::format("this cpprund is not in sync yet: if it became the leader now, the jobs would "
                    "lose their stores; if this lasts, check its log and the network to {}",
                    daemon.leader_address));
  }
}

}  // namespace

std::string leader_changed_text(const LeaderChange& change) {
  const bool is_back = change.from == change.to && change.from_place == change.to_place;
  const std::string before = change.from.empty() || is_back
                                 ? std::string()
                                 : fmt::format(", replacing \"{}\"", change.from);
  const std::string silence =
      change.silence ? fmt::format("; no leader for {:.3f} s", in_seconds(*change.silence)) : "";
  return fmt::format("\"{}\" is the leader{} (epoch {}){}: {}{}", change.to,
                     is_back ? " again" : "", change.epoch, before, change.reason, silence);
}

std::vector<std::string> warnings_of(const DaemonSnapshot& daemon) {
  std::vector<std::string> warnings;
  if (!daemon.trouble.empty()) {
    warnings.push_back(
        fmt::format("etcd is unavailable ({}): a lost leader is not replaced until etcd is back; "
                    "check that most etcd members run and can be reached from here",
                    daemon.trouble));
  }
  if (daemon.leads) {
    warn_of_leader(daemon, warnings);
  } else {
    warn_of_standby(daemon, warnings);
  }
  return warnings;
}

std::string cover_text(const DaemonSnapshot& daemon) {
  const StandbySnapshot* const successor = successor_of(daemon);
  const bool is_covered = successor != nullptr && daemon.trouble.empty() &&
                          host_in(successor->place) != host_in(daemon.place);
  if (is_covered) {
    return fmt::format("if the machine of the cpprund is lost, \"{}\" resumes the job",
                       successor->name);
  }
  if (daemon.has_etcd) return "if the machine of the cpprund is lost, " + fate(daemon);
  if (!daemon.durable) return "if the machine of the cpprund is lost, the job is lost";
  return *daemon.durable ? "if the cpprund exits, the next cpprund resumes the job; if the machine "
                           "is lost with its disk, the job is lost"
                         : "if the cpprund exits, the job is lost, because it cannot write to its "
                           "state directory (--state; see its log)";
}

void LeaderWatch::lost(TimePoint now, const std::string& reason) {
  if (!leader_ || lost_at_) return;
  lost_at_ = now;
  lost_by_ = reason;
}

std::optional<LeaderChange> LeaderWatch::leads(const ClockPair& now, const Leader& leader) {
  const auto lost_at = std::exchange(lost_at_, std::nullopt);
  std::string reason = std::exchange(lost_by_, {});
  const std::optional<Leader> before = std::exchange(leader_, leader);
  const bool is_same = before && before->name == leader.name && before->epoch == leader.epoch;
  if (is_same) return std::nullopt;
  since_ = now.wall;
  if (!before && !leader.is_won) return std::nullopt;
  if (!before) reason = "no leader was known before";
  if (reason.empty()) reason = "reported by etcd or by the new leader";
  last_ = LeaderChange{
      .time = now.wall,
      .from = before ? before->name : std::string(),
      .from_place = before ? before->place : std::string(),
      .to = leader.name,
      .to_place = leader.place,
      .epoch = leader.epoch,
      .reason = std::move(reason),
      .silence = lost_at ? std::optional(std::max(now.now - *lost_at, Duration{})) : std::nullopt};
  ++changes_;
  return last_;
}

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/daemon_text.h"

#include <fmt/format.h>

#include "launcher/control/durations.h"
#include "proto/text.h"

namespace cpprun {

namespace {

constexpr double kibibyte = 1024;

std::string bytes_text(double bytes) {
  if (bytes < kibibyte) return fmt::format("{:.0f} bytes", bytes);
  if (bytes < kibibyte * kibibyte) return fmt::format("{:.1f} KiB", bytes / kibibyte);
  return fmt::format("{:.1f} MiB", bytes / kibibyte / kibibyte);
}

std::string called_at(const std::string& name, const std::string& place) {
  return fmt::format("\"{}\" at {}", plain_line(name), plain_line(place));
}

std::string role_line(const DaemonView& daemon) {
  const std::string length =
      daemon.since ? fmt::format(" for {}", duration_text(daemon.now - *daemon.since)) : "";
  const std::string own = fmt::format("cpprund {} ({})", called_at(daemon.name, daemon.place),
                                      plain_line(daemon.version));
  if (daemon.leads) {
    const bool is_alone = !daemon.has_etcd && daemon.standbys.empty();
    if (is_alone) return fmt::format("{} is alone: it has led{}\n", own, length);
    return fmt::format("{} leads, in epoch {}{}\n", own, daemon.epoch, length);
  }
  if (daemon.leader.empty() && daemon.leader_place.empty()) {
    return own + " stands by, and nobody leads as far as it knows\n";
  }
  // It was told where to look, and has met nobody there who leads.
  if (daemon.leader.empty() && daemon.epoch == 0) {
    return fmt::format("{} is to stand by, and looks for the one that leads at {}\n", own,
                       plain_line(daemon.leader_place));
  }
  const std::string leader = daemon.leader.empty() ? "the one at " + plain_line(daemon.leader_place)
                                                   : called_at(daemon.leader, daemon.leader_place);
  return fmt::format("{} stands by, {}; {} leads, in epoch {}{}: ask there for jobs\n", own,
                     daemon.is_in_sync ? "in sync" : "without everything yet", leader, daemon.epoch,
                     length);
}

std::string standby_line(const StandbyView& standby) {
  const std::string state =
      standby.is_in_sync && standby.bytes_behind == 0 ? "in sync"
      : standby.is_in_sync
          ? fmt::format("in sync, {} under way", bytes_text(standby.bytes_behind))
          : fmt::format("catching up, {} behind", bytes_text(standby.bytes_behind));
  return fmt::format("  {} ({}) stands by: {}\n", called_at(standby.name, standby.place),
                     plain_line(standby.version), state);
}

std::string kept_line(const DaemonView& daemon) {
  if (!daemon.is_durable) return "  it keeps nothing on a disk (--state)\n";
  if (!*daemon.is_durable) {
    return "  it cannot write to its folder (--state) as it should: its log says why\n";
  }
  return daemon.is_synced
             ? "  what it knows of jobs is on its disk before anybody hears of it (--state-sync)\n"
             : "  what it knows of jobs is in its folder (--state)\n";
}

std::string change_line(const DaemonView& daemon) {
  const ChangeView& change = *daemon.last_change;
  const std::string before =
      change.from.empty() ? "" : fmt::format(" from \"{}\"", plain_line(change.from));
  const std::string silence =
      change.silence ? fmt::format("; nobody led for {:.3f} s", *change.silence) : "";
  return fmt::format("  \"{}\" has taken the lead{} {} ago: {}{}\n", plain_line(change.to), before,
                     duration_text(daemon.now - change.time), plain_line(change.reason), silence);
}

}  // namespace

std::string daemon_text(const DaemonView& daemon) {
  std::string text = role_line(daemon);
  for (const StandbyView& each : daemon.standbys) text += standby_line(each);
  text += kept_line(daemon);
  if (!daemon.trouble.empty()) text += fmt::format("  etcd: {}\n", plain_line(daemon.trouble));
  if (daemon.last_change) text += change_line(daemon);
  return text;
}

std::string warnings_text(const std::vector<std::string>& warnings, const Canvas& canvas) {
  std::string text;
  for (const std::string& each : warnings) {
    text += tinted("warning: " + plain_line(each), Tint::bad, canvas.has_colour) + "\n";
  }
  return text;
}

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/agent_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "proto/signal_names.h"
#include "proto/text.h"

namespace cpprun {

std::string seconds_left(TimePoint now, TimePoint deadline) {
  return fmt::format("{:.0f} s left", std::max(0.0, in_seconds(deadline - now)));
}

std::string master_gone_text(const std::string& where, const std::string& why, Duration silence) {
  return fmt::format("lost contact with master {}: {} (no response for {:.1f} s)", where, why,
                     in_seconds(silence));
}

std::string no_leader_text(const std::string& places, const std::string& why, Duration silence) {
  return fmt::format("no leader among {}: {} (no response for {:.1f} s)", places, why,
                     in_seconds(silence));
}

std::string slept_text(Duration lease, Duration silence) {
  return fmt::format(
      "this node was suspended or got no CPU time for about {:.0f} s, longer than its lease of {} "
      "s; it has lost its place in the job",
      in_seconds(silence), in_seconds(lease));
}

std::string doubt_text(Duration silence, Duration lease) {
  return fmt::format(
      "this node was suspended: no response from the master for {:.1f} s, with a lease of {} s; "
      "its workers are paused until the master confirms this node's place in the job",
      in_seconds(silence), in_seconds(lease));
}

std::string asks_text(const std::string& reason, Duration timeout) {
  return fmt::format(
      "{}; every worker of this node exited with 0; querying the result of the job (timeout {:.0f} "
      "s)",
      reason, in_seconds(timeout));
}

std::string done_text(const std::string& reason) {
  return fmt::format(
      "every worker of this node exited with 0, but the result of the job is unknown here: {}",
      reason);
}

std::string not_needed_text(const std::string& reason) {
  return fmt::format("the job ended without this node: {}", reason);
}

std::string with_port_hint(const std::string& reason) {
  if (reason.find("already in use") == std::string::npos) return reason;
  return reason +
         "; the port belongs to the master of another job, or to an earlier master of this job "
         "that "
         "has not exited yet: stop it, or give this job its own port (--master-port, or "
         "--rdzv-endpoint=HOST:PORT)";
}

std::string no_worker_restarts_text(const std::string& where) {
  return fmt::format(
      "the master at {} runs a version of cpprun that does not support --restart-scope=worker\n"
      "  hint: use the same version on every node, or --restart-scope=job",
      where);
}

std::string unkillable_text(const Outcome& outcome) {
  return fmt::format(
      "rank {} (pid {}) is in uninterruptible sleep and ignores SIGKILL (a driver or file system "
      "hangs); dropping this node",
      outcome.rank.value, outcome.pid);
}

std::string interrupted_text(int signal, bool no_master) {
  return fmt::format("interrupted while waiting for {} ({})", no_master ? "the master" : "nodes",
                     signal_name(signal));
}

std::string no_directory_text(const std::string& directory, std::optional<int> error_number) {
  const auto cannot = [&](const std::string& why) {
    return fmt::format("cannot create directory \"{}\" for the workers' error files: {}", directory,
                       why);
  };
  if (!error_number) return cannot("the watchdog of this cpprun was killed; restart cpprun");
  if (*error_number == ETIMEDOUT) {
    return cannot("its disk does not respond; use another one with TMPDIR or --log-dir");
  }
  return cannot(errno_text(*error_number) +
                "; use a writable directory with free space (TMPDIR or --log-dir)");
}

std::string goes_on_text(int restarts_used, const std::string& path) {
  return fmt::format(
      "this job continues: {} of its restarts {} used before (--restart-state={}; delete that file "
      "to start over)",
      restarts_used, restarts_used == 1 ? "was" : "were", path);
}

std::string refused_text(const std::error_code& code) {
  const auto words = code.message();
  // Asio's error category uses errno's numbers but lacks the text for some of them.
  const std::error_code refused(code.value(), std::generic_category());
  if (refused == std::errc::too_many_files_open) {
    return words + "; raise the limit of open files (ulimit -Hn)";
  }
  if (refused == std::errc::too_many_files_open_in_system) {
    return words +
           ": the system-wide limit on open files (fs.file-max) was reached, not the user's own "
           "limit";
  }
  if (refused == std::errc::resource_unavailable_try_again) {
    return words + "; raise the limit of processes and threads (ulimit -u, or the container's)";
  }
  return words;
}

}  // namespace cpprun

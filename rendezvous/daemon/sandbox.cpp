// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/sandbox.h"

#include <fmt/format.h>

namespace cpprun {

SandboxRules sandbox_rules(int version, const SandboxWants& wants) {
  SandboxRules rules;
  rules.files = landlock::files_1;
  if (version >= 2) rules.files |= landlock::refer;
  if (version >= 3) rules.files |= landlock::truncate;
  if (version >= 5) rules.files |= landlock::ioctl_dev;
  if (version >= 4) rules.ports = landlock::bind_tcp;
  if (version >= 4 && !wants.connects) rules.ports |= landlock::connect_tcp;
  if (version >= 6) rules.scopes = landlock::abstract_sockets | landlock::signals;
  // What is opened in place of a standard stream, or of a descriptor that is kept in reserve.
  rules.paths.push_back({"/dev/null", landlock::read_file | landlock::write_file});
  for (const auto& path : wants.readable) {
    rules.paths.push_back({path, landlock::read_file | landlock::read_dir});
  }
  if (wants.door) {
    // The folder is there already: it is never made here, but it is removed by whoever leaves last.
    rules.paths.push_back({wants.door->parent, landlock::remove_dir});
    rules.paths.push_back({wants.door->path(),
                           landlock::read_dir | landlock::make_sock | landlock::remove_file,
                           false});
  }
  return rules;
}

std::string sandbox_line(const SandboxInForce& in_force, const SandboxWants& wants) {
  std::vector<std::string> parts;
  if (in_force.version >= 1) {
    const auto list = fmt::format("{} to read", fmt::join(wants.readable, ", "));
    std::vector<std::string> kept;
    if (wants.door) kept.emplace_back("the socket for tools");
    if (!wants.readable.empty()) kept.push_back(list);
    parts.push_back(kept.empty() ? "no files"
                                 : fmt::format("no files but {}", fmt::join(kept, " and ")));
  }
  if (in_force.version >= 4) {
    parts.emplace_back(wants.connects ? "no port of its choice"
                                      : "no TCP connection out and no port of its choice");
  }
  if (in_force.version >= 6) parts.emplace_back("no signal to a stranger");
  if (in_force.no_privileges) parts.emplace_back("no new privileges");
  if (in_force.no_dumps) parts.emplace_back("no dump of its memory");
  if (parts.empty()) parts.emplace_back("nothing is in force");
  return fmt::format("sandbox: {}", fmt::join(parts, ", "));
}

}  // namespace cpprun

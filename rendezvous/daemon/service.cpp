// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/service.h"

#include <fmt/format.h>

#include <cstddef>
#include <string_view>

#include "proto/text.h"

namespace cpprun {

namespace {

using Kind = PassedFacts::Kind;

constexpr std::size_t quoted_bytes_max = 40;  // of an invalid variable, in an error message

std::string quoted(std::string_view name, std::string_view value) {
  return fmt::format("{}={}", name, plain_line(value, quoted_bytes_max));
}

tl::unexpected<Error> no_number(std::string_view name, std::string_view value,
                                std::string_view what) {
  return failure(
      fmt::format("cannot tell which sockets were passed: {} is not a {}; unset LISTEN_FDS and "
                  "LISTEN_PID, or start cpprund with a .socket unit",
                  quoted(name, value), what));
}

std::string kind_text(const PassedFacts& facts) {
  const auto at = facts.address.empty() ? std::string() : " on " + facts.address;
  switch (facts.kind) {
    case Kind::not_open:
      return "not open";
    case Kind::no_socket:
      return "not a socket";
    case Kind::tcp:
      return (facts.listens ? "a listening TCP socket" : "a TCP socket that does not listen") + at;
    case Kind::udp:
      return "a UDP socket" + at;
    case Kind::unix_socket:
      return "a Unix socket";
    case Kind::other_socket:
      break;
  }
  return "a socket of another protocol";
}

std::string_view hint_for(Kind kind) {
  switch (kind) {
    case Kind::not_open:
    case Kind::no_socket:
      return "start cpprund with a .socket unit, or unset LISTEN_FDS and LISTEN_PID";
    case Kind::tcp:
      return "set Accept=no in its .socket unit";
    case Kind::udp:
      return "write ListenStream= instead of ListenDatagram= in its .socket unit";
    case Kind::unix_socket:
    case Kind::other_socket:
      break;
  }
  return "set ListenStream= in its .socket unit to a TCP port, such as 29400";
}

}  // namespace

Result<Activation> activation_of(const Environment& environment, int pid) {
  const std::string* const whose = find_variable(environment, "LISTEN_PID");
  const std::string* const fds = find_variable(environment, "LISTEN_FDS");
  if (whose == nullptr || fds == nullptr) return Activation{};
  const auto owner = exact_number<int>(*whose);
  if (!owner || *owner <= 0) return no_number("LISTEN_PID", *whose, "process id");
  if (*owner != pid) {
    return Activation{
        .count = 0,
        .remark = fmt::format("ignoring LISTEN_FDS: the sockets were passed to process {}, and "
                              "this is process {}; start cpprund without a shell, or with exec",
                              *owner, pid)};
  }
  const auto count = exact_number<int>(*fds);
  if (!count || *count < 0) return no_number("LISTEN_FDS", *fds, "count");
  return Activation{.count = *count, .remark = {}};
}

std::string passed_text(int descriptor, const PassedFacts& facts) {
  return fmt::format("descriptor {} is {}", descriptor, kind_text(facts));
}

Result<void> judge_passed(int count, const std::vector<PassedFacts>& facts) {
  std::string what;
  for (std::size_t at = 0; at < facts.size(); ++at) {
    if (at > 0) what += ", ";
    what += passed_text(first_passed_descriptor + static_cast<int>(at), facts[at]);
  }
  if (count > static_cast<int>(facts.size())) what += ", ...";
  if (count != 1 || facts.size() != 1) {
    return failure(
        fmt::format("cannot serve on {} passed sockets ({}): cpprund needs exactly one; keep one "
                    "ListenStream= in its .socket unit",
                    count, what));
  }
  const PassedFacts& only = facts.front();
  if (only.kind == Kind::tcp && only.listens) return {};
  return failure(
      fmt::format("cannot serve on the passed socket: {}; {}", what, hint_for(only.kind)));
}

namespace {

constexpr std::size_t shown_bytes_max = 40;

}  // namespace

Result<std::string> notify_address(const Environment& environment) {
  const std::string* const said = find_variable(environment, "NOTIFY_SOCKET");
  if (said == nullptr || said->empty()) return std::string();
  if (said->size() > notify_name_bytes_max) {
    return failure(fmt::format("NOTIFY_SOCKET has {} bytes, and the maximum is {}", said->size(),
                               notify_name_bytes_max));
  }
  const bool is_path = said->front() == '/';
  const bool is_abstract = said->front() == '@';
  if ((!is_path && !is_abstract) || said->size() == 1) {
    return failure(
        fmt::format("NOTIFY_SOCKET={} is neither a path nor an abstract name such as @NAME",
                    plain_line(*said, shown_bytes_max)));
  }
  std::string name = *said;
  if (is_abstract) name.front() = '\0';
  return name;
}

std::string ready_message(std::string_view address) {
  return fmt::format("READY=1\nSTATUS=listening on {}\n", plain_line(address));
}

std::string stopping_message() {
  return "STOPPING=1\n";
}

SandboxRules sandbox_rules(int version, const SandboxWants& wants) {
  SandboxRules rules;
  rules.files = landlock::files_1;
  if (version >= 2) rules.files |= landlock::refer;
  if (version >= 3) rules.files |= landlock::truncate;
  if (version >= 5) rules.files |= landlock::ioctl_dev;
  if (version >= 4) rules.ports = landlock::bind_tcp;
  if (version >= 4 && !wants.connects) rules.ports |= landlock::connect_tcp;
  if (version >= 6) rules.scopes = landlock::abstract_sockets | landlock::signals;
  // Opened in place of a standard stream, or of a descriptor that is held in reserve.
  rules.paths.push_back({"/dev/null", landlock::read_file | landlock::write_file});
  for (const auto& path : wants.readable) {
    rules.paths.push_back({path, landlock::read_file | landlock::read_dir});
  }
  if (wants.door) {
    // The directory exists already and is never created here. The last process to leave removes it.
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
    const auto list = fmt::format("{} (read only)", fmt::join(wants.readable, ", "));
    std::vector<std::string> kept;
    if (wants.door) kept.emplace_back("the control socket");
    if (!wants.readable.empty()) kept.push_back(list);
    parts.push_back(kept.empty()
                        ? "no file access"
                        : fmt::format("no file access except {}", fmt::join(kept, " and ")));
  }
  if (in_force.version >= 4) {
    parts.emplace_back(wants.connects ? "no fixed ports"
                                      : "no outgoing TCP connections, no fixed ports");
  }
  if (in_force.version >= 6) parts.emplace_back("no signals to other programs");
  if (in_force.no_privileges) parts.emplace_back("no new privileges");
  if (in_force.no_dumps) parts.emplace_back("no core dumps");
  if (parts.empty()) parts.emplace_back("not available");
  return fmt::format("sandbox: {}", fmt::join(parts, ", "));
}

}  // namespace cpprun

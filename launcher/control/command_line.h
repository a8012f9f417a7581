// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The command line of cpprunctl, parsed and checked.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rendezvous/command_line.h"
#include "rendezvous/endpoint.h"

namespace cpprun {

enum class CommandKind {
  // Read-only commands (see reads_only).
  list,
  status,
  top,
  events,
  report,
  stacks,
  simulate,
  doctor,
  view,
  // For scripts, which check its exit code.
  wait,
  // Commands to a job or a cpprund.
  stop,
  restart,
  save,
  drain,
  exclude,
  include,
  forget,
  handover,
  upgrade_agent,
  // Commands that write secrets and tokens.
  keygen,
  token,
};

// These accept a prefix of a job's name. All others need the whole name.
constexpr bool reads_only(CommandKind kind) {
  return kind <= CommandKind::doctor;
}

// Which hosts `doctor` examines, and how it reaches them.
struct DoctorOptions {
  std::optional<std::string> hosts = {};  // as for cpprun --hosts
  std::string host_file = {};
  std::optional<std::string> remote_shell = {};
  int port = 0;
  bool ship = false;
};

// A command for cpprunctl: a checked command line.
struct ControlOptions {
  CommandKind kind = CommandKind::list;
  std::string job = {};          // a name, or a prefix (reads_only); empty: the only job
  std::string subject = {};      // the node, host or file to act on
  std::string trace = {};        // a file with a trace of failures
  std::string secret_file = {};  // empty: from the variable, or the user's default
  std::string id = {};           // of a new secret; empty: generated
  bool adds = false;             // add a new secret to an existing file
  bool token_controls = false;   // the token grants control access, not only read access
  std::string reason = {};
  std::string signal = {};
  std::optional<std::int64_t> for_seconds = {};
  std::string output = {};       // where `view` writes the page; "-": standard output
  std::optional<int> rank = {};  // show the stack of this rank only
  bool native = false;           // stacks: frames of C and C++ as well
  bool follows = false;          // print events as they happen
  bool as_json = false;
  bool names_alone = false;  // for `ls`: print only the names
  bool whole_name = false;   // `job` is the full name of a job already found
  bool of_all_users = false;
  bool to_all = false;  // a command about a host goes to all programs that host jobs here
  std::optional<Endpoint> address = {};  // none: all sockets on this machine
  DoctorOptions doctor = {};
};

// The exit codes of cpprunctl. `wait` exits with the job's code.
namespace control_code {
inline constexpr int done = 0;
inline constexpr int refused = 1;       // rejected, no such job, or findings
inline constexpr int misuse = 2;        // invalid command line
inline constexpr int unreachable = 69;  // EX_UNAVAILABLE: no response, so the result is unknown
}  // namespace control_code

std::variant<ControlOptions, CommandLineEnd> read_control_line(int argc, const char* const* argv,
                                                               std::string_view version);

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The command line of cpprunctl: what somebody wants (Wish), how that is read, and its flags and
// commands (ControlFacts).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/endpoint.h"
#include "rendezvous/command_line.h"

namespace cpprun {

enum class Verb {
  // Show something and change nothing (reads_only).
  list,
  status,
  top,
  events,
  report,
  simulate,
  doctor,
  // Scripts act on its exit code.
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
  // Write secrets and tokens.
  keygen,
  token,
};

// These take the beginning of a job's name, all others the whole name.
constexpr bool reads_only(Verb verb) {
  return verb <= Verb::doctor;
}

// Which hosts `doctor` examines, and how it gets there.
struct DoctorWish {
  std::optional<std::string> hosts = {};  // as for cpprun --hosts
  std::string host_file = {};
  std::optional<std::string> remote_shell = {};
  int port = 0;
  bool ship = false;
};

// What somebody wants of cpprunctl: a checked command line.
struct Wish {
  Verb verb = Verb::list;
  std::string job = {};          // its name, or its beginning (reads_only); empty: there is one
  std::string subject = {};      // the node, the host or the file that is meant
  std::string trace = {};        // of failures, a file
  std::string secret_file = {};  // empty: the variable's, or this user's own
  std::string id = {};           // of a new secret; empty: one is made up
  bool adds = false;             // a new secret to a file that has one
  bool token_orders = false;     // a token is for giving orders, and not for reading alone
  std::string reason = {};
  std::string signal = {};
  std::optional<std::int64_t> for_seconds = {};
  bool follows = false;  // events as they happen
  bool as_json = false;
  bool names_alone = false;  // of a list
  bool whole_name = false;   // `job` is the name of a job that was seen
  bool of_all_users = false;
  bool to_all = false;                   // an order about a host: whoever hosts jobs here
  std::optional<Endpoint> address = {};  // nothing: whatever has a socket here
  DoctorWish doctor = {};
};

// What cpprunctl says with its exit code; `wait` says what the job says.
namespace control_code {
inline constexpr int done = 0;
inline constexpr int refused = 1;       // it cannot be done, there is no such job; findings
inline constexpr int misuse = 2;        // of the command line
inline constexpr int unreachable = 69;  // EX_UNAVAILABLE: no response, so it cannot be known
}  // namespace control_code

// What was typed, read into a Wish.
std::variant<Wish, CommandLineEnd> read_control_line(int argc, const char* const* argv,
                                                     std::string_view version);

struct ControlFlag {
  std::vector<std::string> spellings;  // "-f", "--follow"
  std::string value;                   // "TEXT"; empty: it takes none
  std::string help;
};

struct ControlCommand {
  std::string name;
  std::string help;
  std::string subject;  // "JOB", "HOST", "NODE|HOST"; empty: none
  bool needs_subject = false;
  std::vector<ControlFlag> flags;
};

// What cpprunctl can be asked, as the shells' completions and the manual page need it: taken from
// the declaration itself, so that none of them tells something else.
struct ControlFacts {
  std::vector<ControlFlag> flags;  // of all commands
  std::vector<ControlCommand> commands;
};

// A completion script; nothing for a shell that is not known: bash, zsh, fish.
std::optional<std::string> control_completion(std::string_view shell, const ControlFacts& facts);
// A page for man(1).
std::string control_manual(const ControlFacts& facts, std::string_view version);

}  // namespace cpprun

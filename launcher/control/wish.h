// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What somebody wants of cpprunctl: a checked command line.

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/endpoint.h"

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

}  // namespace cpprun

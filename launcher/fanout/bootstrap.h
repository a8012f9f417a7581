// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How a host's cpprun is started: the bootstrap script sent over the remote shell, and the agent's
// command line.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/fanout/message.h"
#include "proto/environment.h"
#include "proto/result.h"

namespace cpprun::fanout {

// Describes this cpprun for the bootstrap script. The script is sent over the remote shell's
// standard input to the `sh` at the other end. It finds the same cpprun there, or receives it on
// the same stream, and executes it. The remote command line is only `sh`, so it needs no quoting.
struct OwnBinary {
  std::string version;  // the output of --version
  std::string path;     // tried before PATH, since home directories may be shared
  // For --ship. Without a hash nothing is sent.
  std::string sha256 = {};
  std::uint64_t bytes = 0;
  std::string program = "cpprun";  // its file name
};

std::string bootstrap_script(const OwnBinary& own);

// Lines with which the host replies before it sends messages. All other output, such as banners and
// output of profiles, is ignored.
struct ShellIsReady {};
struct BinaryWanted {};
struct ShellRefuses {
  std::string reason;  // a clause
};
using BootstrapAnswer = std::variant<ShellIsReady, BinaryWanted, ShellRefuses>;
std::optional<BootstrapAnswer> read_bootstrap_answer(std::string_view line, const OwnBinary& own);

inline constexpr std::string_view ready_line = "cpprun-fanout ready\n";

// How the agent of one host is started, given the terms common to all hosts.

// The agent's arguments, without argv[0].
std::vector<std::string> agent_words(const JobTerms& job, const Member& self, const Begin& begin);

// The agent's environment: the host's own, minus settings of another job, overlaid with the terms.
// PATH is the console's followed by the host's.
Environment agent_environment(const JobTerms& job, Environment own);

// The part of the console's environment that is passed to the hosts: variables that trainers,
// Python and their libraries read and that are valid on every host. Devices, addresses and possible
// passwords are excluded. `exported` is the value of --export, "NAME" or "NAME=VALUE" separated by
// commas. A name that is not set here is an error.
Result<Environment> passed_environment(const Environment& own, std::string_view exported);

// The command that starts `sh` on a host. {host} is replaced; if it does not occur, the host is
// appended.
std::vector<std::string> shell_words(const std::vector<std::string>& shell,
                                     const std::string& host);

}  // namespace cpprun::fanout

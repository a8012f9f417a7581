// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// How the cpprun of a host is started: the first words over its remote shell, and the command line.

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

// The first words over a remote shell's standard input, to the `sh` at its other end: find our own
// cpprun there, or take it from the same stream, and become it. Nothing but `sh` stands on any
// command line, whatever quotes and blanks are around.
struct OwnBinary {
  std::string version;  // as --version says it
  std::string path;     // looked at before PATH: where homes are shared it is there
  // For --ship; without a hash nothing is sent.
  std::string sha256 = {};
  std::uint64_t bytes = 0;
  std::string program = "cpprun";  // its name
};

std::string bootstrap_script(const OwnBinary& own);

// The lines that the other side answers with before it speaks in messages. Whatever else is printed
// there, by profiles and banners, is none.
struct ShellIsReady {};
struct BinaryWanted {};
struct ShellRefuses {
  std::string reason;  // a clause
};
using BootstrapAnswer = std::variant<ShellIsReady, BinaryWanted, ShellRefuses>;
std::optional<BootstrapAnswer> read_bootstrap_answer(std::string_view line, const OwnBinary& own);

inline constexpr std::string_view ready_line = "cpprun-fanout ready\n";

// What the agent of one host is started with, from the terms that all have in common.

// Its command line, without the program's own name.
std::vector<std::string> agent_words(const JobTerms& job, const Member& self, const Begin& begin);

// Its environment: the host's own without what it would say of another job, and what the terms say
// laid over it. The console's PATH comes first, the host's behind it.
Environment agent_environment(const JobTerms& job, Environment own);

// What a console passes on of its environment: what trainers, Python and the libraries below them
// read and what is true on every host. Devices, addresses and whatever may be a password stay.
// `exported` are --export's words, "NAME" or "NAME=VALUE" with commas between them; a name that is
// not set here is an error.
Result<Environment> passed_environment(const Environment& own, std::string_view exported);

// The words that start `sh` on a host: {host} replaced, or the host behind them where it is in
// none.
std::vector<std::string> shell_words(const std::vector<std::string>& shell,
                                     const std::string& host);

}  // namespace cpprun::fanout

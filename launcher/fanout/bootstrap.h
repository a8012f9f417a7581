// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The first words over a remote shell's standard input, to the `sh` at its other end: find our own
// cpprun there, or take it from the same stream, and become it. Nothing but `sh` stands on any
// command line, whatever quotes and blanks are around.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace cpprun::fanout {

struct OwnBinary {
  std::string version;             // as --version says it
  std::string path;                // looked at before PATH: where homes are shared it is there
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

}  // namespace cpprun::fanout

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/fanout/bootstrap.h"

#include <fmt/format.h>

#include "proto/text.h"

namespace cpprun::fanout {

namespace {

constexpr std::string_view mark = "cpprun-fanout ";

// For any POSIX shell, whatever bytes are in it.
std::string shell_quoted(std::string_view text) {
  std::string word = "'";
  for (const char byte : text) byte == '\'' ? word += "'\\''" : word += byte;
  return word + "'";
}

}  // namespace

// One group, so that the shell has read all of it before it does anything: what follows on the
// stream is not the shell's. The program that was sent removes itself when it starts, and the trap
// does while it is not all there.
std::string bootstrap_script(const OwnBinary& own) {
  std::string script = fmt::format(
      "{{ w={}; o=; for f in {} \"$(command -v {})\"; do [ -x \"$f\" ] || continue; "
      "g=$(\"$f\" --version 2>/dev/null </dev/null); "
      "[ \"$g\" = \"$w\" ] && exec \"$f\" --fanout-child; o=${{g:-unknown}}; done; ",
      shell_quoted(own.program + " " + own.version), shell_quoted(own.path), own.program);
  if (own.sha256.empty()) {
    script += "[ -z \"$o\" ] && echo cpprun-fanout none || echo \"cpprun-fanout other $o\"; ";
  } else {
    script += fmt::format(
        "d=$(mktemp -d \"${{TMPDIR:-/tmp}}/cpprun.XXXXXX\" 2>/dev/null || "
        "mktemp -d /tmp/cpprun.XXXXXX) || "
        "{{ echo cpprun-fanout noplace; exit 1; }}; "
        "trap 'rm -rf \"$d\"' EXIT; trap 'exit 1' HUP INT TERM; echo cpprun-fanout send; "
        "head -c {} >\"$d/cpprun\"; h=$(sha256sum <\"$d/cpprun\"); "
        "[ \"${{h%% *}}\" = {} ] || {{ echo cpprun-fanout broken; exit 1; }}; "
        "chmod 700 \"$d/cpprun\"; \"$d/cpprun\" --version >/dev/null </dev/null || "
        "{{ echo cpprun-fanout noexec; exit 1; }}; "
        "trap - EXIT HUP INT TERM; exec \"$d/cpprun\" --fanout-child remove; ",
        own.bytes, own.sha256);
  }
  return script + "exit 1; }\n";
}

std::optional<BootstrapAnswer> read_bootstrap_answer(std::string_view line, const OwnBinary& own) {
  if (!line.starts_with(mark)) return std::nullopt;
  const auto word = line.substr(mark.size());
  if (word == "ready") return ShellIsReady{};
  if (word == "send") return BinaryWanted{};
  if (word == "none") {
    return ShellRefuses{
        fmt::format("there is no {} at {} and none on PATH; install it there, "
                    "or start with --ship",
                    own.program, own.path)};
  }
  if (word.starts_with("other ")) {
    return ShellRefuses{
        fmt::format("there is another {} ({}), and this is {}; install the "
                    "same, or start with --ship",
                    own.program, plain_line(word.substr(6)), own.version)};
  }
  if (word == "broken")
    return ShellRefuses{"the program did not arrive whole, or sha256sum is not there"};
  if (word == "noplace") return ShellRefuses{"no folder can be made in $TMPDIR or /tmp for --ship"};
  if (word == "noexec") {
    return ShellRefuses{
        "the program that was sent cannot be executed: another kind of processor, "
        "or $TMPDIR is mounted noexec"};
  }
  return std::nullopt;
}

}  // namespace cpprun::fanout

// SPDX-License-Identifier: BSD-3-Clause
#include <sys/stat.h>

#include <cstddef>
#include <fstream>
#include <iterator>

#include "tests/failures/staged.h"

namespace cpprun::failures {

namespace {

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The victim as a binary of another architecture: two bytes of its header.
std::string for_another_machine(const Stage& stage) {
  constexpr std::size_t machine_at = 18;
  constexpr char risc_v = static_cast<char>(243);
  auto binary = content(stage.victim);
  binary[machine_at] = risc_v;
  binary[machine_at + 1] = 0;
  return file(stage, "stranger", binary, true);
}

// The victim with a loader that does not exist.
std::string without_loader(const Stage& stage) {
  auto binary = content(stage.victim);
  const auto at = binary.find("/ld-linux");
  if (at != std::string::npos) binary.replace(at, 9, "/no-linux");
  return file(stage, "no_loader", binary, true);
}

Staged script(const Stage& stage, const std::string& name, const std::string& text) {
  return {.name = name, .program = {file(stage, name, text, true)}, .cause = "", .advice = ""};
}

Staged expecting(Staged staged, const std::string& cause, const std::string& advice, int rank = 0) {
  staged.cause = cause;
  staged.advice = advice;
  staged.rank = rank;
  return staged;
}

}  // namespace

std::vector<Staged> false_starts(const Stage& stage) {
  const auto make = [&](const std::string& name, const std::string& text) {
    return script(stage, name, text);
  };
  const std::string only_rank_1 = "[ $RANK = 1 ] || exec sleep 1000\n";
  const std::string linked = stage.directory + "/linked";
  std::vector<Staged> all = {
      expecting({.name = "for another processor", .program = {for_another_machine(stage)}},
                "wrong_machine", "uname -m"),
      expecting({.name = "without its loader", .program = {without_loader(stage)}},
                "interpreter_missing", "dynamic loader"),
      expecting(make("no_interpreter", "#!/opt/nowhere/python\n"), "interpreter_missing",
                "correct the #! line"),
      expecting(make("from_windows", "#!/bin/sh\r\nexit 0\r\n"), "interpreter_missing",
                "correct the #! line"),
      expecting(make("no_magic", "echo hello\n"), "not_a_program",
                "start the script with a #! line"),
      expecting(make("gone", "#!/bin/sh\n[ $RANK = 0 ] || exec sleep 1000\nexec /opt/nowhere\n"),
                "command_missing", "correct PATH"),
      expecting(make("no_command", "#!/bin/sh\n" + only_rank_1 + "not_a_command_at_all\n"),
                "command_missing", "PATH", 1),
      expecting(make("child_killed", "#!/bin/sh\n" + only_rank_1 + "sh -c 'kill -9 $$'\nexit $?\n"),
                "killed", "batch system", 1),
      expecting(make("child_crashed",
                     "#!/bin/sh\n" + only_rank_1 + stage.victim + " 1 segfault\nexit $?\n"),
                "segfault", "core dump", 1),
      // The loader fails before the victim can check its rank.
      expecting(make("library_gone", "#!/bin/sh\n" + only_rank_1 + "exec " + linked + " 1\n"),
                "library_missing", "LD_LIBRARY_PATH", 1),
      expecting(make("mismatch", "#!/bin/sh\n" + only_rank_1 + "LD_LIBRARY_PATH=" +
                                     stage.directory + "/empty exec " + linked + " 1\n"),
                "library_mismatch", "same versions", 1),
  };
  // Held open for writing by a process that lives as long as the launch.
  auto busy = expecting({.name = "a program that is being written",
                         .program = {file(stage, "busy", content(stage.victim), true)}},
                        "program_busy", "rename it into place");
  busy.before = "exec 9>>" + stage.directory + "/busy";
  all.push_back(busy);
  return all;
}

}  // namespace cpprun::failures

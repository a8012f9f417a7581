// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Decides what the workers execute, once, before anything starts: the Python interpreter or the
// program itself. An error explains what is missing.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/config.h"
#include "proto/environment.h"
#include "proto/result.h"

namespace cpprun {

enum class FileKind {
  missing,
  directory,
  plain,
  noexec,  // executable by its mode, but on a noexec file system
  executable,
};

// Returns what is at a path. `io/host` checks the real machine; tests use a map.
using FileProbe = std::function<FileKind(const std::string& path)>;

// A command line without the workers' own arguments. argv[0] is an executable path.
struct ResolvedProgram {
  std::vector<std::string> argv;
  std::string interpreter;  // the Python that runs it; empty if the program is executed directly
  std::string entrypoint;   // the program's name in the report
  std::string note = {};    // to print at the start; may be empty
  friend bool operator==(const ResolvedProgram&, const ResolvedProgram&) = default;
};

// The path of a program, as a shell finds it.
std::optional<std::string> find_on_path(const std::string& name, const Environment& environment,
                                        const FileProbe& probe);

// As a user would type it, in one line.
std::string command_text(const std::vector<std::string>& words);
// The same for everyone who may read the status: at most 400 bytes, and "…" for what may be a
// secret, such as the value of --api-key. That is a guess by the words; a secret without any hint
// is shown.
std::string public_command_text(const std::vector<std::string>& words);

// `own_paths`: the paths of this cpprun, with and without symbolic links resolved.
Result<ResolvedProgram> resolve_program(const Program& program, const Environment& environment,
                                        const FileProbe& probe,
                                        const std::vector<std::string>& own_paths = {});

// Whether the program is in the bin directory of a virtual environment or of conda. Packages
// installed with it do not change the system.
bool is_in_environment(const std::string& program, const FileProbe& probe);

}  // namespace cpprun

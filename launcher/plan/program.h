// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the workers execute, decided once and before anything starts: the interpreter or the program
// itself, with the sentence to say if it is not there.

#include <functional>
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
  noexec,  // its mode allows execution, its file system does not
  executable,
};

// What lies at a path; `io/host` answers for the real machine, a test from a map.
using FileProbe = std::function<FileKind(const std::string& path)>;

// A command line without the workers' own arguments, its first word a path that can be executed.
struct ResolvedProgram {
  std::vector<std::string> argv;
  std::string interpreter;  // the Python that runs it; empty where the program runs itself
  std::string entrypoint;   // the name the report uses
  std::string note = {};    // a sentence worth saying at the start; may be empty
  friend bool operator==(const ResolvedProgram&, const ResolvedProgram&) = default;
};

// `own_paths`: where this cpprun itself lies, by each way it may be looked at.
Result<ResolvedProgram> resolve_program(const Program& program, const Environment& environment,
                                        const FileProbe& probe,
                                        const std::vector<std::string>& own_paths = {});

// Whether that program lies in the bin of a virtual environment or of one of conda's: what is
// installed by it leaves the system alone.
bool is_in_environment(const std::string& program, const FileProbe& probe);

}  // namespace cpprun

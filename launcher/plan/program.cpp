// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace cpprun {

namespace {

constexpr std::array<std::string_view, 4> python_endings = {".py", ".pyc", ".pyz", ".pyw"};

bool runs_by_python(const std::string& script, const FileProbe& probe) {
  const bool ending = std::any_of(python_endings.begin(), python_endings.end(),
                                  [&](std::string_view each) { return script.ends_with(each); });
  // Python also runs a folder that has a main file.
  return ending || (probe(script) == FileKind::directory &&
                    probe(script + "/__main__.py") != FileKind::missing);
}

std::optional<std::string> find_on_path(const std::string& name, const Environment& environment,
                                        const FileProbe& probe) {
  const auto* path = find_variable(environment, "PATH");
  std::string_view rest =
      path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : std::string_view(*path);
  while (true) {
    const auto colon = rest.find(':');
    const auto folder = rest.substr(0, colon);
    auto candidate = fmt::format("{}/{}", folder.empty() ? "." : folder, name);
    if (probe(candidate) == FileKind::executable) return candidate;
    if (colon == std::string_view::npos) return std::nullopt;
    rest = rest.substr(colon + 1);
  }
}

Result<std::string> find_python(const Environment& environment, const FileProbe& probe) {
  const auto* wanted = find_variable(environment, "PYTHON_EXEC");
  if (wanted != nullptr && !wanted->empty()) {
    if (wanted->find('/') == std::string::npos) {
      if (auto found = find_on_path(*wanted, environment, probe)) return *found;
    } else if (probe(*wanted) == FileKind::executable) {
      return *wanted;
    }
    return failure(fmt::format(
        "PYTHON_EXEC=\"{}\" is not an executable program; give the path of a Python", *wanted));
  }
  for (const char* name : {"python3", "python"}) {
    if (auto found = find_on_path(name, environment, probe)) return *found;
  }
  return failure(
      "there is no python3 and no python on PATH to run a Python script with; install one, or set "
      "PYTHON_EXEC to its path");
}

// An environment that says it is active, and a Python that is none of its own: sudo and batch
// systems keep the one and reset the other. Its modules would be missing without a reason to see.
std::string other_python_note(const std::string& python, const Environment& environment,
                              const FileProbe& probe) {
  const auto* active = find_variable(environment, "VIRTUAL_ENV");
  const auto* chosen = find_variable(environment, "PYTHON_EXEC");
  if (active == nullptr || active->empty() || (chosen != nullptr && !chosen->empty())) return "";
  const auto bin = fmt::format(
      "{}/bin", active->ends_with('/') ? active->substr(0, active->size() - 1) : *active);
  if (python.starts_with(bin + "/")) return "";
  for (const char* name : {"python3", "python"}) {
    const auto own = fmt::format("{}/{}", bin, name);
    if (probe(own) != FileKind::executable) continue;
    return fmt::format(
        "VIRTUAL_ENV={} is active, but the workers run by {}, which comes first on PATH; if its "
        "modules are missed, set PYTHON_EXEC={} or put {} first on PATH",
        *active, python, own, bin);
  }
  return "";
}

Result<ResolvedProgram> by_python(const Program& program, const Environment& environment,
                                  const FileProbe& probe) {
  const bool module = program.kind == ProgramKind::module;
  if (!module && probe(program.script) == FileKind::missing) {
    return failure(
        fmt::format("cannot run \"{}\": no such file, seen from the folder cpprun was "
                    "started in",
                    program.script));
  }
  auto python = find_python(environment, probe);
  if (!python) return tl::unexpected(python.error());
  ResolvedProgram resolved{.argv = {*python, "-u"},
                           .interpreter = *python,
                           .entrypoint = program.script,
                           .note = other_python_note(*python, environment, probe)};
  if (module) resolved.argv.emplace_back("-m");
  resolved.argv.push_back(program.script);
  return resolved;
}

ResolvedProgram by_itself(const Program& program, const std::string& path) {
  return {.argv = {path}, .interpreter = "", .entrypoint = program.script};
}

tl::unexpected<Error> not_runnable(const std::string& script, FileKind kind, bool by_itself_only) {
  if (kind == FileKind::missing) {
    return failure(
        fmt::format("cannot run \"{}\": no such file{}", script,
                    script.find('/') == std::string::npos ? ", neither here nor on PATH" : ""));
  }
  if (kind == FileKind::directory && by_itself_only) {
    return failure(
        fmt::format("cannot run \"{}\": it is a folder, and --no-python executes a file", script));
  }
  if (kind == FileKind::directory) {
    return failure(fmt::format("cannot run \"{}\": it is a folder without a __main__.py", script));
  }
  if (kind == FileKind::noexec) {
    return failure(
        fmt::format("cannot run \"{}\": its file system is mounted noexec; copy it to a disk that "
                    "allows execution, or mount that one without noexec",
                    script));
  }
  return failure(
      fmt::format("cannot run \"{}\": it is not executable; chmod +x it, or give a "
                  "Python script a name that ends in .py",
                  script));
}

}  // namespace

Result<ResolvedProgram> resolve_program(const Program& program, const Environment& environment,
                                        const FileProbe& probe) {
  const auto& script = program.script;
  const bool bare = script.find('/') == std::string::npos;
  switch (program.kind) {
    case ProgramKind::python:
    case ProgramKind::module:
      return by_python(program, environment, probe);
    case ProgramKind::no_python: {
      const auto kind = probe(script);
      if (!bare && kind == FileKind::executable) return by_itself(program, script);
      if (!bare) return not_runnable(script, kind, true);
      if (auto found = find_on_path(script, environment, probe)) return by_itself(program, *found);
      if (kind == FileKind::directory) return not_runnable(script, kind, true);
      if (kind != FileKind::executable) return not_runnable(script, FileKind::missing, true);
      return failure(fmt::format("cannot run \"{}\": it is not on PATH; say ./{} for the one here",
                                 script, script));
    }
    case ProgramKind::automatic:
      break;
  }
  if (runs_by_python(script, probe)) return by_python(program, environment, probe);
  const auto kind = probe(script);
  if (kind == FileKind::executable) return by_itself(program, script);
  if (bare && kind == FileKind::missing) {
    if (auto found = find_on_path(script, environment, probe)) return by_itself(program, *found);
  }
  return not_runnable(script, kind, false);
}

}  // namespace cpprun

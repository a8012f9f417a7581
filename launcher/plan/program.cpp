// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>
#include <utility>

#include "proto/text.h"

namespace cpprun {

std::optional<std::string> find_on_path(const std::string& name, const Environment& environment,
                                        const FileProbe& probe) {
  return look_up_on_path(name, environment, [&probe](const std::string& path) {
    return probe(path) == FileKind::executable;
  });
}

namespace {

constexpr std::array<std::string_view, 4> python_endings = {".py", ".pyc", ".pyz", ".pyw"};

bool runs_by_python(const std::string& script, const FileProbe& probe) {
  const bool ending = std::any_of(python_endings.begin(), python_endings.end(),
                                  [&](std::string_view each) { return script.ends_with(each); });
  // Python can also run a directory that contains __main__.py.
  return ending || (probe(script) == FileKind::directory &&
                    probe(script + "/__main__.py") != FileKind::missing);
}

// The root directory of the environment with `program` in its bin directory; empty if it is not in
// one.
std::string root_of(const std::string& program) {
  const auto slash = program.rfind('/');
  if (slash == std::string::npos) return "";
  const auto bin = program.substr(0, slash);
  return bin == "bin" ? "." : bin.ends_with("/bin") ? bin.substr(0, bin.size() - 4) : "";
}

std::string python_in(const std::string& root, const FileProbe& probe) {
  for (const char* name : {"python3", "python"}) {
    auto python = fmt::format("{}/bin/{}", root, name);
    if (probe(python) == FileKind::executable) return python;
  }
  return "";
}

std::string python_of(std::string_view variable, const Environment& environment,
                      const FileProbe& probe) {
  const auto* root = find_variable(environment, variable);
  if (root == nullptr || root->empty()) return "";
  return python_in(root->ends_with('/') ? root->substr(0, root->size() - 1) : *root, probe);
}

struct Python {
  std::string path;
  std::string note = {};
};

Result<Python> python_by_name(const std::string& wanted, const Environment& environment,
                              const FileProbe& probe) {
  if (wanted.find('/') == std::string::npos) {
    if (auto found = find_on_path(wanted, environment, probe)) return Python{*found};
  } else if (probe(wanted) == FileKind::executable) {
    return Python{wanted};
  }
  return failure(fmt::format(
      "PYTHON_EXEC=\"{}\" is not an executable program\n  hint: set it to the path of a Python "
      "interpreter",
      wanted));
}

// The Python of the environment in which this cpprun is installed, as for a torchrun installed
// there. Environments that pipx or uv created for a tool alone are not used.
std::string own_python(const std::vector<std::string>& own_paths, const FileProbe& probe) {
  for (const auto& path : own_paths) {
    const auto root = root_of(path);
    const bool is_for_a_tool = probe(root + "/pipx_metadata.json") != FileKind::missing ||
                               probe(root + "/uv-receipt.toml") != FileKind::missing;
    if (root.empty() || !is_in_environment(path, probe) || is_for_a_tool) continue;
    if (auto python = python_in(root, probe); !python.empty()) return python;
  }
  return "";
}

// conda activates its base environment in every shell, so this does not show a user's choice.
bool is_base(const Environment& environment) {
  const auto* name = find_variable(environment, "CONDA_DEFAULT_ENV");
  return name != nullptr && *name == "base";
}

std::string runs_by(const std::string& python, std::string_view why, std::string_view other) {
  return fmt::format("note: workers run with {} ({}), not with {}; set PYTHON_EXEC to change this",
                     python, why, other);
}

Result<Python> find_python(const Environment& environment,
                           const std::vector<std::string>& own_paths, const FileProbe& probe) {
  const auto* wanted = find_variable(environment, "PYTHON_EXEC");
  if (wanted != nullptr && !wanted->empty()) return python_by_name(*wanted, environment, probe);
  const auto of_venv = python_of("VIRTUAL_ENV", environment, probe);
  const auto of_conda = is_base(environment) ? "" : python_of("CONDA_PREFIX", environment, probe);
  if (auto own = own_python(own_paths, probe); !own.empty()) {
    const bool is_other = !of_venv.empty() && root_of(of_venv) != root_of(own);
    auto note = is_other ? runs_by(own, "next to cpprun", of_venv + " (VIRTUAL_ENV)") : "";
    return Python{std::move(own), std::move(note)};
  }
  std::string first;  // on PATH
  for (const char* name : {"python3", "python"}) {
    if (first.empty()) first = find_on_path(name, environment, probe).value_or("");
  }
  // If two environments are active, the one on PATH was activated last.
  const auto is_firsts = [&](const std::string& python) {
    return !python.empty() && root_of(python) == root_of(first);
  };
  if (is_firsts(of_venv) || is_firsts(of_conda)) return Python{first};
  for (const auto& [python, variable] :
       {std::pair{of_venv, "VIRTUAL_ENV"}, std::pair{of_conda, "CONDA_PREFIX"}}) {
    if (python.empty()) continue;
    // sudo and batch systems keep the variable and reset PATH.
    return Python{python, first.empty() ? "" : runs_by(python, variable, first + " (PATH)")};
  }
  if (!first.empty()) return Python{first};
  return failure(
      "found neither python3 nor python on PATH\n  hint: install Python, or set PYTHON_EXEC to its "
      "path");
}

// An error if a path was given where python -m expects a module name. torchrun passes it on
// unchecked.
std::optional<std::string> no_module_text(const std::string& name, const FileProbe& probe) {
  const bool is_path = name.find('/') != std::string::npos;
  const bool is_file = name.ends_with(".py") && probe(name) != FileKind::missing;
  if (!is_path && !is_file) return std::nullopt;
  auto module = name;
  while (module.starts_with("./")) module.erase(0, 2);
  if (module.ends_with(".py")) module.resize(module.size() - 3);
  while (module.ends_with('/')) module.pop_back();
  const bool can_be_named = !module.empty() && module.find("..") == std::string::npos &&
                            module.find('.') == std::string::npos && module.front() != '/';
  std::replace(module.begin(), module.end(), '/', '.');
  return fmt::format("-m {}: a path, not the name of a module\n  hint: remove -m{}", name,
                     can_be_named ? fmt::format(", or write -m {}", module) : "");
}

Result<ResolvedProgram> by_python(const Program& program, const Environment& environment,
                                  const std::vector<std::string>& own_paths,
                                  const FileProbe& probe) {
  const bool module = program.kind == ProgramKind::module;
  if (module) {
    if (auto wrong = no_module_text(program.script, probe)) return failure(*std::move(wrong));
  }
  if (!module && probe(program.script) == FileKind::missing) {
    return failure(fmt::format("cannot run \"{}\": no such file{}", program.script,
                               program.script.starts_with('/') ? "" : " in the working directory"));
  }
  auto python = find_python(environment, own_paths, probe);
  if (!python) return tl::unexpected(python.error());
  ResolvedProgram resolved{.argv = {python->path, "-u"},
                           .interpreter = python->path,
                           .entrypoint = program.script,
                           .note = std::move(python->note)};
  if (module) resolved.argv.emplace_back("-m");
  resolved.argv.push_back(program.script);
  return resolved;
}

ResolvedProgram by_itself(const Program& program, const std::string& path) {
  return {.argv = {path}, .interpreter = "", .entrypoint = program.script};
}

tl::unexpected<Error> not_runnable(const std::string& script, FileKind kind, bool by_itself_only) {
  if (kind == FileKind::missing) {
    return failure(fmt::format(
        "cannot run \"{}\": no such file{}", script,
        script.find('/') == std::string::npos ? " in the working directory or on PATH" : ""));
  }
  if (kind == FileKind::directory && by_itself_only) {
    return failure(
        fmt::format("cannot run \"{}\": --no-python needs a file, not a directory", script));
  }
  if (kind == FileKind::directory) {
    return failure(fmt::format("cannot run \"{}\": the directory has no __main__.py", script));
  }
  if (kind == FileKind::noexec) {
    return failure(
        fmt::format("cannot run \"{}\": its file system is mounted noexec\n  hint: copy the file "
                    "to another file system, or mount this one without noexec",
                    script));
  }
  return failure(
      fmt::format("cannot run \"{}\": not executable\n  hint: make the file executable (chmod +x), "
                  "or give a Python script a name that ends in .py",
                  script));
}

// How to run the file of that name in the current directory.
std::string here_text(const std::string& script, FileKind kind) {
  if (kind == FileKind::executable) {
    return fmt::format("use ./{} for the file in the working directory", script);
  }
  const bool is_python = script.ends_with(".py");
  if (is_python) return "remove --no-python to run the file in the working directory with Python";
  return fmt::format("run chmod +x {}, then use ./{} for the file in the working directory", script,
                     script);
}

// Whether a whole command was quoted as one argument, as in 'train.py --lr 1'.
bool is_command_in_quotes(const std::string& script, const Environment& environment,
                          const FileProbe& probe) {
  const auto blank = script.find(' ');
  if (blank == std::string::npos || probe(script) != FileKind::missing) return false;
  const auto first = script.substr(0, blank);
  return probe(first) != FileKind::missing || find_on_path(first, environment, probe).has_value();
}

}  // namespace

bool is_in_environment(const std::string& program, const FileProbe& probe) {
  const auto root = root_of(program);
  return !root.empty() && (probe(root + "/pyvenv.cfg") != FileKind::missing ||
                           probe(root + "/conda-meta") == FileKind::directory);
}

std::string command_text(const std::vector<std::string>& words) {
  std::string line;
  for (const auto& word : words) {
    const bool is_plain = !word.empty() && std::ranges::all_of(word, [](char byte) {
      return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
             (byte >= '0' && byte <= '9') ||
             std::string_view("_-./=:,@%+").find(byte) != std::string_view::npos;
    });
    line += (line.empty() ? "" : " ") + (is_plain ? word : shell_word(word));
  }
  return plain_line(line);
}

namespace {

// Wherever the hint stands: rather too much is hidden than too little.
bool hints_at_a_secret(std::string_view word) {
  std::string lower;
  for (const char byte : word) {
    lower += static_cast<char>(std::tolower(static_cast<unsigned char>(byte)));
  }
  const bool has_user = lower.find("://") != lower.npos && lower.find('@') != lower.npos;
  constexpr std::array hints = {"key",  "token", "secret", "pass",  "pwd",
                                "cred", "auth",  "bearer", "cookie"};
  return has_user || std::ranges::any_of(hints, [&](std::string_view hint) {
           return lower.find(hint) != std::string::npos;
         });
}

// "--api-key", "HF_TOKEN".
bool is_plain_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char byte) {
    return std::isalnum(byte) != 0 || byte == '-' || byte == '_' || byte == '.';
  });
}

}  // namespace

std::string public_command_text(const std::vector<std::string>& words) {
  constexpr std::size_t bytes_max = 397;  // without the "…" at the end
  constexpr std::string_view hidden = "…";
  bool hides_next = false;
  std::string line;
  for (const std::string& word : words) {
    line += line.empty() ? "" : " ";
    const bool is_value = std::exchange(hides_next, false) && !word.starts_with('-');
    if (&word == words.data() || (!is_value && !hints_at_a_secret(word))) {
      line += command_text({word});
      continue;
    }
    const std::string_view name = std::string_view(word).substr(0, word.find('='));
    if (is_value || !is_plain_name(name)) {
      line += hidden;
    } else if (name.size() < word.size()) {
      line += fmt::format("{}={}", name, hidden);
    } else if (word.starts_with('-')) {
      line += word;
      hides_next = true;
    } else {
      line += hidden;
    }
  }
  return plain_line(line, bytes_max);
}

Result<ResolvedProgram> resolve_program(const Program& program, const Environment& environment,
                                        const FileProbe& probe,
                                        const std::vector<std::string>& own_paths) {
  const auto& script = program.script;
  const bool bare = script.find('/') == std::string::npos;
  if (is_command_in_quotes(script, environment, probe)) {
    return failure(
        fmt::format("cannot run \"{}\": no such program\n  hint: remove the quotes; the program "
                    "and its arguments are separate words",
                    script));
  }
  switch (program.kind) {
    case ProgramKind::python:
    case ProgramKind::module:
      return by_python(program, environment, own_paths, probe);
    case ProgramKind::no_python: {
      const auto kind = probe(script);
      if (!bare && kind == FileKind::executable) return by_itself(program, script);
      if (!bare) return not_runnable(script, kind, true);
      if (auto found = find_on_path(script, environment, probe)) return by_itself(program, *found);
      if (kind == FileKind::directory) return not_runnable(script, kind, true);
      if (kind == FileKind::missing) return not_runnable(script, kind, true);
      return failure(fmt::format(
          "cannot run \"{}\": not found on PATH (--no-python searches only PATH)\n  hint: {}",
          script, here_text(script, kind)));
    }
    case ProgramKind::automatic:
      break;
  }
  if (runs_by_python(script, probe)) return by_python(program, environment, own_paths, probe);
  const auto kind = probe(script);
  if (kind == FileKind::executable) return by_itself(program, script);
  if (bare && kind == FileKind::missing) {
    if (auto found = find_on_path(script, environment, probe)) return by_itself(program, *found);
  }
  return not_runnable(script, kind, false);
}

}  // namespace cpprun

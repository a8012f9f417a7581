// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Python workers that have the probe, with every Python of this machine.

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "launcher/hang/probe.h"
#include "launcher/workers/io/spawn.h"
#include "tests/launcher/hang/io/hang_probe.h"

namespace cpprun::probe {

inline std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

// CPPRUN_TEST_PYTHON, and those of 3.9 and newer in the directories of the system and of pyenv.
inline std::vector<std::string> pythons() {
  std::vector<std::string> found;
  const auto add = [&](const std::filesystem::path& path) {
    std::error_code error;
    if (std::filesystem::exists(path, error)) found.push_back(path.string());
  };
  if (const auto own = variable("CPPRUN_TEST_PYTHON"); !own.empty()) add(own);
  for (int minor = 9; minor <= 20; ++minor) {
    const std::string version = "3." + std::to_string(minor);
    add("/usr/bin/python" + version);
    add("/usr/local/bin/python" + version);
    std::error_code error;
    for (const auto& entry :
         std::filesystem::directory_iterator(variable("HOME") + "/.pyenv/versions", error)) {
      if (entry.path().filename().string().starts_with(version + ".")) {
        add(entry.path() / "bin/python3");
      }
    }
  }
  return found;
}

// A Python worker that has the probe; `users` is its own PYTHONPATH. The probe's directory is one
// `below` that of the worker, if that is not empty.
struct PythonWorker {
  PythonWorker(const std::string& python, const std::string& script, const std::string& users = {},
               std::vector<std::string> flags = {}, const std::string& below = {}) {
    const std::string own = directory.path + (below.empty() ? "" : "/" + below);
    directory.file(below + "/" + std::string(hang::probe_file), hang::probe_source);
    socket = *hang::probe_socket(own, LocalRank{0});
    auto spec = spec_for({python});
    for (auto& flag : flags) spec.argv.push_back(std::move(flag));
    spec.argv.push_back(directory.file("train/train.py", script));
    spec.out.target = StreamTarget::tee;
    spec.variables = {{"PATH", variable("PATH")}, {"PYTHONPATH", users}};
    hang::add_probe(spec.variables, {}, own, socket);
    const auto child =
        io::spawn_process(spec, out.in(), out.in(), {.is_traceable = true, .inherited = {}});
    if (!child) std::abort();
    pid = child->pid;
    if (child->pidfd >= 0) ::close(child->pidfd);
    out.close_in();
  }
  ~PythonWorker() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  PythonWorker(const PythonWorker&) = delete;
  PythonWorker& operator=(const PythonWorker&) = delete;

  PrivateDirectory directory;
  Pipe out;
  std::string socket;
  int pid = 0;
};

}  // namespace cpprun::probe

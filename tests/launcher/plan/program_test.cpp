// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/program.h"

#include <doctest/doctest.h>

#include <map>

using namespace cpprun;

namespace {

const Environment with_path = {{"PATH", "/opt/venv/bin:/usr/bin"}};

FileKind probe(const std::string& path) {
  static const std::map<std::string, FileKind> disk = {
      {"train.py", FileKind::plain},
      {"train", FileKind::executable},
      {"./train", FileKind::executable},
      {"data.txt", FileKind::plain},
      {"package", FileKind::directory},
      {"package/__main__.py", FileKind::plain},
      {"folder", FileKind::directory},
      {"./package/", FileKind::directory},
      {"./locked", FileKind::noexec},
      {"/usr/bin/python3", FileKind::executable},
      {"/usr/bin/hostname", FileKind::executable},
      {"/opt/venv/bin/python", FileKind::executable},
      {"/opt/py/python3.12", FileKind::executable},
  };
  const auto found = disk.find(path);
  return found == disk.end() ? FileKind::missing : found->second;
}

Result<ResolvedProgram> resolve(ProgramKind kind, const std::string& script,
                                const Environment& environment = with_path) {
  return resolve_program({kind, script, {}}, environment, probe);
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE(
    "a Python script goes through the PATH's Python, unbuffered, and the report knows which") {
  const auto script = resolve(ProgramKind::automatic, "train.py");
  REQUIRE(script.has_value());
  CHECK(script->argv == Words{"/usr/bin/python3", "-u", "train.py"});
  CHECK(script->interpreter == "/usr/bin/python3");
  CHECK(script->entrypoint == "train.py");
  CHECK(resolve(ProgramKind::automatic, "package")->argv.back() == "package");
}

TEST_CASE("a Python that is none of the active environment's is told, and how to have the other") {
  Environment environment = {{"PATH", "/usr/bin:/opt/venv/bin"}, {"VIRTUAL_ENV", "/opt/venv"}};
  CHECK(resolve(ProgramKind::automatic, "train.py", environment)->note ==
        "VIRTUAL_ENV=/opt/venv is active, but the workers run by /usr/bin/python3, which comes "
        "first on PATH; if its modules are missed, set PYTHON_EXEC=/opt/venv/bin/python or put "
        "/opt/venv/bin first on PATH");
  CHECK(resolve(ProgramKind::automatic, "train", environment)->note == "");
  environment["PYTHON_EXEC"] = "/opt/py/python3.12";
  CHECK(resolve(ProgramKind::automatic, "train.py", environment)->note == "");
  CHECK(
      resolve(ProgramKind::automatic, "train.py", {{"PATH", "/usr/bin"}, {"VIRTUAL_ENV", "/gone"}})
          ->note == "");
}

TEST_CASE("--no-python speaks of a folder as what it is") {
  CHECK(resolve(ProgramKind::no_python, "./package/").error().reason.find("__main__") ==
        std::string::npos);
  CHECK(resolve(ProgramKind::no_python, "folder").error().reason ==
        "cannot run \"folder\": it is a folder, and --no-python executes a file");
}

TEST_CASE("PYTHON_EXEC overrides the PATH, by path or by name") {
  CHECK(resolve(ProgramKind::automatic, "train.py", {{"PYTHON_EXEC", "/opt/py/python3.12"}})
            ->interpreter == "/opt/py/python3.12");
  CHECK(resolve(ProgramKind::automatic, "train.py",
                {{"PYTHON_EXEC", "python"}, {"PATH", "/opt/venv/bin"}})
            ->interpreter == "/opt/venv/bin/python");
  CHECK(resolve(ProgramKind::automatic, "train.py", {{"PYTHON_EXEC", "/nowhere"}}).error().reason ==
        "PYTHON_EXEC=\"/nowhere\" is not an executable program; give the path of a Python");
}

TEST_CASE("a module is run with -m") {
  CHECK(resolve(ProgramKind::module, "pkg.train")->argv ==
        Words{"/usr/bin/python3", "-u", "-m", "pkg.train"});
}

TEST_CASE("an executable is executed, no flag needed, from here or from the PATH") {
  CHECK(resolve(ProgramKind::automatic, "./train")->argv == Words{"./train"});
  CHECK(resolve(ProgramKind::automatic, "train")->argv == Words{"train"});
  CHECK(resolve(ProgramKind::automatic, "hostname")->argv == Words{"/usr/bin/hostname"});
  CHECK(resolve(ProgramKind::automatic, "hostname")->interpreter.empty());
  CHECK(resolve(ProgramKind::no_python, "hostname")->argv == Words{"/usr/bin/hostname"});
}

TEST_CASE("what cannot be run is refused with path and cure") {
  CHECK(resolve(ProgramKind::automatic, "gone.py").error().reason ==
        "cannot run \"gone.py\": no such file, seen from the folder cpprun was started in");
  CHECK(resolve(ProgramKind::automatic, "./gone").error().reason ==
        "cannot run \"./gone\": no such file");
  CHECK(resolve(ProgramKind::automatic, "gone").error().reason ==
        "cannot run \"gone\": no such file, neither here nor on PATH");
  CHECK(resolve(ProgramKind::automatic, "data.txt").error().reason ==
        "cannot run \"data.txt\": it is not executable; chmod +x it, or give a Python script a "
        "name that ends in .py");
  CHECK(resolve(ProgramKind::automatic, "folder").error().reason ==
        "cannot run \"folder\": it is a folder without a __main__.py");
  CHECK(resolve(ProgramKind::no_python, "train").error().reason ==
        "cannot run \"train\": it is not on PATH; say ./train for the one here");
  CHECK(resolve(ProgramKind::automatic, "train.py", {{"PATH", "/empty"}}).error().reason ==
        "there is no python3 and no python on PATH to run a Python script with; install one, or "
        "set PYTHON_EXEC to its path");
}

TEST_CASE("a program on a disk without execution is not told to chmod") {
  for (const auto kind : {ProgramKind::automatic, ProgramKind::no_python}) {
    CHECK(resolve(kind, "./locked").error().reason ==
          "cannot run \"./locked\": its file system is mounted noexec; copy it to a disk that "
          "allows execution, or mount that one without noexec");
  }
  // Python only reads it.
  CHECK(resolve(ProgramKind::python, "./locked").has_value());
}

TEST_CASE("with a run path any file goes through Python") {
  CHECK(resolve(ProgramKind::python, "data.txt")->argv ==
        Words{"/usr/bin/python3", "-u", "data.txt"});
  CHECK_FALSE(resolve(ProgramKind::python, "missing.txt").has_value());
}

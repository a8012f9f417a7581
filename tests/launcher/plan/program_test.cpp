// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/program.h"

#include <doctest/doctest.h>

#include <map>

namespace program_test {

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
      {"scripts", FileKind::directory},
      {"./package/", FileKind::directory},
      {"./locked", FileKind::noexec},
      {"/usr/bin/python3", FileKind::executable},
      {"/usr/bin/hostname", FileKind::executable},
      {"/opt/venv/bin/python", FileKind::executable},
      {"/opt/py/python3.12", FileKind::executable},
      {"/opt/venv/pyvenv.cfg", FileKind::plain},
      {"/opt/tool/bin/python", FileKind::executable},
      {"/opt/tool/pyvenv.cfg", FileKind::plain},
      {"/opt/tool/pipx_metadata.json", FileKind::plain},
      {"/opt/conda/envs/a/bin/python3", FileKind::executable},
      {"/opt/conda/envs/a/conda-meta", FileKind::directory},
      {"pkg/main.py", FileKind::plain},
      {"job.sh", FileKind::plain},
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

TEST_CASE("a Python script runs in the PATH's Python, unbuffered, and the report names it") {
  const auto script = resolve(ProgramKind::automatic, "train.py");
  REQUIRE(script.has_value());
  CHECK(script->argv == Words{"/usr/bin/python3", "-u", "train.py"});
  CHECK(script->interpreter == "/usr/bin/python3");
  CHECK(script->entrypoint == "train.py");
  CHECK(resolve(ProgramKind::automatic, "package")->argv.back() == "package");
}

std::string python(const Environment& environment, const std::vector<std::string>& own_paths = {}) {
  return resolve_program({ProgramKind::automatic, "train.py", {}}, environment, probe, own_paths)
      ->interpreter;
}

std::string note(const Environment& environment, const std::vector<std::string>& own_paths = {}) {
  return resolve_program({ProgramKind::automatic, "train.py", {}}, environment, probe, own_paths)
      ->note;
}

TEST_CASE("a cpprun in an environment runs scripts with that environment's Python") {
  const Environment system = {{"PATH", "/usr/bin"}};
  CHECK(python(system, {"/opt/venv/bin/cpprun"}) == "/opt/venv/bin/python");
  CHECK(python(system, {"/usr/local/bin/cpprun", "/opt/venv/bin/cpprun"}) ==
        "/opt/venv/bin/python");
  CHECK(python(system, {"/opt/conda/envs/a/bin/cpprun"}) == "/opt/conda/envs/a/bin/python3");
  CHECK(note(system, {"/opt/venv/bin/cpprun"}).empty());
  CHECK(python(system, {"/usr/bin/cpprun", "/build/launcher/cpprun"}) == "/usr/bin/python3");
  // pipx and uv give each tool an environment of its own, with nothing else in it.
  CHECK(python(system, {"/opt/tool/bin/cpprun"}) == "/usr/bin/python3");
  Environment chosen = system;
  chosen["PYTHON_EXEC"] = "/opt/py/python3.12";
  CHECK(python(chosen, {"/opt/venv/bin/cpprun"}) == "/opt/py/python3.12");
  chosen = {{"PATH", "/usr/bin"}, {"VIRTUAL_ENV", "/opt/venv"}};
  CHECK(python(chosen, {"/opt/conda/envs/a/bin/cpprun"}) == "/opt/conda/envs/a/bin/python3");
  CHECK(note(chosen, {"/opt/conda/envs/a/bin/cpprun"}) ==
        "note: workers run with /opt/conda/envs/a/bin/python3 (next to cpprun), not with "
        "/opt/venv/bin/python (VIRTUAL_ENV); set PYTHON_EXEC to change this");
}

TEST_CASE("an active environment's Python takes precedence over the PATH's") {
  const Environment venv = {{"PATH", "/usr/bin"}, {"VIRTUAL_ENV", "/opt/venv/"}};
  CHECK(python(venv) == "/opt/venv/bin/python");
  CHECK(note(venv) ==
        "note: workers run with /opt/venv/bin/python (VIRTUAL_ENV), not with /usr/bin/python3 "
        "(PATH); set PYTHON_EXEC to change this");
  CHECK(python({{"PATH", "/usr/bin"}, {"CONDA_PREFIX", "/opt/conda/envs/a"}}) ==
        "/opt/conda/envs/a/bin/python3");
  CHECK(python({{"PATH", "/usr/bin"},
                {"CONDA_PREFIX", "/opt/conda/envs/a"},
                {"CONDA_DEFAULT_ENV", "base"}}) == "/usr/bin/python3");
  // An environment activated inside another: the later one is on PATH.
  const Environment both = {{"PATH", "/opt/conda/envs/a/bin:/opt/venv/bin"},
                            {"VIRTUAL_ENV", "/opt/venv"},
                            {"CONDA_PREFIX", "/opt/conda/envs/a"}};
  CHECK(python(both) == "/opt/conda/envs/a/bin/python3");
  CHECK(note(both).empty());
  CHECK(python({{"PATH", "/usr/bin"}, {"VIRTUAL_ENV", "/gone"}}) == "/usr/bin/python3");
  CHECK(note({{"PATH", "/usr/bin"}, {"VIRTUAL_ENV", "/gone"}}).empty());
}

TEST_CASE("a path instead of a module is rejected before anything starts") {
  const auto why = [](const std::string& name) {
    const auto resolved = resolve(ProgramKind::module, name);
    return resolved ? std::string() : resolved.error().reason;
  };
  CHECK(why("train.py") ==
        "-m train.py: a path, not the name of a module\n  hint: remove -m, or write -m train");
  CHECK(why("pkg/main.py").ends_with("remove -m, or write -m pkg.main"));
  CHECK(why("./train").ends_with("remove -m, or write -m train"));
  CHECK(why("/opt/train.py").ends_with("hint: remove -m"));
  CHECK(why("pkg.py").empty());  // may be a module py of a package pkg
  CHECK(why("torch.distributed.run").empty());
}

TEST_CASE("--no-python suggests how to run a file that is not on PATH") {
  const auto why = [](const std::string& script) {
    return resolve(ProgramKind::no_python, script).error().reason;
  };
  CHECK(why("job.sh") ==
        "cannot run \"job.sh\": not found on PATH (--no-python searches only PATH)\n  hint: run "
        "chmod +x job.sh, then use ./job.sh for the file in the working directory");
  CHECK(why("train.py")
            .ends_with("hint: remove --no-python to run the file in the working directory with "
                       "Python"));
  CHECK(why("hostname -f")
            .ends_with("remove the quotes; the program and its arguments are separate words"));
  CHECK(why("gone") == "cannot run \"gone\": no such file in the working directory or on PATH");
}

TEST_CASE("a quoted command is rejected with a suggestion, whatever the program kind") {
  for (const auto kind : {ProgramKind::automatic, ProgramKind::python}) {
    const auto resolved = resolve(kind, "train.py --lr 1");
    REQUIRE_FALSE(resolved);
    CHECK(resolved.error().reason.find("hint: remove the quotes") != std::string::npos);
  }
}

TEST_CASE("--no-python reports a directory as one") {
  CHECK(resolve(ProgramKind::no_python, "./package/").error().reason.find("__main__") ==
        std::string::npos);
  CHECK(resolve(ProgramKind::no_python, "scripts").error().reason ==
        "cannot run \"scripts\": --no-python needs a file, not a directory");
}

TEST_CASE("PYTHON_EXEC overrides the PATH, by path or by name") {
  CHECK(resolve(ProgramKind::automatic, "train.py", {{"PYTHON_EXEC", "/opt/py/python3.12"}})
            ->interpreter == "/opt/py/python3.12");
  CHECK(resolve(ProgramKind::automatic, "train.py",
                {{"PYTHON_EXEC", "python"}, {"PATH", "/opt/venv/bin"}})
            ->interpreter == "/opt/venv/bin/python");
  CHECK(resolve(ProgramKind::automatic, "train.py", {{"PYTHON_EXEC", "/nowhere"}}).error().reason ==
        "PYTHON_EXEC=\"/nowhere\" is not an executable program\n  hint: set it to the path of a "
        "Python interpreter");
}

TEST_CASE("a module is run with -m") {
  CHECK(resolve(ProgramKind::module, "pkg.train")->argv ==
        Words{"/usr/bin/python3", "-u", "-m", "pkg.train"});
}

TEST_CASE("an executable runs without a flag, from here or from the PATH") {
  CHECK(resolve(ProgramKind::automatic, "./train")->argv == Words{"./train"});
  CHECK(resolve(ProgramKind::automatic, "train")->argv == Words{"train"});
  CHECK(resolve(ProgramKind::automatic, "hostname")->argv == Words{"/usr/bin/hostname"});
  CHECK(resolve(ProgramKind::automatic, "hostname")->interpreter.empty());
  CHECK(resolve(ProgramKind::no_python, "hostname")->argv == Words{"/usr/bin/hostname"});
}

TEST_CASE("a program that cannot be run is rejected with its path and a hint") {
  CHECK(resolve(ProgramKind::automatic, "gone.py").error().reason ==
        "cannot run \"gone.py\": no such file in the working directory");
  CHECK(resolve(ProgramKind::automatic, "./gone").error().reason ==
        "cannot run \"./gone\": no such file");
  CHECK(resolve(ProgramKind::automatic, "gone").error().reason ==
        "cannot run \"gone\": no such file in the working directory or on PATH");
  CHECK(resolve(ProgramKind::automatic, "data.txt").error().reason ==
        "cannot run \"data.txt\": not executable\n  hint: make the file executable (chmod +x), or "
        "give a Python script a name that ends in .py");
  CHECK(resolve(ProgramKind::automatic, "scripts").error().reason ==
        "cannot run \"scripts\": the directory has no __main__.py");
  CHECK(resolve(ProgramKind::no_python, "train").error().reason ==
        "cannot run \"train\": not found on PATH (--no-python searches only PATH)\n  hint: use "
        "./train for the file in the working directory");
  CHECK(resolve(ProgramKind::automatic, "train.py", {{"PATH", "/empty"}}).error().reason ==
        "found neither python3 nor python on PATH\n  hint: install Python, or set PYTHON_EXEC to "
        "its path");
}

TEST_CASE("a program on a noexec file system gets no hint about chmod") {
  for (const auto kind : {ProgramKind::automatic, ProgramKind::no_python}) {
    CHECK(resolve(kind, "./locked").error().reason ==
          "cannot run \"./locked\": its file system is mounted noexec\n  hint: copy the file to "
          "another file system, or mount this one without noexec");
  }
  // Python only reads it.
  CHECK(resolve(ProgramKind::python, "./locked").has_value());
}

TEST_CASE("a public command is quoted, short and without secrets") {
  CHECK(public_command_text({"python3", "-u", "train.py", "--name=two words"}) ==
        "python3 -u train.py '--name=two words'");
  CHECK(public_command_text(
            {"env", "HF_TOKEN=abc", "./t", "--api-key=s3", "--Password", "x y", "--lr", "0.1"}) ==
        "env HF_TOKEN=… ./t --api-key=… --Password … --lr 0.1");
  CHECK(public_command_text({"t", "--token", "--lr=1"}) == "t --token --lr=1");
  CHECK(public_command_text({"bash", "-c", "LR=1 HF_TOKEN=x t --lr=1"}) == "bash -c LR=…");
  CHECK(public_command_text({"t", "--db", "postgresql://u:pw@h", "--header", "Authorization: x",
                             "--config={\"api_key\":\"x\"}", "--url=https://u:p@h"}) ==
        "t --db … --header … --config=… --url=…");
  CHECK(public_command_text({"./tokenize", "corpus.txt", "my-secret"}) ==
        "./tokenize corpus.txt …");
  const std::string long_one = public_command_text({"t", std::string(1000, 'x')});
  CHECK(long_one.size() <= 400);
  CHECK(long_one.ends_with("…"));
}

TEST_CASE("with a run path any file goes through Python") {
  CHECK(resolve(ProgramKind::python, "data.txt")->argv ==
        Words{"/usr/bin/python3", "-u", "data.txt"});
  CHECK_FALSE(resolve(ProgramKind::python, "missing.txt").has_value());
}

}  // namespace program_test

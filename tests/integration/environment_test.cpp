// SPDX-License-Identifier: BSD-3-Clause
// What a worker gets: its variables, its arguments, its interpreter; and the errors of bad
// arguments.

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/integration/command.h"
#include "tests/integration/directory.h"

namespace environment_test {

using namespace cpprun::integration;

namespace {

Words with_worker(Words options, const Words& actions) {
  options.push_back(worker());
  options.insert(options.end(), actions.begin(), actions.end());
  return with_cpprun(options);
}

// The lines NAME=… that several workers printed.
std::set<std::string> values_of(const std::string& said, const std::string& name) {
  std::set<std::string> values;
  for (auto at = said.find(name + "="); at != std::string::npos;
       at = said.find(name + "=", at + 1)) {
    if (at != 0 && said[at - 1] != '\n') continue;
    const auto begin = at + name.size() + 1;
    values.insert(said.substr(begin, said.find('\n', at) - begin));
  }
  return values;
}

using Values = std::set<std::string>;

}  // namespace

TEST_CASE("a worker has every variable that torchrun's workers have") {
  const auto said = run(with_worker({"--standalone", "--nproc-per-node=2", "--role=trainer",
                                     "--max-restarts=4", "--rdzv-id=ignored"},
                                    {"environment"}))
                        .out;
  CHECK(values_of(said, "RANK") == Values{"0", "1"});
  CHECK(values_of(said, "LOCAL_RANK") == Values{"0", "1"});
  CHECK(values_of(said, "ROLE_RANK") == Values{"0", "1"});
  CHECK(values_of(said, "GROUP_RANK") == Values{"0"});
  CHECK(values_of(said, "ROLE_NAME") == Values{"trainer"});
  CHECK(values_of(said, "WORLD_SIZE") == Values{"2"});
  CHECK(values_of(said, "LOCAL_WORLD_SIZE") == Values{"2"});
  CHECK(values_of(said, "GROUP_WORLD_SIZE") == Values{"1"});
  CHECK(values_of(said, "ROLE_WORLD_SIZE") == Values{"2"});
  CHECK(values_of(said, "MASTER_ADDR").size() == 1);
  CHECK(values_of(said, "MASTER_PORT").size() == 1);
  CHECK(values_of(said, "TORCHELASTIC_RESTART_COUNT") == Values{"0"});
  CHECK(values_of(said, "TORCHELASTIC_MAX_RESTARTS") == Values{"4"});
  CHECK(values_of(said, "TORCHELASTIC_RUN_ID").size() == 1);
  CHECK(values_of(said, "TORCHELASTIC_USE_AGENT_STORE") == Values{"True"});
  CHECK(values_of(said, "TORCHELASTIC_ERROR_FILE").size() == 2);
  CHECK(values_of(said, "TORCHELASTIC_SIGNALS_TO_HANDLE") ==
        Values{"SIGTERM,SIGINT,SIGHUP,SIGQUIT"});
  CHECK(values_of(said, "TORCH_NCCL_ASYNC_ERROR_HANDLING") == Values{"1"});
  CHECK(values_of(said, "OMP_NUM_THREADS") == Values{"1"});
  CHECK(values_of(said, "GLOO_SOCKET_IFNAME") == Values{"lo"});
}

TEST_CASE("variables that the user has set are passed on unchanged") {
  const Options options{.variables = {{"OMP_NUM_THREADS", "5"},
                                      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "0"},
                                      {"MY_OWN", "kept"}}};
  const auto said = run(with_worker({"--nproc-per-node=2"}, {"environment"}), options).out;
  CHECK(values_of(said, "OMP_NUM_THREADS") == Values{"5"});
  CHECK(values_of(said, "TORCH_NCCL_ASYNC_ERROR_HANDLING") == Values{"0"});
  CHECK(values_of(said, "MY_OWN") == Values{"kept"});
}

TEST_CASE("a single worker keeps OMP_NUM_THREADS unset, as torchrun does") {
  const auto said = run(with_worker({"--standalone"}, {"environment"})).out;
  CHECK(values_of(said, "OMP_NUM_THREADS") == Values{});
}

TEST_CASE("the macro of the local rank is replaced in arguments; other dollars stay") {
  const auto ended = run(with_worker(
      {"--standalone", "--nproc-per-node=2"},
      {"arguments", "--gpu=$local_rank", "${local_rank}x", "$HOME", "$$5", "--nnodes=9"}));
  CHECK(contains(ended.out, "argument --gpu=0\n"));
  CHECK(contains(ended.out, "argument --gpu=1\n"));
  CHECK(contains(ended.out, "argument 1x\n"));
  CHECK(count(ended.out, "argument $HOME\n") == 2);
  CHECK(count(ended.out, "argument $5\n") == 2);
  CHECK(count(ended.out, "argument --nnodes=9\n") == 2);
}

TEST_CASE("flags may come from PET variables, and the command line takes precedence") {
  const Options options{.variables = {{"PET_NPROC_PER_NODE", "3"}, {"PET_ROLE", "from_pet"}}};
  const auto said =
      run(with_worker({"--standalone", "--role=typed"}, {"environment"}), options).out;
  CHECK(values_of(said, "WORLD_SIZE") == Values{"3"});
  CHECK(values_of(said, "ROLE_NAME") == Values{"typed"});
}

TEST_CASE("a cpprun that was installed into an environment runs that environment's Python") {
  const Directory directory;
  namespace fs = std::filesystem;
  fs::create_directory(directory.path() + "/bin");
  directory.write("pyvenv.cfg", "");
  fs::copy_file(from_build("CPPRUN"), directory.path() + "/bin/cpprun");
  const auto python = directory.write("bin/python3", "#!/bin/sh\necho \"runs $*\"\n");
  fs::permissions(python, fs::perms::owner_all);
  const auto script = directory.write("train.py", "");
  const auto ended = run({directory.path() + "/bin/cpprun", "--standalone", script},
                         {.variables = {{"VIRTUAL_ENV", ""}, {"PYTHON_EXEC", ""}}});
  CHECK_MESSAGE(ended.code == 0, ended.err);
  CHECK_MESSAGE(contains(ended.out, "runs -u " + script), ended.out);
}

TEST_CASE("a .py file and -m run through the Python on PATH, or through PYTHON_EXEC") {
  Directory directory;
  const auto script = directory.write("hello.py", "import sys\nprint('hello from', sys.argv)\n");
  const auto by_path = run(with_cpprun({"--standalone", script, "--x"}));
  CHECK(by_path.code == 0);
  CHECK(contains(by_path.out, "hello from ['" + script + "', '--x']"));
  const Options in_directory{.variables = {{"PYTHONPATH", directory.path()}}};
  CHECK(
      contains(run(with_cpprun({"--standalone", "-m", "hello"}), in_directory).out, "hello from"));
  const auto fake = directory.write("fake_python", "#!/bin/sh\necho \"fake python $*\"\n");
  directory.make_executable("fake_python");
  const Options by_choice{.variables = {{"PYTHON_EXEC", fake}}};
  CHECK(contains(run(with_cpprun({"--standalone", script}), by_choice).out,
                 "fake python -u " + script));
}

TEST_CASE("an executable that is not a .py file runs without any flag") {
  Directory directory;
  const auto program = directory.write("train", "#!/bin/sh\necho \"training $1\"\n");
  directory.make_executable("train");
  CHECK(run(with_cpprun({"--standalone", program, "--fast"})).out == "training --fast\n");
}

TEST_CASE("all errors of the command line are reported together, and nothing starts") {
  const auto ended = run(with_worker({"--nnodes=2:1", "--rdzv-conf=foo", "--nproc-per-node=many",
                                      "--redirects=9", "--max-restarts=-1"},
                                     {"say", "started"}));
  CHECK(ended.code == 2);
  CHECK(ended.out == "");
  for (const auto* flag :
       {"--nnodes", "--rdzv-conf", "--nproc-per-node", "--redirects", "--max-restarts"}) {
    CHECK_MESSAGE(contains(ended.err, flag), flag, " is not in:\n", ended.err);
  }
}

TEST_CASE("a missing script is an error that names it, and nothing starts") {
  const auto ended = run(with_cpprun({"--standalone", "no_such_script.py"}));
  CHECK(ended.code == 2);
  CHECK(contains(ended.err, "no_such_script.py"));
  CHECK(run(with_cpprun({"--standalone"})).code == 2);
  CHECK(run(with_cpprun({"--no-such-flag", "x.py"})).code == 2);
}

TEST_CASE("--help and --version print to stdout and exit with 0") {
  const auto help = run(with_cpprun({"--help"}));
  CHECK(help.code == 0);
  CHECK(contains(help.out, "--nproc"));
  CHECK(contains(help.out, "--master"));
  CHECK(help.err == "");
  CHECK(run(with_cpprun({"--version"})).code == 0);
}

TEST_CASE("a missing interface is rejected before the start, with a list of those that exist") {
  const Options options{.variables = {{"GLOO_SOCKET_IFNAME", "nope0"}}};
  const auto ended = run(with_worker({"--nproc-per-node=2"}, {"say", "started"}), options);
  CHECK(ended.code != 0);
  CHECK(ended.out == "");
  CHECK(contains(ended.err, "nope0"));
  CHECK(contains(ended.err, "lo"));
}

TEST_CASE("a TMPDIR that does not exist on this node causes a note, and the job runs") {
  for (const Words& options : {Words{"--standalone"}, Words{"--standalone", "-r", "3"}}) {
    const auto ended =
        run(with_worker(options, {"exit", "0"}), {.variables = {{"TMPDIR", "/nowhere/at/all"}}});
    CHECK(ended.code == 0);
    CHECK(contains(ended.err,
                   "cpprun: note: TMPDIR=/nowhere/at/all cannot be used (No such file or "
                   "directory); cpprun uses /tmp on this node"));
  }
}

TEST_CASE("--nproc-per-node=cpu counts the processors that cpprun may run on") {
  auto words = with_worker({"--standalone", "--nproc-per-node=cpu"}, {"environment"});
  words.insert(words.begin(), {"taskset", "-c", "0"});
  const auto ended = run(words);
  CHECK(ended.code == 0);
  CHECK(values_of(ended.out, "WORLD_SIZE") == Values{"1"});
}

TEST_CASE("an operator's PET_ variables do not stop a command that overrides them") {
  const auto ended =
      run(with_worker({"--standalone", "--nnodes=1"}, {"environment"}),
          {.variables = {{"PET_NODE_RANK", "3"}, {"PET_NNODES", "4"}, {"PET_NO_PYTHON", "0"}}});
  CHECK(ended.code == 0);
  CHECK(values_of(ended.out, "GROUP_RANK") == Values{"0"});
  CHECK(contains(ended.err, "cpprun: note: PET_NODE_RANK=3 is ignored: --standalone takes"));
}

}  // namespace environment_test

// SPDX-License-Identifier: BSD-3-Clause
// The workers' output passes through cpprun, byte by byte, so that the report has its last lines;
// if stderr is a terminal, through a pseudo-terminal.

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <string>

#include "tests/integration/command.h"
#include "tests/integration/directory.h"

namespace words_test {

using namespace cpprun::integration;

namespace {

// cpprun as a shell would start it with those redirections, with two workers that are shells.
Ended shell(const std::string& flags, const std::string& script, const std::string& redirections) {
  const Directory directory;
  const auto path = directory.write("worker.sh", "#!/bin/sh\n" + script);
  directory.make_executable("worker.sh");
  return run(
      {"sh", "-c",
       "exec " + from_build("CPPRUN") + " --standalone " + flags + " " + path + " " + redirections},
      {.variables = {{"OMP_NUM_THREADS", "1"}}});
}

// Lines on both streams in turn, the last without an end, and no line where only a rank is meant.
std::string both_streams(int lines) {
  return "i=0; while [ $i -lt " + std::to_string(lines) +
         " ]; do echo \"out $i\"; echo \"err $i\" >&2; i=$((i+1)); done; printf 'no end' >&2";
}

std::string as_written(int lines) {
  std::string text;
  for (int i = 0; i < lines; ++i) {
    text += "out " + std::to_string(i) + "\nerr " + std::to_string(i) + "\n";
  }
  return text + "no end";
}

const Options at_terminal{.variables = {{"OMP_NUM_THREADS", "1"}}, .on_terminal = true};

// A rank that only noticed a failure ends first, once the failing rank is ready for it; that one
// prints its cause when it is asked to end. `ready` is a named pipe.
std::string noticed_first(const std::string& ready) {
  return "if [ $RANK = 1 ]; then\n"
         "  read line <" +
         ready +
         "\n"
         "  echo 'RuntimeError: [pair.cc:534] Connection reset by peer' >&2; exit 1\n"
         "fi\n"
         "trap 'echo \"Traceback (most recent call last):\" >&2\n"
         "      echo \"ValueError: bad label 17\" >&2; exit 7' TERM\n"
         "echo >" +
         ready +
         "\n"
         "while :; do sleep 1 & wait; done\n";
}

}  // namespace

TEST_CASE("a rank that only noticed the end of another is not the cause, though nothing is tee'd") {
  const Directory directory;
  const auto ready = directory.path() + "/ready";
  REQUIRE(::mkfifo(ready.c_str(), 0600) == 0);
  const auto ended = shell("--nproc-per-node=2", noticed_first(ready), "2>&1");
  CHECK_MESSAGE(contains(ended.out, "failed: rank 0 "), ended.out);
  CHECK(contains(ended.out, "[python_exception]"));
  CHECK(contains(ended.out,
                 "as a consequence of the failure of rank 0: a peer closed the connection"));
  CHECK(ended.code == 7);
}

TEST_CASE("the last output of an untee'd worker is in the report, and on the console unchanged") {
  const auto ended = shell("", "echo 'no such shard: 17' >&2; exit 3", "");
  CHECK(ended.code == 3);
  CHECK(ended.err.starts_with("no such shard: 17\n"));
  CHECK(contains(ended.err, "last lines of its stderr:\n    no such shard: 17\n"));
}

TEST_CASE("a missing Python module is reported as such") {
  const Directory directory;
  const auto script = directory.write("train.py", "import no_such_module_at_all\n");
  const auto python = from_build("CPPRUN_PYTHON");
  const auto ended = run(with_cpprun({"--standalone", script}),
                         {.variables = {{"PYTHON_EXEC", python.empty() ? "python3" : python}}});
  if (ended.code == 2) return skip("no Python");
  CHECK(ended.code == 1);
  CHECK_MESSAGE(contains(ended.err, "[python_module_missing]"), ended.err);
}

TEST_CASE("a misspelled module of the script's own gets a suggestion") {
  const Directory directory;
  const auto python = from_build("CPPRUN_PYTHON");
  const Options options{.variables = {{"PYTHON_EXEC", python.empty() ? "python3" : python}}};
  directory.write("utils.py", "");
  const auto script = directory.write("train.py", "import utlis\n");
  auto ended = run(with_cpprun({"--standalone", script}), options);
  if (ended.code == 2) return skip("no Python");
  CHECK_MESSAGE(contains(ended.err, "did you mean \"utils\"?"), ended.err);
  CHECK_FALSE(contains(ended.err, "pip install"));
  // With -m, Python looks in the current directory.
  const Words there{"sh", "-c", "cd \"$0\" && exec \"$@\"", directory.path()};
  const auto in_directory = [&](const Words& words) {
    auto all = there;
    all.insert(all.end(), words.begin(), words.end());
    return run(all, options);
  };
  ended = in_directory(with_cpprun({"--standalone", "-m", "utlis"}));
  CHECK_MESSAGE(contains(ended.err, "did you mean \"utils\"?"), ended.err);
  std::filesystem::create_directory(directory.path() + "/sub");
  directory.write("sub/main.py", "import utils\n");
  ended = in_directory(with_cpprun({"--standalone", "sub/main.py"}));
  CHECK_MESSAGE(contains(ended.err, "set PYTHONPATH=" + directory.path()), ended.err);
  std::filesystem::create_directory(directory.path() + "/pkg");
  directory.write("pkg/__init__.py", "");
  ended = in_directory(with_cpprun({"--standalone", "-m", "pkg.no_such_part"}));
  CHECK_MESSAGE(contains(ended.err, "your package \"pkg\" has no module"), ended.err);
  ended = in_directory(with_cpprun({"--standalone", "-m", "pkg.py"}));
  CHECK_MESSAGE(contains(ended.err, "did you mean \"pkg\"?"), ended.err);
  ended = in_directory(with_cpprun({"--standalone", "-m", "train.py"}));
  CHECK(ended.code == 2);
  CHECK(contains(ended.err,
                 "cpprun: error: -m train.py: a path, not the name of a module\n"
                 "  hint: remove -m, or write -m train\n"));
}

TEST_CASE("stdout and stderr that are one pipe keep the order of their lines and every byte") {
  const auto ended = shell("", both_streams(2000), "2>&1");
  CHECK(ended.code == 0);
  CHECK(ended.out == as_written(2000));
}

TEST_CASE("stdout and stderr that are one file keep the order of their lines and every byte") {
  const Directory directory;
  for (const std::string into : {">", ">>"}) {
    const auto path = directory.write("job.log", into == ">" ? "" : "earlier\n");
    const auto ended = shell("", both_streams(500), into + path + " 2>&1");
    CHECK(ended.code == 0);
    CHECK(Directory::read(path) == (into == ">" ? "" : "earlier\n") + as_written(500));
  }
}

TEST_CASE("output without a line's end passes at once") {
  Command job(with_cpprun(
      {"--standalone", "--no-python", "sh", "-c", "printf 'a question? ' >&2; exec sleep 1000"}));
  job.expect_err("a question? ");
  job.signal(15);
  CHECK(job.wait().code == 143);
}

TEST_CASE("a reader that leaves ends the workers that write, as a reader of their own would") {
  const auto ended = shell("", "while :; do echo line; done", "2>&1 | head -n 1; echo \"then\"");
  CHECK(ended.out == "line\nthen\n");
}

TEST_CASE("with --stderr=inherit workers inherit stderr, and the report says where its output is") {
  const auto ended =
      shell("--stderr=inherit", "readlink /proc/self/fd/2 >&1; exit 3", "2>/dev/null");
  CHECK(ended.out == "/dev/null\n");
  const auto visible = shell("--stderr=inherit", "echo words >&2; exit 3", "");
  CHECK(contains(visible.err, "see its output above"));
}

TEST_CASE("a worker on a terminal has a terminal, without a prefix and without line buffering") {
  if (const auto reason = no_terminal(); !reason.empty()) return skip(reason);
  Command job(with_cpprun({"--standalone", "--no-python", "sh", "-c",
                           "test -t 0 && test -t 1 && test -t 2 && printf 'terminal? ';"
                           "exec sleep 1000"}),
              at_terminal);
  job.expect_out("terminal? ");
  job.signal(15);
  CHECK(job.wait().code == 143);
  CHECK(contains(job.out(), "\nterminal? "));
}

TEST_CASE("a Python failure at a terminal is recognized, and its traceback is shown unchanged") {
  if (const auto reason = no_terminal(); !reason.empty()) return skip(reason);
  const Directory directory;
  const auto script = directory.write("train.py", "raise ValueError('bad label 17')\n");
  const auto python = from_build("CPPRUN_PYTHON");
  auto options = at_terminal;
  options.variables["PYTHON_EXEC"] = python.empty() ? "python3" : python;
  Command job(with_cpprun({"--standalone", script}), options);
  const auto ended = job.wait();
  if (ended.code == 2) return skip("no Python");
  CHECK(ended.code == 1);
  CHECK_MESSAGE(contains(ended.out, "[python_exception]"), ended.out);
  CHECK(contains(ended.out, "last lines of its output:"));
  CHECK(contains(ended.out, "Traceback (most recent call last):\r\n  File"));
}

TEST_CASE("stdout and stderr that are a terminal keep the order of their lines and every byte") {
  if (const auto reason = no_terminal(); !reason.empty()) return skip(reason);
  const Directory directory;
  const auto script = directory.write("worker.sh", both_streams(500));
  const auto ended = run(with_cpprun({"--standalone", "--no-python", "sh", script}), at_terminal);
  CHECK(ended.code == 0);
  std::string expected;
  for (const char each : as_written(500)) expected += each == '\n' ? "\r\n" : std::string(1, each);
  CHECK(contains(ended.out, expected));  // between the lines about the start and the end
}

TEST_CASE("without a pseudo-terminal workers inherit the terminal, and the report says so") {
  if (const auto reason = no_terminal(); !reason.empty()) return skip(reason);
  const Directory directory;
  const auto script = directory.write(
      "scene.sh", "mount --bind /dev/null /dev/ptmx || exit 77\nexec " + from_build("CPPRUN") +
                      " --standalone --no-python sh -c 'test -t 2 && echo bad >&2; exit 3'\n");
  const auto ended = run({"unshare", "-m", "sh", script}, at_terminal);
  if (contains(ended.out, "unshare failed") || ended.code == 77) {
    return skip("no permission to hide /dev/ptmx");
  }
  CHECK(ended.code == 3);
  CHECK(contains(ended.out, "\nbad\r\n"));
  CHECK(contains(ended.out, "see its output above"));
}

TEST_CASE(
    "a disk that is full for a while loses what did not fit, and cpprun reports how much and "
    "where") {
  if (const auto why = no_mounts(); !why.empty()) return skip(why);
  const Directory directory;
  const auto path = directory.path();
  // Space is freed when the worker has written more than all buffers on the way to the disk can
  // hold, and is enough for what they hold then.
  const auto script = directory.write(
      "scene.sh", "set -e; mkdir " + path + "/disk; mount -t tmpfs -o size=4m tmpfs " + path +
                      "/disk\n" + "head -c 4000000 /dev/zero > " + path + "/disk/ballast; mkfifo " +
                      path + "/full\n" + from_build("CPPRUN") +
                      " --standalone --no-python sh -c 'head -c 8000000 /dev/zero >&2; : > " +
                      path + "/disk/ballast; echo there is room again >&2' 2> " + path +
                      "/disk/job.log\n" + "tail -n 2 " + path + "/disk/job.log | tr -d '\\000'\n");
  const auto ended = run({"unshare", "-m", "sh", script});
  CHECK_MESSAGE(contains(ended.out, "bytes are missing here: No space left on device"), ended.err);
  CHECK(ended.out.ends_with("there is room again\n"));
}

}  // namespace words_test

// SPDX-License-Identifier: BSD-3-Clause
// The workers' output: whole lines, files in torchrun's layout, and nothing lost in between.

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>

#include "tests/integration/command.h"
#include "tests/integration/directory.h"

namespace output_test {

using namespace cpprun::integration;

namespace {

Words two_workers(const Words& options, const Words& actions) {
  Words words = {"--standalone", "--nproc-per-node=2"};
  words.insert(words.end(), options.begin(), options.end());
  words.push_back(worker());
  words.insert(words.end(), actions.begin(), actions.end());
  return with_cpprun(words);
}

// Otherwise a note says that it was set for them.
const Options quiet{.variables = {{"OMP_NUM_THREADS", "1"}}};

// <run id>_<random>/attempt_0/… without the part that is different in each run.
std::vector<std::string> without_run(std::vector<std::string> names) {
  for (auto& name : names) name = name.substr(name.find('/') + 1);
  std::sort(names.begin(), names.end());
  return names;
}

// The peak resident memory of a process in bytes, from /proc.
[[maybe_unused]] long peak_kilobytes(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  std::string word;
  while (status >> word) {
    if (word != "VmHWM:") continue;
    long kilobytes = 0;
    status >> kilobytes;
    return kilobytes;
  }
  return 0;
}

}  // namespace

TEST_CASE("redirected streams are in files of torchrun's layout and not on the console") {
  Directory directory;
  const auto ended = run(two_workers({"--log-dir=" + directory.path(), "--redirects=3"},
                                     {"say", "to stdout", "say_err", "to stderr"}),
                         quiet);
  CHECK(ended.code == 0);
  CHECK(ended.out == "");
  CHECK(ended.err == "");
  const auto files = directory.files();
  CHECK(without_run(files) ==
        std::vector<std::string>{"attempt_0/0/stderr.log", "attempt_0/0/stdout.log",
                                 "attempt_0/1/stderr.log", "attempt_0/1/stdout.log"});
  for (const auto& name : files) {
    const bool is_out = contains(name, "stdout.log");
    CHECK(Directory::read(directory.path() + "/" + name) ==
          (is_out ? "to stdout\n" : "to stderr\n"));
  }
}

TEST_CASE("a map redirects the streams of the ranks it names") {
  Directory directory;
  const auto ended = run(two_workers({"--log-dir=" + directory.path(), "-r", "0:1,1:2"},
                                     {"say", "to stdout", "say_err", "to stderr"}),
                         quiet);
  CHECK(ended.out == "to stdout\n");
  CHECK(ended.err == "to stderr\n");
  CHECK(without_run(directory.files()) ==
        std::vector<std::string>{"attempt_0/0/stdout.log", "attempt_0/1/stderr.log"});
}

TEST_CASE("tee'd lines are whole, have their prefix once, and are in the files without it") {
  Directory directory;
  const auto ended =
      run(two_workers({"--log-dir=" + directory.path(), "--tee=1"}, {"trickle", "500"}));
  CHECK(ended.code == 0);
  const std::regex line("\\[default([01])\\]:line [0-9]+ of rank \\1");
  std::size_t begin = 0;
  std::size_t lines = 0;
  for (auto end = ended.out.find('\n'); end != std::string::npos;
       end = ended.out.find('\n', begin)) {
    const auto text = ended.out.substr(begin, end - begin);
    CHECK_MESSAGE(std::regex_match(text, line), text);
    begin = end + 1;
    ++lines;
  }
  CHECK(lines == 1000);
  for (const auto& name : directory.files()) {
    const auto kept = Directory::read(directory.path() + "/" + name);
    CHECK(count(kept, "\n") == 500);
    CHECK(kept.starts_with("line 0 of rank "));
  }
}

TEST_CASE("events on the console are whole lines on stderr, the same as in their file") {
  Directory directory;
  const auto file = directory.path() + "/events.jsonl";
  const auto ended = run(two_workers({"--event-log-handler=console", "--events=" + file, "-t", "3"},
                                     {"say_err", "a word", "exit", "3"}),
                         quiet);
  INFO(ended.err);
  CHECK(ended.code == 3);
  CHECK_FALSE(contains(ended.err, "does not respond"));
  CHECK(ended.out == "");
  std::string events;
  std::istringstream lines(ended.err);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("{")) continue;
    CHECK_MESSAGE(line.ends_with("}"), line);
    events += line + "\n";
  }
  CHECK(events == Directory::read(file));
  for (const char* name : {"job_started", "round_sealed", "worker_exited", "job_ended"}) {
    CHECK_MESSAGE(contains(events, "\"event\":\"" + std::string(name) + "\""), name);
  }
}

TEST_CASE("a tee'd line is passed on at once, also through a pipe") {
  Command job(two_workers({"--tee=3"}, {"say", "early", "hang"}));
  // Both arrive while both workers still run.
  job.expect_out("[default0]:early\n");
  job.expect_out("[default1]:early\n");
}

TEST_CASE("a prompt without a newline is shown with its prefix, and continued on its line") {
  const Directory directory;
  const auto answer = directory.path() + "/answer";
  REQUIRE(::mkfifo(answer.c_str(), 0600) == 0);
  Command job(with_cpprun({"--standalone", "--tee=3", "--no-python", "sh", "-c",
                           "printf '(Pdb) '; read line <" + answer +
                               "; echo continue; printf 'sure? ' >&2; exec sleep 1000"}));
  job.expect_out("[default0]:(Pdb) ");
  std::ofstream(answer) << "c\n";
  job.expect_out("[default0]:(Pdb) continue\n");
  job.expect_err("[default0]:sure? ");
  job.signal(15);
  CHECK(job.wait().code == 143);
}

TEST_CASE("the prefix follows the template, and only filtered ranks print") {
  const Options options{
      .variables = {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "[rank${rank}]: "}}};
  const auto ended =
      run(two_workers({"--tee=3", "--local-ranks-filter=1"}, {"say", "words"}), options);
  CHECK(ended.out == "[rank1]: words\n");
}

TEST_CASE("the last lines of a filtered rank that fails are in the report, and nowhere else") {
  for (const Words& options :
       {Words{"--local-ranks-filter=0"}, Words{"--local-ranks-filter=0", "--tee=3"},
        Words{"--local-ranks-filter=0", "--stderr=inherit"}}) {
    const auto ended = run(two_workers(options, {"only", "1", "say", "hidden", "say_err",
                                                 "no such shard: 17", "exit", "3"}),
                           quiet);
    CHECK(ended.code == 3);
    CHECK(ended.out == "");
    CHECK_MESSAGE(contains(ended.err, "last lines of its stderr:\n    no such shard: 17\n"),
                  ended.err);
    // Not on the console as it was written.
    CHECK(ended.err.find("no such shard: 17") > ended.err.find("Root Cause"));
  }
}

TEST_CASE("a filtered rank without output is not reported to have output on the console") {
  const auto ended =
      run(two_workers({"--local-ranks-filter=0", "--stderr=inherit"}, {"only", "1", "exit", "3"}),
          quiet);
  CHECK(ended.code == 3);
  CHECK_FALSE(contains(ended.err, "see its output above"));
}

TEST_CASE("without a log directory nothing is left in the temporary directory") {
  Directory temporary;
  const Options options{.variables = {{"TMPDIR", temporary.path()}}};
  CHECK(run(two_workers({"--tee=3"}, {"say", "words"}), options).code == 0);
  CHECK(run(two_workers({}, {"only", "0", "exit", "1"}), options).code == 1);
  CHECK(std::filesystem::is_empty(temporary.path()));
}

TEST_CASE("a torrent without a line's end is passed on in full with bounded memory") {
#ifdef __SANITIZE_ADDRESS__
  return skip("a sanitizer keeps what was freed");
#else
  constexpr std::size_t bytes = 60UL << 20U;
  Command job(with_cpprun({"--standalone", "--tee=1", worker(), "flood", std::to_string(bytes),
                           "say", "", "say_err", "flooded", "hang"}));
  job.expect_err("flooded");
  CHECK(std::count(job.out().begin(), job.out().end(), 'x') > 0);
  CHECK(peak_kilobytes(job.pid()) < 64 * 1024);
  job.signal(15);
  const auto ended = job.wait();
  CHECK(static_cast<std::size_t>(std::count(ended.out.begin(), ended.out.end(), 'x')) == bytes);
#endif
}

TEST_CASE("a console that is closed does not end the job") {
  // `head` exits after one line; the workers run to their end, which their files show.
  Directory directory;
  const std::string line = from_build("CPPRUN") +
                           " --standalone --tee=1 --log-dir=" + directory.path() + " " + worker() +
                           " trickle 20000 | head -n 1";
  CHECK(run({"sh", "-c", line}).code == 0);
  const auto files = directory.files();
  REQUIRE(files.size() == 1);
  CHECK(count(Directory::read(directory.path() + "/" + files.front()), "\n") == 20000);
}

TEST_CASE("what a worker wrote into its error file is in the report") {
  const auto ended = run(two_workers(
      {}, {"only", "1", "error_file",
           R"({"message": {"message": "ValueError: 7 is not prime", "extraInfo": {"py_callstack":)"
           R"( "Traceback: in main", "timestamp": "1700000000"}}})",
           "exit", "1"}));
  CHECK(ended.code == 1);
  CHECK(contains(ended.err, "ValueError: 7 is not prime"));
  CHECK(contains(ended.err, "Traceback: in main"));
}

TEST_CASE("garbage in the error file is reported as such and changes nothing else") {
  const auto ended = run(two_workers({}, {"only", "1", "error_file", "{\"mess\xff", "exit", "9"}));
  CHECK(ended.code == 9);
  CHECK(contains(ended.err, "the error file is not JSON"));
}

}  // namespace output_test

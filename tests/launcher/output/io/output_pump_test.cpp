// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/io/output_pump.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "rendezvous/bounds.h"
#include "rendezvous/io/file_descriptor.h"
#include "tests/launcher/io_probe.h"

namespace output_pump_test {

using namespace cpprun;
using namespace std::chrono_literals;
using probe::Pipe;
using probe::run_until;
using probe::spec_for;
using probe::victim;

namespace {

// A node whose consoles are pipes (or other descriptors), with all that a worker needs.
struct Node {
  Node(int out, int err) : pump(context, side, out, err) { ::signal(SIGPIPE, SIG_IGN); }

  asio::io_context context;
  probe::Side side;
  std::map<int, link::ExitStatus> ended;
  io::OutputPump pump;
  io::WorkerProcesses processes{
      context,
      {[this](LocalRank rank, link::ExitStatus status) { ended[rank.value] = status; },
       [](LocalRank, int) {}},
      {},
      {.open_files = {}, .job_processes = {}, .niceness = {}, .side = &side}};

  void start(const WorkerSpec& spec) { start_all({spec}); }
  void start_all(const std::vector<WorkerSpec>& specs) {
    pump.open_logs(specs, 60s);
    for (const auto& spec : specs) start_one(spec);
  }
  void start_one(const WorkerSpec& spec) {
    auto streams = pump.attach(spec);
    REQUIRE(streams.has_value());
    REQUIRE(processes.spawn(spec, *streams).has_value());
    pump.release(*streams);
  }
  bool await_end(int local_rank) {
    return run_until(context, [&] { return ended.contains(local_rank); });
  }
  void end(int local_rank) {
    REQUIRE(await_end(local_rank));
    processes.sweep(LocalRank{local_rank});
    pump.close(LocalRank{local_rank});
  }
  bool flush(Duration timeout = 30s) {
    bool flushed = false;
    pump.flush(timeout, [&] { flushed = true; });
    return run_until(context, [&] { return flushed; });
  }
};

WorkerSpec teed(std::vector<std::string> argv, int local_rank = 0) {
  auto spec = spec_for(std::move(argv), local_rank);
  spec.out.target = spec.err.target = StreamTarget::tee;
  spec.prefix = "[default" + std::to_string(local_rank) + "]:";
  return spec;
}

std::string content(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::filesystem::path temporary(const std::string& name) {
  return std::filesystem::temp_directory_path() /
         ("cpprun_pump_" + std::to_string(::getpid()) + "_" + name);
}

[[maybe_unused]] long resident_kilobytes_max() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

}  // namespace

TEST_CASE("a tee'd stream reaches the console with its prefix and the file without") {
  Pipe out;
  Pipe err;
  Node node(out.in(), err.in());
  auto spec = teed({"/bin/sh", "-c", "echo one; printf two; echo bad >&2"});
  spec.out.file = temporary("stdout.log");
  node.start(spec);
  node.end(0);
  CHECK(node.flush());
  out.close_in();
  err.close_in();
  CHECK(content(spec.out.file) == "one\ntwo");
  CHECK(node.pump.last_lines(LocalRank{0}) == std::vector<std::string>{"bad"});
  std::filesystem::remove(spec.out.file);
}

TEST_CASE("matching lines of all workers are written to one file of the attempt") {
  Pipe out;
  Pipe err;
  Node node(out.in(), err.in());
  const auto path = temporary("filtered_stdout.log");
  for (const int rank : {0, 1}) {
    auto spec = teed({"/bin/sh", "-c", "echo an apple; echo a pear; printf 'last apple'"}, rank);
    spec.out.duplicate_words = {"apple"};
    spec.out.duplicate_file = path;
    node.start(spec);
    node.end(rank);
  }
  CHECK(node.flush());
  CHECK(content(path) ==
        "[default0]:an apple\n[default0]:last apple\n[default1]:an apple\n[default1]:last apple\n");
  std::filesystem::remove(path);
}

TEST_CASE("lines of several workers and of cpprun stay whole on a shared console") {
  const auto path = temporary("console");
  std::FILE* console = std::fopen(path.c_str(), "w+");
  Node node(::fileno(console), ::fileno(console));
  const std::string script =
      "i=0; while [ $i -lt 300 ]; do printf half; echo \" line $0\"; "
      "echo err$0 >&2; i=$((i+1)); done";
  node.start(teed({"/bin/sh", "-c", script, "a"}, 0));
  node.start(teed({"/bin/sh", "-c", script, "b"}, 1));
  node.pump.say("cpprun: a sentence\n");
  node.end(0);
  node.end(1);
  CHECK(node.flush());
  std::map<std::string, int> counts;
  std::istringstream lines(content(path));
  for (std::string line; std::getline(lines, line);) ++counts[line];
  CHECK(counts == std::map<std::string, int>{{"[default0]:half line a", 300},
                                             {"[default0]:erra", 300},
                                             {"[default1]:half line b", 300},
                                             {"[default1]:errb", 300},
                                             {"cpprun: a sentence", 1}});
  std::fclose(console);
  std::filesystem::remove(path);
}

TEST_CASE("a console without a reader blocks its writers, not the exits of workers") {
  Pipe out;
  Pipe err;
  Node node(out.in(), err.in());
  const long bytes = 8L << 20;
  node.start(teed({victim(), "flood", std::to_string(bytes)}, 0));
  node.start(teed({victim(), "exit", "7"}, 1));
  REQUIRE(node.await_end(1));
  CHECK(node.ended[1] == link::ExitStatus{false, 7});
  CHECK_FALSE(node.ended.contains(0));
  // With a reader, the flood ends without a byte lost.
  std::size_t seen = 0;
  std::string buffer(1 << 16, '\0');
  ::fcntl(out.out(), F_SETFL, O_NONBLOCK);
  const auto read_some = [&] {
    for (auto got = ::read(out.out(), buffer.data(), buffer.size()); got > 0;
         got = ::read(out.out(), buffer.data(), buffer.size())) {
      seen += static_cast<std::size_t>(got);
    }
  };
  const auto wanted = static_cast<std::size_t>(bytes) + std::string_view("[default0]:").size();
  CHECK(run_until(node.context, [&] {
    read_some();
    return seen == wanted && node.ended.contains(0);
  }));
  CHECK(node.ended[0] == link::ExitStatus{});
}

TEST_CASE("a passed stream reaches the console unchanged, and its last lines are known") {
  Pipe out;
  Pipe err;
  {
    Node node(out.in(), err.in());
    auto spec = spec_for({"/bin/sh", "-c", "printf 'a\\rb\\nhalf' >&2; echo silent"});
    spec.out.target = StreamTarget::nowhere;
    spec.err.target = StreamTarget::passed;
    spec.prefix = "[default0]:";
    node.start(spec);
    node.end(0);
    node.pump.say("cpprun: a sentence\n");
    CHECK(node.flush());
    CHECK(node.pump.last_lines(LocalRank{0}) == std::vector<std::string>{"b", "half"});
  }
  err.close_in();
  CHECK(err.read_all() == "a\rb\nhalf\ncpprun: a sentence\n");
}

TEST_CASE("stdout redirected to stderr keeps its order among its lines") {
  Pipe out;
  Pipe err;
  {
    Node node(out.in(), err.in());
    auto spec = spec_for({"/bin/sh", "-c", "echo 1; echo 2 >&2; echo 3; echo 4 >&2"});
    spec.out.target = StreamTarget::with_err;
    spec.err.target = StreamTarget::passed;
    node.start(spec);
    node.end(0);
    CHECK(node.flush());
  }
  out.close_in();
  err.close_in();
  CHECK(out.read_all() == "");
  CHECK(err.read_all() == "1\n2\n3\n4\n");
}

TEST_CASE("a worker's terminal has the size of cpprun's, also after a change") {
  int mine = -1;
  int console = -1;
  winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  if (::openpty(&mine, &console, nullptr, nullptr, &size) != 0) return;
  const FileDescriptor closing_mine(mine);
  const FileDescriptor closing_console(console);
  Node node(console, console);
  auto spec = spec_for({"/bin/sh", "-c",
                        "stty size <&2; while [ \"$(stty size <&2)\" = '24 80' ]; do sleep 0.01; "
                        "done; stty size <&2; printf 'a\\nb' >&2"});
  spec.out.target = StreamTarget::with_err;
  spec.err.target = StreamTarget::terminal;
  node.start(spec);
  const auto said = [&] { return node.pump.hears(LocalRank{0}) && node.pump.last_output({}); };
  CHECK(run_until(node.context, said));
  size.ws_col = 132;
  REQUIRE(::ioctl(console, TIOCSWINSZ, &size) == 0);
  ::kill(::getpid(), SIGWINCH);  // as the kernel does for the foreground of a terminal
  node.end(0);
  CHECK(node.flush());
  CHECK(node.pump.last_lines(LocalRank{0}) ==
        std::vector<std::string>{"24 80", "24 132", "a", "b"});
  const std::string expected = "24 80\r\n24 132\r\na\r\nb";  // line ends are translated once
  // The kernel passes on what was written to a terminal a little later, and in parts.
  std::string text;
  pollfd readable{.fd = mine, .events = POLLIN, .revents = 0};
  while (text.size() < expected.size() && ::poll(&readable, 1, 5000) > 0) {
    std::array<char, 4096> part{};
    const auto got = ::read(mine, part.data(), part.size());
    if (got <= 0) break;
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  CHECK(text == expected);
}

TEST_CASE("the last output of a worker is its newest line, even an unfinished one") {
  Pipe out;
  Pipe err;
  Node node(out.in(), err.in());
  const auto gate = temporary("gate").string();
  const std::string wait = "until test -e " + gate + "; do sleep 0.01; done; ";
  const auto shows = [&](const std::string& line) {
    return run_until(node.context, [&] {
      const auto last = node.pump.last_output(LocalRank{0});
      return last && last->line == line;
    });
  };
  node.start(teed({"/bin/sh", "-c",
                   "printf '\\033[31mone\\033[0m\\n'; " + wait +
                       "printf '\\r 10%%|#\\r 20%%|##' >&2; "
                       "rm " +
                       gate + "; " + wait}));
  CHECK(shows("one"));
  std::ofstream{gate};
  CHECK(shows(" 20%|##"));
  run_until(node.context, [&] { return !std::filesystem::exists(gate); });
  std::ofstream{gate};
  node.end(0);
  std::filesystem::remove(gate);
}

TEST_CASE("a closed console is reported once, and the file still gets all output") {
  Pipe out;
  Pipe err;
  auto spec = teed({"/bin/sh", "-c", "i=0; while [ $i -lt 2000 ]; do echo line; i=$((i+1)); done"});
  spec.out.file = temporary("closed.log");
  {
    Node node(out.in(), err.in());
    out.close_out();
    node.start(spec);
    node.end(0);
    CHECK(node.flush());
  }
  err.close_in();
  CHECK(err.read_all() ==
        "cpprun: warning: cannot write to stdout: Broken pipe; the job continues, and log files "
        "are still "
        "written\n");
  CHECK(std::filesystem::file_size(spec.out.file) == 2000 * 5);
  std::filesystem::remove(spec.out.file);
}

TEST_CASE("a full disk is reported once per file, and the console still gets all output") {
  if (::access("/dev/full", W_OK) != 0) {
    std::puts("skipped: there is no /dev/full here");
    return;
  }
  Pipe out;
  Pipe err;
  {
    Node node(out.in(), err.in());
    auto spec = teed({"/bin/sh", "-c", "echo one; echo two"});
    spec.out.file = "/dev/full";
    node.start(spec);
    node.end(0);
    CHECK(node.flush());
  }
  out.close_in();
  err.close_in();
  CHECK(out.read_all() == "[default0]:one\n[default0]:two\n");
  CHECK(err.read_all() ==
        "cpprun: warning: cannot write \"/dev/full\": No space left on device; dropping output; "
        "the job continues\n");
}

TEST_CASE("output without newlines needs no memory") {
#ifdef __SANITIZE_ADDRESS__
  std::puts("skipped: a sanitizer keeps what was freed");
#else
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  Node node(nowhere, nowhere);
  const auto before = resident_kilobytes_max();
  node.start(teed({victim(), "flood", std::to_string(256L << 20)}));
  node.end(0);
  CHECK(node.ended[0] == link::ExitStatus{});
  CHECK(resident_kilobytes_max() - before < 8 * 1024);
  ::close(nowhere);
#endif
}

TEST_CASE("the last lines of a worker are known as soon as it has exited") {
  Pipe out;
  Pipe err;
  Node node(out.in(), err.in());
  node.start(teed({"/bin/sh", "-c", "echo first >&2; echo 'Error: last words' >&2; exit 1"}));
  REQUIRE(node.await_end(0));
  node.pump.drain(LocalRank{0});
  CHECK(node.pump.last_lines(LocalRank{0}).back() == "Error: last words");
}

TEST_CASE("a stream is closed even while an unrelated process holds its other end") {
  Pipe out;
  Pipe err;
  Node node(out.in(), err.in());
  auto spec = teed({victim(), "family", "end"});
  spec.err.target = StreamTarget::nowhere;
  node.start(spec);
  REQUIRE(node.await_end(0));
  node.pump.close(LocalRank{0});
  CHECK(node.flush());
  CHECK(out.read_line() == "[default0]:ready");
}

TEST_CASE("flush gives up on a console without a reader after its timeout") {
  Pipe out;
  Pipe err;
  Node node(out.in(), err.in());
  node.pump.say(std::string(2 * bounds::console_queue_bytes_max, 'x'));
  CHECK(node.flush(1ms));
}

TEST_CASE("the last output stays in the pipe for a reader that comes after the end") {
  Pipe out;
  Pipe err;
  {
    Node node(out.in(), err.in());
    node.pump.say(std::string(500'000, 'x'));
    CHECK(node.flush());
  }
  err.close_in();
  CHECK(err.read_all().size() == 500'000);
}

TEST_CASE("a console shared with a terminal or a shell stays blocking for other processes") {
  Pipe out;
  Pipe err;
  Node node(out.in(), err.in());
  node.pump.say(std::string(bounds::console_queue_bytes_max, 'x'));
  CHECK((::fcntl(err.in(), F_GETFL) & O_NONBLOCK) == 0);
}

}  // namespace output_pump_test

// cpprund as its users see it: the line it prints, its exit codes, its log.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "rendezvous/io/store_client.h"
#include "tests/rendezvous/io/served_set.h"

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

// One run of cpprund, with what it says.
class Program {
 public:
  explicit Program(std::vector<std::string> arguments) {
    const char* path = std::getenv("CPPRUND");
    REQUIRE(path != nullptr);
    int out[2];
    int err[2];
    REQUIRE(pipe2(out, O_CLOEXEC) == 0);
    REQUIRE(pipe2(err, O_CLOEXEC) == 0);
    out_ = FileDescriptor(out[0]);
    err_ = FileDescriptor(err[0]);
    const FileDescriptor out_writer(out[1]);
    const FileDescriptor err_writer(err[1]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, err[1], 2);
    arguments.insert(arguments.begin(), "cpprund");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    REQUIRE(posix_spawn(&pid_, path, &actions, nullptr, argv.data(), environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Program() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  std::string out_line() { return line_of(out_); }
  std::string err_line() { return line_of(err_); }

  // The port of the line `cpprund listening on [::]:43211`.
  std::uint16_t port() {
    const std::string line = out_line();
    REQUIRE(line.starts_with("cpprund listening on "));
    return static_cast<std::uint16_t>(std::stoi(line.substr(line.rfind(':') + 1)));
  }

  // From now on it gets no more address space than that.
  void limit_memory(rlim_t bytes) const {
    const rlimit limit{bytes, bytes};
    REQUIRE(prlimit(pid_, RLIMIT_AS, &limit, nullptr) == 0);
  }

  int end_with(int signal) {
    kill(pid_, signal);
    return exit_code();
  }
  int exit_code() {
    int status = 0;
    REQUIRE(waitpid(pid_, &status, 0) == pid_);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  static std::string line_of(const FileDescriptor& fd) {
    std::string line;
    char letter = 0;
    pollfd watched{fd.get(), POLLIN, 0};
    while (poll(&watched, 1, 10'000) == 1 && read(fd.get(), &letter, 1) == 1 && letter != '\n') {
      line += letter;
    }
    return line;
  }

  pid_t pid_ = 0;
  FileDescriptor out_;
  FileDescriptor err_;
};

}  // namespace

TEST_CASE("cpprund prints the port it got, serves, and ends cleanly when asked to") {
  for (const int signal : {SIGTERM, SIGINT}) {
    Program daemon({"--port", "0"});
    Result<StoreClient> client = StoreClient::open({.host = "127.0.0.1", .port = daemon.port()});
    REQUIRE(client);
    CHECK(client->add("n", 3) == 3);
    CHECK(daemon.end_with(signal) == 0);
  }
}

TEST_CASE("cpprund takes IPv6 clients, too") {
  Program daemon({"--port=0"});
  const Result<StoreClient> client =
      StoreClient::open({.host = "::1", .port = daemon.port(), .connect_timeout = 2s});
  if (!client) {
    MESSAGE("skipped, this machine has no IPv6 loopback: " << client.error().reason);
    return;
  }
  CHECK(daemon.end_with(SIGTERM) == 0);
}

TEST_CASE("cpprund names the port it cannot take") {
  Program first({"--host", "127.0.0.1", "--port", "0"});
  const std::string port = std::to_string(first.port());
  Program second({"--host", "127.0.0.1", "--port", port});
  CHECK(second.err_line() ==
        "cpprund: cannot listen on 127.0.0.1:" + port + ": Address already in use");
  CHECK(second.exit_code() == 1);
}

TEST_CASE("cpprund refuses a command line it does not understand") {
  Program unknown({"--prot", "1"});
  CHECK(unknown.exit_code() == 2);
  Program no_number({"--port", "http"});
  CHECK(no_number.err_line().starts_with("cpprund: "));
  CHECK(no_number.exit_code() == 2);
  Program contradiction({"--quiet", "--verbose"});
  CHECK(contradiction.exit_code() == 2);
}

TEST_CASE("cpprund says whom it closed and why") {
  Program daemon({"--host", "127.0.0.1", "--port", "0"});
  RawClient scanner(daemon.port());
  pollfd connected{scanner.fd(), POLLOUT, 0};
  REQUIRE(poll(&connected, 1, 10'000) == 1);
  CHECK(scanner.offer("GET / HTTP/1.1\r\n\r\n") > 0);
  const std::string line = daemon.err_line();
  CHECK(line.starts_with("cpprund: 127.0.0.1:"));
  CHECK(line.ends_with("closed: an HTTP request on a port for store clients and agents"));
  CHECK(daemon.end_with(SIGTERM) == 0);
}

TEST_CASE("cpprund closes who goes over its memory, and serves everybody else") {
  Program daemon({"--host", "127.0.0.1", "--port", "0", "--max-memory", "64MiB"});
  const std::uint16_t port = daemon.port();
  Result<StoreClient> modest = StoreClient::open({.host = "127.0.0.1", .port = port});
  Result<StoreClient> greedy = StoreClient::open({.host = "127.0.0.1", .port = port});
  REQUIRE(modest);
  REQUIRE(greedy);
  CHECK(modest->set("k", "v"));
  // Half of it is for one address.
  (void)greedy->set("k", std::string(40 << 20, 'v'));
  const std::string line = daemon.err_line();
  CHECK(line.find("closed: its address holds 31.") != std::string::npos);
  CHECK(line.ends_with(" of the 32.0 MiB that it may"));
  CHECK(modest->get("k", 10s) == "v");
  CHECK(daemon.end_with(SIGTERM) == 0);
}

TEST_CASE("where the machine has no memory left, the client that wants it is closed, not cpprund") {
  Program daemon({"--host", "127.0.0.1", "--port", "0", "--max-memory", "4GiB"});
  const std::uint16_t port = daemon.port();
  Result<StoreClient> modest = StoreClient::open({.host = "127.0.0.1", .port = port});
  Result<StoreClient> greedy = StoreClient::open({.host = "127.0.0.1", .port = port});
  REQUIRE(modest);
  REQUIRE(greedy);
  CHECK(modest->set("k", "v"));
  daemon.limit_memory(rlim_t{100} << 20);
  (void)greedy->set("k", std::string(200 << 20, 'v'));
  CHECK(daemon.err_line().ends_with("closed: there is no memory for what it wants"));
  CHECK(modest->get("k", 10s) == "v");
  CHECK(daemon.end_with(SIGTERM) == 0);
}

// SPDX-License-Identifier: BSD-3-Clause
// cpprund under a service manager: it serves on a passed socket, sends notifications, and enters
// its sandbox.

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "proto/link/codec.h"
#include "rendezvous/client/io/store_client.h"
#include "rendezvous/io/socket_address.h"
#include "tests/rendezvous/daemon/cpprund_program.h"
#include "tests/rendezvous/store/io/served_set.h"

namespace cpprund_service_test {

using namespace cpprun;
using namespace std::chrono_literals;

namespace {

// The shell provides the process id that cpprund will have.
const std::string passes_one = "LISTEN_PID=$$ LISTEN_FDS=1 exec";

FileDescriptor bound(int type, const char* host, bool listens = true) {
  sockaddr_storage address{};
  const bool is_v6 = std::string(host).find(':') != std::string::npos;
  address.ss_family = is_v6 ? AF_INET6 : AF_INET;
  void* const ip = is_v6 ? static_cast<void*>(&reinterpret_cast<sockaddr_in6&>(address).sin6_addr)
                         : &reinterpret_cast<sockaddr_in&>(address).sin_addr;
  REQUIRE(inet_pton(address.ss_family, host, ip) == 1);
  FileDescriptor socket(::socket(address.ss_family, type | SOCK_CLOEXEC, 0));
  const auto size = static_cast<socklen_t>(is_v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  if (!socket || ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) return {};
  if (listens) REQUIRE(::listen(socket.get(), 64) == 0);
  return socket;
}

// The replies to an agent that joins a job; the reply "sealed" has the address of the job's store.
std::string sealed_word(std::uint16_t port) {
  RawClient agent(port);
  pollfd watched{agent.fd(), POLLOUT, 0};
  REQUIRE(poll(&watched, 1, 10'000) == 1);
  const link::Join join{
      .job = "j", .host = "alpha", .pid = 1, .nodes_min = 1, .nodes_max = 1, .lease = 120s};
  (void)agent.offer(std::string(link::preamble) + link::encode(join));
  watched.events = POLLIN;
  while (!agent.was_closed && agent.heard.find("sealed") == std::string::npos &&
         poll(&watched, 1, 10'000) == 1) {
    agent.listen_now();
  }
  return agent.heard;
}

bool serves(std::uint16_t port) {
  StoreResult<StoreClient> client = StoreClient::open({.host = "127.0.0.1", .port = port});
  return client && client->add("n", 3) == 3;
}

std::string line_with(Program& daemon, const std::string& words) {
  std::string line = daemon.any_err_line();
  while (!line.empty() && line.find(words) == std::string::npos) line = daemon.any_err_line();
  return line;
}

std::string refusal(const std::vector<int>& passed, const std::string& words = passes_one) {
  Program daemon({"--no-sandbox"}, {.words = words, .passed = passed});
  const std::string line = daemon.err_line();
  CHECK(daemon.exit_code() == 1);
  return line;
}

// A file in /proc about a process.
std::string file_of(pid_t pid, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The notification socket of a service manager.
class Manager {
 public:
  // A leading '@' makes the name abstract, without a file.
  explicit Manager(const std::string& name) : name_(name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, sizeof address.sun_path - 1);
    if (name.front() == '@') address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    REQUIRE(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  }
  ~Manager() {
    if (name_.front() == '/') (void)::unlink(name_.c_str());
  }
  std::string receives() const {
    pollfd watched{socket_.get(), POLLIN, 0};
    char bytes[512];
    if (::poll(&watched, 1, 10'000) != 1) return "nothing";
    const auto size = ::recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    return {bytes, static_cast<std::size_t>(size < 0 ? 0 : size)};
  }
  // Closes the socket; its file stays.
  void close() { socket_.reset(); }

 private:
  std::string name_;
  FileDescriptor socket_{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
};

std::string own_name(const std::string& before) {
  return before + "cpprun-notify-" + std::to_string(::getpid());
}

}  // namespace

TEST_CASE("a passed socket overrides --host and --port and is announced") {
  const auto socket = bound(SOCK_STREAM, "127.0.0.1");
  const auto port = local_address_of(socket.get()).port;
  Program daemon({"--host", "192.0.2.1", "--port", "1"},
                 {.words = passes_one, .passed = {socket.get()}});
  const auto said = "127.0.0.1:" + std::to_string(port);
  CHECK(daemon.out_line() == "cpprund listening on " + said);
  CHECK(daemon.err_line().ends_with("serving on the passed socket " + said +
                                    "; --host and --port are ignored"));
  CHECK(serves(port));
  CHECK(sealed_word(port).find("sealed") != std::string::npos);
  CHECK(daemon.end_with(SIGTERM) == 0);
}

TEST_CASE("a job's store listens only on the address of the passed socket") {
  const auto socket = bound(SOCK_STREAM, "127.0.0.1");
  const auto port = local_address_of(socket.get()).port;
  Program daemon({}, {.words = passes_one, .passed = {socket.get()}});
  CHECK(daemon.out_line().starts_with("cpprund listening on 127.0.0.1:"));
  CHECK(daemon.err_line().find("are ignored") == std::string::npos);
  const auto heard = sealed_word(port);
  const auto at = heard.find("\"store_port\":");
  REQUIRE(at != std::string::npos);
  const int job_port = std::atoi(heard.c_str() + at + 13);
  CHECK(job_port > 0);
  // From the kernel's table: 0100007F is 127.0.0.1, 0A is the state LISTEN.
  char row[64];
  std::snprintf(row, sizeof row, "0100007F:%04X 00000000:0000 0A", job_port);
  CHECK(file_of(::getpid(), "net/tcp").find(row) != std::string::npos);
  CHECK(daemon.end_with(SIGTERM) == 0);
}

TEST_CASE("a passed socket on all interfaces is served, IPv4 or IPv6") {
  for (const char* host : {"0.0.0.0", "::"}) {
    const auto socket = bound(SOCK_STREAM, host);
    if (!socket) {
      MESSAGE("skipped: this machine has no " << host);
      continue;
    }
    const auto port = local_address_of(socket.get()).port;
    Program daemon({}, {.words = passes_one, .passed = {socket.get()}});
    CHECK(daemon.out_line() == "cpprund listening on " + local_address_of(socket.get()).text());
    CHECK(serves(port));
    CHECK(sealed_word(port).find("sealed") != std::string::npos);
    CHECK(daemon.end_with(SIGTERM) == 0);
  }
}

TEST_CASE("a passed socket survives a closed standard stream") {
  const auto socket = bound(SOCK_STREAM, "127.0.0.1");
  Program daemon({}, {.words = passes_one, .passed = {socket.get()}, .has_no_stdin = true});
  CHECK(daemon.port() == local_address_of(socket.get()).port);
  CHECK(serves(local_address_of(socket.get()).port));
  CHECK(daemon.end_with(SIGTERM) == 0);
}

TEST_CASE("a socket that was passed to another process is left alone") {
  const auto socket = bound(SOCK_STREAM, "127.0.0.1");
  Program daemon({"--host", "127.0.0.1", "--port", "0"},
                 {.words = "LISTEN_PID=1 LISTEN_FDS=1 exec", .passed = {socket.get()}});
  CHECK(daemon.port() != local_address_of(socket.get()).port);
  CHECK(line_with(daemon, "passed to process 1, and this is process").ends_with("or with exec"));
  CHECK(daemon.end_with(SIGTERM) == 0);
}

TEST_CASE("a passed descriptor that cannot be served is rejected by its type") {
  const auto tcp = bound(SOCK_STREAM, "127.0.0.1");
  CHECK(refusal({bound(SOCK_DGRAM, "127.0.0.1", false).get()})
            .ends_with("; write ListenStream= instead of ListenDatagram= in its .socket unit"));
  CHECK(refusal({bound(SOCK_STREAM, "127.0.0.1", false).get()}).find("does not listen on 127") !=
        std::string::npos);
  const FileDescriptor local(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  CHECK(refusal({local.get()}).find("descriptor 3 is a Unix socket") != std::string::npos);
  const FileDescriptor file(::open("/dev/null", O_RDWR | O_CLOEXEC));
  CHECK(refusal({file.get()}).find("descriptor 3 is not a socket") != std::string::npos);
  CHECK(refusal({}, "exec 3>&-; " + passes_one).find("descriptor 3 is not open") !=
        std::string::npos);
  CHECK(refusal({tcp.get(), local.get()}, "LISTEN_PID=$$ LISTEN_FDS=2 exec")
            .find("descriptor 4 is a Unix socket): cpprund needs exactly one;") !=
        std::string::npos);
  CHECK(refusal({tcp.get()}, "LISTEN_PID=$$ LISTEN_FDS=999999 exec")
            .find("cannot serve on 999999 passed sockets") != std::string::npos);
  CHECK(refusal({tcp.get()}, "LISTEN_PID=$$ LISTEN_FDS=many exec")
            .find("LISTEN_FDS=many is not a count") != std::string::npos);
}

TEST_CASE("passed sockets are closed on exec") {
  const auto socket = bound(SOCK_STREAM, "127.0.0.1");
  Program daemon({"--no-sandbox"}, {.words = passes_one, .passed = {socket.get()}});
  (void)daemon.port();
  const auto info = file_of(daemon.pid(), "fdinfo/3");
  const auto at = info.find("flags:");
  REQUIRE(at != std::string::npos);
  const auto flags = std::strtol(info.c_str() + at + 6, nullptr, 8);
  CHECK((flags & O_CLOEXEC) != 0);
  CHECK((flags & O_NONBLOCK) != 0);
  CHECK(daemon.end_with(SIGTERM) == 0);
}

TEST_CASE("a service manager receives READY and STOPPING, with or without the sandbox") {
  for (const auto& name : {own_name("/tmp/"), own_name("@")}) {
    for (const std::string flag : {"--quiet", "--no-sandbox"}) {
      const Manager manager(name);
      Program daemon({"--host", "127.0.0.1", "--port", "0", flag},
                     {.words = "NOTIFY_SOCKET=" + name + " exec"});
      const auto address = "127.0.0.1:" + std::to_string(daemon.port());
      CHECK(manager.receives() == "READY=1\nSTATUS=listening on " + address + "\n");
      CHECK(daemon.end_with(SIGTERM) == 0);
      CHECK(manager.receives() == "STOPPING=1\n");
    }
  }
}

TEST_CASE("a failed notification does not stop the daemon") {
  Manager dead(own_name("/tmp/"));
  dead.close();
  for (const auto& [name, why] : std::vector<std::pair<std::string, std::string>>{
           {own_name("/tmp/"), "cannot notify the service manager: Connection refused"},
           {"/no/such/socket", "cannot notify the service manager: No such file or directory"},
           {std::string(200, '/'), "NOTIFY_SOCKET has 200 bytes"},
           {"vsock:2:9",
            "NOTIFY_SOCKET=vsock:2:9 is neither a path nor an abstract name such as @NAME"}}) {
    Program daemon({"--host", "127.0.0.1", "--port", "0", "--verbose"},
                   {.words = "NOTIFY_SOCKET=" + name + " exec"});
    CHECK(serves(daemon.port()));
    CHECK(line_with(daemon, why) != "");
    CHECK(daemon.end_with(SIGINT) == 0);
  }
}

TEST_CASE("a daemon enters its sandbox unless --no-sandbox is given") {
  const std::vector<std::string> plain{"--host", "127.0.0.1", "--port", "0"};
  Program daemon(plain);
  const auto port = daemon.port();
  CHECK(daemon.any_err_line().find(" cpprund: sandbox: no ") != std::string::npos);
  CHECK(file_of(daemon.pid(), "status").find("NoNewPrivs:\t1") != std::string::npos);
  CHECK(serves(port));
  CHECK(sealed_word(port).find("sealed") != std::string::npos);
  CHECK(daemon.end_with(SIGTERM) == 0);
  auto open = plain;
  open.emplace_back("--no-sandbox");
  Program unbounded(open);
  (void)unbounded.port();
  CHECK(unbounded.any_err_line().ends_with(" cpprund: sandbox: off (--no-sandbox)"));
  CHECK(file_of(unbounded.pid(), "status").find("NoNewPrivs:\t0") != std::string::npos);
  CHECK(unbounded.end_with(SIGTERM) == 0);
}

TEST_CASE("a sandboxed daemon opens its control socket and removes it on exit") {
  std::string directory = "/tmp/cpprun-service-XXXXXX";
  REQUIRE(::mkdtemp(directory.data()) != nullptr);
  Program daemon({"--host", "127.0.0.1", "--port", "0"},
                 {.words = "unset XDG_RUNTIME_DIR; TMPDIR=" + directory + " exec"});
  const auto port = daemon.port();
  CHECK(daemon.any_err_line().find("sandbox: ") != std::string::npos);
  const auto place = directory + "/cpprun-" + std::to_string(::geteuid());
  // The socket opens asynchronously; clients are served behind the sandbox meanwhile.
  char host[256] = {};
  REQUIRE(::gethostname(host, sizeof host - 1) == 0);
  const auto name = place + "/" + host + "-" + std::to_string(daemon.pid()) + ".sock";
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (::access(name.c_str(), F_OK) != 0 && std::chrono::steady_clock::now() < deadline) {
    CHECK(StoreClient::open({.host = "127.0.0.1", .port = port}));
  }
  CHECK(::access(name.c_str(), F_OK) == 0);
  CHECK(daemon.end_with(SIGTERM) == 0);
  CHECK(::access(place.c_str(), F_OK) != 0);
  CHECK(::rmdir(directory.c_str()) == 0);
}

TEST_CASE("cpprund reports why its control socket is not in TMPDIR") {
  for (const bool has_sandbox : {true, false}) {
    std::vector<std::string> words{"--host", "127.0.0.1", "--port", "0"};
    if (!has_sandbox) words.emplace_back("--no-sandbox");
    Program daemon(words, {.words = "unset XDG_RUNTIME_DIR; TMPDIR=/nowhere/at/all exec"});
    (void)daemon.port();
    CHECK(daemon.any_err_line().find("sandbox: ") != std::string::npos);
    const std::string line = daemon.any_err_line();
    CHECK(line.find("cpprund: note: TMPDIR=/nowhere/at/all cannot be used (") != std::string::npos);
    CHECK(line.find("No such file or directory); the control socket is in /tmp/cpprun-") !=
          std::string::npos);
    CHECK(daemon.end_with(SIGTERM) == 0);
  }
}

}  // namespace cpprund_service_test

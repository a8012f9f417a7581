// SPDX-License-Identifier: BSD-3-Clause
#include "tests/rendezvous/etcd/io/etcd_cluster.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <set>

#include "proto/http/client.h"
#include "rendezvous/io/file_descriptor.h"
#include "tests/integration/command.h"

namespace cpprun::test {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t body_bytes_max = 1024 * 1024;

// The path of a program, as a shell would find it.
std::string found_on_path(const std::string& program) {
  const char* const path = std::getenv("PATH");
  std::string directories = path == nullptr ? "" : path;
  for (std::size_t at = 0; at <= directories.size();) {
    const auto end = std::min(directories.find(':', at), directories.size());
    const std::string candidate = directories.substr(at, end - at) + "/" + program;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    at = end + 1;
  }
  return "";
}

pid_t start(const std::vector<std::string>& words, const std::string& output) {
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid > 0) return pid;
  std::vector<char*> arguments;
  for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  ::execv(arguments.front(), arguments.data());
  ::_exit(127);
}

// Nothing while it still runs.
std::optional<int> reap(pid_t pid) {
  int status = 0;
  return ::waitpid(pid, &status, WNOHANG) == pid ? std::optional(status) : std::nullopt;
}

// Waits for bytes or for the timeout.
bool has_bytes(int socket, short what, milliseconds timeout) {
  pollfd watched{socket, what, 0};
  return ::poll(&watched, 1, static_cast<int>(std::max<long>(timeout.count(), 0))) == 1;
}

FileDescriptor dial(int port) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return FileDescriptor();
  }
  return socket;
}

}  // namespace

bool skips_without_etcd() {
  if (!found_on_path("etcd").empty()) return false;
  integration::skip("etcd is not installed (Debian's etcd-server)");
  return true;
}

std::string post(int port, const std::string& path, const std::string& body, milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  const FileDescriptor socket = dial(port);
  if (!socket) return "";
  const std::string question = http::to_bytes(
      {.method = http::Method::post, .target = path, .host = "localhost", .body = body});
  if (::send(socket.get(), question.data(), question.size(), MSG_NOSIGNAL) < 0) return "";
  http::ReplyReader reader(body_bytes_max);
  while (!reader.is_whole()) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
    if (!has_bytes(socket.get(), POLLIN, left)) return "";
    std::array<char, 4096> chunk;
    const ssize_t count = ::recv(socket.get(), chunk.data(), chunk.size(), 0);
    if (count <= 0) return "";
    if (!reader.hear({chunk.data(), static_cast<std::size_t>(count)})) return "";
  }
  return reader.take_body();
}

int run_quietly(const std::vector<std::string>& words) {
  auto found = words;
  if (found.front().find('/') == std::string::npos) found.front() = found_on_path(found.front());
  if (found.front().empty()) return -1;
  const pid_t pid = start(found, "/dev/null");
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

EtcdCluster::EtcdCluster(Options options) : options_(std::move(options)) {
  // Another process may take a port before etcd does.
  constexpr int attempts_max = 5;
  for (int attempt = 1; attempt <= attempts_max; ++attempt) {
    if (begins(attempt)) return;
  }
  FAIL("etcd cannot be started: " << log_of(0));
}

bool EtcdCluster::begins(int attempt) {
  for (int each = 0; each < size(); ++each) kill(each);
  members_.clear();
  std::set<int> ports;
  while (static_cast<int>(ports.size()) < 2 * options_.members) {
    ports.insert(integration::free_port());
  }
  for (auto port = ports.begin(); port != ports.end();) {
    const int own = *port++;
    members_.push_back({own, *port++});
  }
  name_ = fmt::format("attempt-{}-n", attempt);
  for (int each = 0; each < size(); ++each) spawn(each, "new");
  for (int each = 0; each < size(); ++each) {
    if (!is_ready(each)) return false;
  }
  return true;
}

std::string EtcdCluster::log_of(int member) const {
  return integration::Directory::read(fmt::format("{}/{}{}.log", directory_.path(), name_, member));
}

EtcdCluster::~EtcdCluster() {
  for (int each = 0; each < size(); ++each) kill(each);
}

std::string EtcdCluster::url(int port, bool is_secure) const {
  return fmt::format("{}://127.0.0.1:{}", is_secure ? "https" : "http", port);
}

void EtcdCluster::spawn(int number, const std::string& state) {
  Member& member = members_[static_cast<std::size_t>(number)];
  std::string all;
  for (int each = 0; each < size(); ++each) {
    all += fmt::format("{}{}{}={}", each == 0 ? "" : ",", name_, each,
                       url(members_[static_cast<std::size_t>(each)].peer_port, false));
  }
  const std::string mine = url(member.port, options_.is_secure);
  const std::string peer = url(member.peer_port, false);
  const std::string name = fmt::format("{}{}", name_, number);
  std::vector<std::string> words = {
      found_on_path("etcd"),
      "--name=" + name,
      "--data-dir=" + directory_.path() + "/" + name,
      "--logger=zap",
      "--log-level=warn",
      "--listen-client-urls=" + mine,
      "--advertise-client-urls=" + mine,
      "--listen-peer-urls=" + peer,
      "--initial-advertise-peer-urls=" + peer,
      "--initial-cluster=" + all,
      "--initial-cluster-token=cpprun-test",
      "--initial-cluster-state=" + state,
      fmt::format("--heartbeat-interval={}", options_.heartbeat_milliseconds),
      fmt::format("--election-timeout={}", options_.election_milliseconds)};
  words.insert(words.end(), options_.words.begin(), options_.words.end());
  member.pid = start(words, directory_.path() + "/" + name + ".log");
}

// A member is ready when it answers; there is no earlier sign.
bool EtcdCluster::is_ready(int number) {
  Member& member = members_[static_cast<std::size_t>(number)];
  const auto deadline = steady_clock::now() + integration::timeout;
  while (steady_clock::now() < deadline) {
    if (reap(member.pid)) {
      member.pid = -1;
      return false;
    }
    if (options_.is_secure ? static_cast<bool>(dial(member.port))
                           : !ask(number, "/v3/kv/range", R"({"key":"AA=="})").empty()) {
      return true;
    }
    (void)has_bytes(-1, 0, milliseconds(10));  // Never ready: only a pause before the next attempt.
  }
  return false;
}

std::vector<EtcdEndpoint> EtcdCluster::endpoints() const {
  std::vector<EtcdEndpoint> endpoints;
  for (const Member& each : members_) {
    endpoints.push_back({options_.is_secure, "127.0.0.1", each.port});
  }
  return endpoints;
}

std::string EtcdCluster::ask(int member, const std::string& path, const std::string& body) const {
  return post(port(member), path, body, std::chrono::seconds(5));
}

int EtcdCluster::leader() const {
  const auto deadline = steady_clock::now() + integration::timeout;
  while (steady_clock::now() < deadline) {
    for (int each = 0; each < size(); ++each) {
      const std::string status =
          post(port(each), "/v3/maintenance/status", "{}", milliseconds(500));
      const auto value = [&status](const std::string& name) {
        const auto at = status.find("\"" + name + "\":\"");
        if (at == std::string::npos) return std::string();
        const auto begin = at + name.size() + 4;
        return status.substr(begin, status.find('"', begin) - begin);
      };
      if (!value("leader").empty() && value("leader") == value("member_id")) return each;
    }
  }
  FAIL("etcd has no leader");
  return 0;
}

void EtcdCluster::kill(int number) {
  Member& member = members_[static_cast<std::size_t>(number)];
  if (member.pid < 0) return;
  ::kill(member.pid, SIGKILL);
  int status = 0;
  ::waitpid(member.pid, &status, 0);
  member.pid = -1;
}

void EtcdCluster::stop(int member) const {
  ::kill(members_[static_cast<std::size_t>(member)].pid, SIGSTOP);
}

void EtcdCluster::go_on(int member) const {
  ::kill(members_[static_cast<std::size_t>(member)].pid, SIGCONT);
}

void EtcdCluster::begin_again(int member) {
  spawn(member, "existing");
  if (!is_ready(member)) FAIL("etcd does not restart: " << log_of(member));
}

}  // namespace cpprun::test

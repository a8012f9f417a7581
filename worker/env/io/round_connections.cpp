// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/round_connections.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "proto/text.h"

namespace cpprun {

namespace {

// For how long other threads may use an object that was kept, after its connections are gone.
constexpr std::chrono::seconds other_owners_max{5};

// A descriptor's number may be reused, so the inode belongs to it.
using Socket = std::pair<int, ino_t>;
using Sockets = std::set<Socket>;

struct Round {
  std::mutex mutex;  // guards the members below
  bool is_running = false;
  int openings = 0;  // Opening objects that exist
  Sockets before;    // the sockets when the first of them was made
  Sockets own;
  std::vector<std::shared_ptr<void>> kept;
};

Round& current() {
  // Never destroyed: another thread may still close a group during process exit.
  static Round* const round = std::make_unique<Round>().release();
  return *round;
}

// Of an Internet address: process groups and stores have no others.
bool is_network_socket(int descriptor, ino_t& inode) {
  struct stat status {};
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::fstat(descriptor, &status) != 0 || !S_ISSOCK(status.st_mode) ||
      ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return false;
  }
  inode = status.st_ino;
  return address.ss_family == AF_INET || address.ss_family == AF_INET6;
}

// The network sockets of this process.
Sockets open_sockets() {
  Sockets found;
  std::error_code error;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const auto descriptor = exact_number<int>(each.path().filename().native());
    ino_t inode = 0;
    if (descriptor && is_network_socket(*descriptor, inode)) found.emplace(*descriptor, inode);
  }
  return found;
}

void add_new(const Sockets& before, Sockets& own) {
  const Sockets now = open_sockets();
  std::ranges::set_difference(now, before, std::inserter(own, own.end()));
}

void shut_down_one(const Socket& socket) {
  // A second descriptor cannot be closed and reused by another thread meanwhile.
  const int copy = ::fcntl(socket.first, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return;
  ino_t inode = 0;
  int is_listener = 0;
  socklen_t size = sizeof is_listener;
  if (is_network_socket(copy, inode) && inode == socket.second &&
      ::getsockopt(copy, SOL_SOCKET, SO_ACCEPTCONN, &is_listener, &size) == 0 && !is_listener) {
    ::shutdown(copy, SHUT_RDWR);
  }
  ::close(copy);
}

}  // namespace

RoundConnections::Opening::Opening() {
  Round& round = current();
  const std::scoped_lock lock(round.mutex);
  if (round.openings++ == 0 && round.is_running) round.before = open_sockets();
}

RoundConnections::Opening::~Opening() {
  Round& round = current();
  const std::scoped_lock lock(round.mutex);
  if (--round.openings == 0 && round.is_running) add_new(round.before, round.own);
}

void RoundConnections::begin() {
  Round& round = current();
  const std::scoped_lock lock(round.mutex);
  round.is_running = true;
  round.own.clear();
}

void RoundConnections::shut_down() {
  Round& round = current();
  const std::scoped_lock lock(round.mutex);
  if (round.openings > 0) add_new(round.before, round.own);
  for (const Socket& each : round.own) shut_down_one(each);
}

void RoundConnections::end() {
  Round& round = current();
  std::vector<std::shared_ptr<void>> kept;
  {
    const std::scoped_lock lock(round.mutex);
    round.is_running = false;
    kept.swap(round.kept);
  }
  const auto until = std::chrono::steady_clock::now() + other_owners_max;
  for (auto& each : kept) {
    while (each.use_count() > 1 && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    // Leaked, rather than destroyed in the wrong thread.
    if (each.use_count() > 1) {
      static_cast<void>(std::make_unique<std::shared_ptr<void>>(std::move(each)).release());
    }
  }
}

bool RoundConnections::keep(std::shared_ptr<void> object) {
  Round& round = current();
  const std::scoped_lock lock(round.mutex);
  if (round.is_running) round.kept.push_back(std::move(object));
  return round.is_running;
}

}  // namespace cpprun

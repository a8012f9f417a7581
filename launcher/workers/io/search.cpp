// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/io/search.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <utility>

#include "launcher/workers/io/process_tree.h"
#include "proto/bounds.h"

namespace cpprun::io {

Search::Search(Kin kin, int owner, std::vector<int> heirs, Eye eye)
    : kin_(std::move(kin)), eye_(std::move(eye)), owner_(owner), heirs_(std::move(heirs)) {
  void* const shared =
      ::mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared != MAP_FAILED) looked_at_ = static_cast<int*>(shared);
}

Search::~Search() {
  if (looked_at_ != nullptr) ::munmap(looked_at_, sizeof(int));
}

void Search::kill_everybody(const std::set<int>& groups, int word) {
  for (int child = 0; child < bounds::watchdog_children_max; ++child) {
    if (look_in_a_child(groups, word) != End::held_up) return;
    if (looked_at_ != nullptr) passed_over_.insert(*looked_at_);
  }
}

Search::End Search::look_in_a_child(const std::set<int>& groups, int word) {
  // Those that were abandoned, if they have come to their end by now.
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  int ends[2];
  const bool has_pipe = ::pipe2(ends, O_CLOEXEC) == 0;
  const auto child = has_pipe ? ::fork() : -1;
  if (child == 0) {
    look_until_nobody_is_left(groups);
    ::_exit(0);
  }
  if (has_pipe) ::close(ends[1]);
  // No process can be had: better ourselves than nobody.
  if (child < 0) look_until_nobody_is_left(groups);
  const auto end = child < 0 ? End::nobody_is_left : await(child, ends[0], word);
  if (has_pipe) ::close(ends[0]);
  return end;
}

Search::End Search::await(int child, int done, int word) const {
  constexpr auto patience = std::chrono::milliseconds(bounds::watchdog_child_patience);
  while (true) {
    const int before = looked_at_ != nullptr ? *looked_at_ : 0;
    pollfd either[2] = {{done, POLLIN, 0}, {word, POLLIN, 0}};
    const int told = ::poll(either, 2, static_cast<int>(patience.count()));
    if (told < 0 && errno == EINTR) continue;
    if (told > 0 && either[0].revents != 0) {
      ::waitpid(child, nullptr, 0);
      return End::nobody_is_left;
    }
    if (told == 0 && looked_at_ != nullptr && *looked_at_ != before) continue;
    // It dies of this when the kernel lets it.
    ::kill(child, SIGKILL);
    return told > 0 ? End::called_back : End::held_up;
  }
}

void Search::look_until_nobody_is_left(const std::set<int>& groups) const {
  for (int look = 0; look < bounds::watchdog_looks_max && kill_once(groups); ++look) {
    const std::timespec pause{0, std::chrono::nanoseconds(bounds::watchdog_pause).count()};
    ::nanosleep(&pause, nullptr);
  }
}

// True when there was somebody to kill: then another look is due.
bool Search::kill_once(const std::set<int>& groups) const {
  bool found = false;
  for (const int pid : all_processes()) {
    if (pid == ::getpid() || pid == ::getppid() || passed_over_.contains(pid)) continue;
    if (looked_at_ != nullptr) *looked_at_ = pid;
    // With a mark one call tells most of them from kin.
    if (kin_.mark && !eye_(kin_, pid)) continue;
    found |= kill_checked(pid, SIGKILL, [&](int held) { return belongs(held, groups); });
  }
  if (looked_at_ != nullptr) *looked_at_ = 0;
  return found;
}

// By what makes it kin; or, for one that cleared its environment, by a group we were told of whose
// leader is no more: as long as it has a member its number is given to nobody else.
bool Search::belongs(int pid, const std::set<int>& groups) const {
  const auto stat = read_stat(pid);
  if (!stat || !stat->alive()) return false;
  if (kin_.mark) return eye_(kin_, pid);
  if (groups.contains(stat->group) && !read_stat(stat->group)) return true;
  return eye_(kin_, pid) && descends_from_worker(kin_, pid, owner_, heirs_);
}

}  // namespace cpprun::io

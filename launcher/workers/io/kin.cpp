// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/io/kin.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "launcher/workers/io/process_tree.h"

namespace cpprun::io {

namespace {

std::optional<rlimit> worn_by(int pid) {
  rlimit worn{};
  if (::prlimit(pid, RLIMIT_RTTIME, nullptr, &worn) != 0) return std::nullopt;
  return worn;
}

// Whether a limit like that can be set here at all; ours is as before when this comes back.
bool can_be_worn(WorkerMark mark, const rlimit& before) {
  const rlimit tried{mark.value, before.rlim_max};
  if (::setrlimit(RLIMIT_RTTIME, &tried) != 0) return false;
  const auto seen = worn_by(::getpid());
  return ::setrlimit(RLIMIT_RTTIME, &before) == 0 && seen && seen->rlim_cur == mark.value;
}

}  // namespace

Kin make_kin(const std::string& token, std::uint32_t random) {
  Kin kin{.mark = {}, .token = token};
  const auto worn = worn_by(::getpid());
  if (!worn) return kin;
  const auto mark = make_worker_mark(random, worn->rlim_cur);
  if (can_be_worn(mark, *worn)) kin.mark = mark;
  return kin;
}

bool is_kin(const Kin& kin, int pid) {
  if (!kin.mark) return carries_token(pid, kin.token);
  const auto worn = worn_by(pid);
  return worn && is_marked(worn->rlim_cur, *kin.mark);
}

std::vector<int> line_of(int pid) {
  std::vector<int> line;
  while (pid > 0) {
    line.push_back(pid);
    const auto stat = read_stat(pid);
    pid = stat ? stat->parent : 0;
  }
  return line;
}

bool descends_from_worker(const Kin& kin, int pid, int owner, const std::vector<int>& heirs) {
  for (auto stat = read_stat(pid); stat && stat->parent > 0; stat = read_stat(stat->parent)) {
    if (stat->parent == owner) return true;
    if (std::find(heirs.begin(), heirs.end(), stat->parent) != heirs.end()) return true;
    if (!carries_token(stat->parent, kin.token)) return false;
  }
  return false;
}

}  // namespace cpprun::io

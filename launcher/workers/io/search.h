// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The watchdog's search for what is left of a run whose cpprun cannot end it any more.
//
// It runs in a child that can be abandoned: without a mark the search reads environments, for which
// the kernel may wait for ever (a process that holds the lock on its own memory, on a hung disk).
// Whatever blocked one child is skipped by the next.

#include <functional>
#include <set>
#include <vector>

#include "launcher/workers/io/kin.h"

namespace cpprun::io {

class Search {
 public:
  // Tells kin from others; may hang.
  using Eye = std::function<bool(const Kin& kin, int pid)>;

  // Of kin that cpprun, the `owner`, has started; `heirs` are those to whom the kernel gives a
  // process whose parents are gone.
  Search(Kin kin, int owner, std::vector<int> heirs, Eye eye = is_kin);
  ~Search();
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  // KILL to everybody who is kin, and to who is left in those `groups` without a leader, until a
  // look finds nobody. Comes back sooner when there is something to read from `word`.
  void kill_everybody(const std::set<int>& groups, int word);

 private:
  enum class End { nobody_is_left, called_back, held_up };

  End look_in_a_child(const std::set<int>& groups, int word);
  End await(int child, int done, int word) const;
  void look_until_nobody_is_left(const std::set<int>& groups) const;
  bool kill_once(const std::set<int>& groups) const;
  bool belongs(int pid, const std::set<int>& groups) const;

  Kin kin_;
  Eye eye_;
  int owner_;
  std::vector<int> heirs_;
  std::set<int> passed_over_;
  int* looked_at_ = nullptr;  // whom the child looks at now; shared with it
};

}  // namespace cpprun::io

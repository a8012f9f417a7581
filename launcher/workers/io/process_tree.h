// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What /proc says about processes: who descends from whom, who is in which group, who carries our
// token, what each uses, and which of them are the job's. Any answer may be outdated at once, so
// nothing here is killed by a bare pid: `kill_checked` takes hold of the process first, checks
// again, and only then signals what it holds.

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/workers/spawn.h"
#include "proto/clock.h"

namespace cpprun::io {

struct ProcessStat {
  int pid = 0;
  char state = '?';  // as in ps: R S D T Z X
  int parent = 0;
  int group = 0;
  int session = 0;
  unsigned long long started = 0;  // in ticks since the machine's start: with the pid, who it is
  std::string name = {};           // of its program, up to 15 characters
  bool alive() const { return state != 'Z' && state != 'X'; }
};

// The whole content of a file of /proc, up to a bound; nothing where it cannot be read.
std::optional<std::string> read_proc(const std::string& path, std::size_t bytes_max);

std::optional<ProcessStat> read_stat(int pid);
std::vector<int> all_processes();

struct Descendant {
  int pid = 0;
  int parent = 0;
};

// Every process below `root`, parents before children, without those to be left out and what is
// below them. Cheap where few are there.
std::vector<Descendant> family_of(int root, const std::vector<int>& left_out = {});
std::vector<int> descendants_of(int root);

// Direct children, zombies too.
std::vector<int> children_of(int pid);

// True when CPPRUN_NODE_TOKEN in that process' environment holds `token`.
bool carries_token(int pid, const std::string& token);

// Sends `signal` to `pid` if `still_meant` confirms, after the process was taken hold of, that it
// is the right one. True if it was sent. If the kernel or a sandbox offers no hold, its identity is
// checked before and after the question; only a pid reused within the few microseconds until the
// signal would go unnoticed.
bool kill_checked(int pid, int signal, const std::function<bool(int pid)>& still_meant);

// What one process uses, as /proc tells: of itself, not of its children.
struct ProcessUsage {
  std::int64_t resident_kib = 0;
  Duration cpu{};  // since it was started
};

// Nothing: it is gone, or may not be looked at.
std::optional<ProcessUsage> usage_of(int pid);

// Kin are the workers and everything they started, however many processes removed: they are what
// cpprun ends, and nothing else. Not kin: what cpprun inherited (a `tee` started by its shell, a
// sidecar), other processes of a container whose first process it is, and jobs that a worker
// submitted.
struct Kin {
  // Nothing where this system does not let us set or read it: then the token tells.
  std::optional<WorkerMark> mark;
  std::string token;  // what every worker's CPPRUN_NODE_TOKEN holds
};

// Of a run with this token and this random number.
Kin make_kin(const std::string& token, std::uint32_t random);

// Whether that process is kin. The mark can be read without blocking; without one, the token in its
// environment decides, for which the kernel may have to wait on the process.
bool is_kin(const Kin& kin, int pid);

// That process and those above it, up to the first one of the machine.
std::vector<int> line_of(int pid);

// Whether a process that carries the token is ours. A job that a worker submitted carries it too,
// but was started by somebody else's daemon; ours are below `owner`, or below the `heirs`, to whom
// the kernel gave them when cpprun was gone.
bool descends_from_worker(const Kin& kin, int pid, int owner, const std::vector<int>& heirs);

// The watchdog's search for what is left of a run whose cpprun cannot end it any more.
//
// It runs in a child that can be abandoned: without a mark the search reads environments, for which
// the kernel may wait for ever (a process that holds the lock on its own memory, on a hung disk).
// Whatever blocked one child is skipped by the next.
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

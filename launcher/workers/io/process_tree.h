// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What /proc shows about processes: ancestry, groups, our token, resource usage, and whether they
// belong to the job. Any answer may be outdated at once, so nothing here is killed by a bare pid:
// `kill_checked` first gets a handle on the process, checks again, and only then signals through
// the handle.

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
  unsigned long long started = 0;  // ticks since boot; with the pid, its identity
  std::string name = {};           // of its program, up to 15 characters
  bool alive() const { return state != 'Z' && state != 'X'; }
};

// The content of a file in /proc, up to a size limit. None if it cannot be read.
std::optional<std::string> read_proc(const std::string& path, std::size_t bytes_max);

std::optional<ProcessStat> read_stat(int pid);
std::vector<int> all_processes();

struct Descendant {
  int pid = 0;
  int parent = 0;
};

// Every descendant of `root`, parents before children, without `left_out` and their descendants.
// Cheap if there are few.
std::vector<Descendant> family_of(int root, const std::vector<int>& left_out = {});
std::vector<int> descendants_of(int root);

// Direct children, including zombies.
std::vector<int> children_of(int pid);

// Whether CPPRUN_NODE_TOKEN in that process's environment contains `token`.
bool carries_token(int pid, const std::string& token);

// Sends `signal` to `pid` if `still_meant` confirms, after a handle was obtained, that it is the
// right process. Returns whether it was sent. If the kernel or a sandbox offers no pidfd, the
// identity is checked before and after `still_meant`. Then only a pid reused within the few
// microseconds until the signal would go unnoticed.
bool kill_checked(int pid, int signal, const std::function<bool(int pid)>& still_meant);

// Resource usage of one process from /proc, without its children.
struct ProcessUsage {
  std::int64_t resident_kib = 0;
  Duration cpu{};  // since its start
};

// None: the process is gone or may not be inspected.
std::optional<ProcessUsage> usage_of(int pid);

// How long the main thread of a process was ready to run but had no CPU, because others used them.
Duration cpu_wait_of(int pid);

// Identifies the job's processes: the workers and all their descendants. cpprun kills these and
// nothing else. Not included: what cpprun inherited (a `tee` started by its shell, a sidecar),
// other processes of a container whose first process it is, and jobs that a worker submitted.
struct JobProcesses {
  // None if this system does not let us set or read it. Then the token decides.
  std::optional<WorkerMark> mark;
  std::string token;  // the value of every worker's CPPRUN_NODE_TOKEN
};

// For a run with this token and this random number.
JobProcesses make_job_processes(const std::string& token, std::uint32_t random);

// Whether that process belongs to the job. The mark can be read without blocking. Without a mark,
// the token in its environment decides, and reading that may block in the kernel.
bool is_job_process(const JobProcesses& job_processes, int pid);

// That process and its ancestors, up to the first process of the machine.
std::vector<int> line_of(int pid);

// Whether a process that carries the token is ours. A job that a worker submitted carries it too,
// but was started by an unrelated daemon. Ours are below `owner`, or below one of `heirs`, to which
// the kernel reparents them when cpprun is gone.
bool descends_from_worker(const JobProcesses& job_processes, int pid, int owner,
                          const std::vector<int>& subreapers);

// The watchdog's search for remaining processes of a run whose cpprun can no longer kill them.
//
// It runs in a child that can be abandoned. Without a mark the search reads environments, which may
// block in the kernel forever (a process that holds the lock on its own memory, on a hung disk).
// The process that blocked one child is skipped by the next.
class Search {
 public:
  // Whether a process belongs to the job; may hang.
  using Eye = std::function<bool(const JobProcesses& job_processes, int pid)>;

  // Searches for processes started by the cpprun `owner`. `heirs`: the processes to which the
  // kernel reparents a process whose parents are gone.
  Search(JobProcesses job_processes, int owner, std::vector<int> subreapers,
         Eye eye = is_job_process);
  ~Search();
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  // Kills all processes of the job, and those left in `groups` without a leader, until a pass finds
  // none. Returns early if `word` becomes readable.
  void kill_all(const std::set<int>& groups, int word);

 private:
  enum class End { none_is_left, called_back, held_up };

  End look_in_a_child(const std::set<int>& groups, int word);
  End await(int child, int done, int word) const;
  void look_until_none_is_left(const std::set<int>& groups) const;
  bool kill_once(const std::set<int>& groups) const;
  bool belongs(int pid, const std::set<int>& groups) const;

  JobProcesses job_processes_;
  Eye eye_;
  int owner_;
  std::vector<int> subreapers_;
  std::set<int> passed_over_;
  int* looked_at_ = nullptr;  // the pid the child inspects now; in memory shared with it
};

}  // namespace cpprun::io

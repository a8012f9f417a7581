// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What /proc says about processes: who descends from whom, who is in which group, who carries our
// token. Any answer may be outdated at once, so nothing here is killed by a bare pid:
// `kill_checked` takes hold of the process first, checks again, and only then signals what it
// holds.

#include <functional>
#include <optional>
#include <string>
#include <vector>

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

}  // namespace cpprun::io

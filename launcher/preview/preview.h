// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a node would start, by the code that starts it: the same plan, made from a round of which
// not everything is known yet. Pure: `io/rehearsal` finds out the facts.

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/config.h"
#include "launcher/plan/cpu_binding.h"
#include "launcher/plan/gpus.h"
#include "launcher/plan/interfaces.h"
#include "launcher/plan/meeting_place.h"
#include "launcher/plan/program.h"
#include "proto/environment.h"
#include "proto/result.h"

namespace cpprun {

// Nothing: not known before the start.
using PreviewVariables = std::map<std::string, std::optional<std::string>, std::less<>>;

struct PreviewWorker {
  int local_rank = 0;
  std::optional<int> rank;
  std::vector<std::string> command;
  PreviewVariables variables;  // what cpprun sets, beside what it was started with itself
  std::string gpu;             // the one it takes by PyTorch's habit; empty: there is none
  std::string cpus;            // "0-31"; empty: all that cpprun may use
  friend bool operator==(const PreviewWorker&, const PreviewWorker&) = default;
};

// Something that is found out at the start, and how.
struct Unknown {
  std::string what;
  std::string why;  // a clause
  friend bool operator==(const Unknown&, const Unknown&) = default;
};

struct PreviewNode {
  std::string host;               // its name of itself
  std::string name;               // as --hosts calls it; empty otherwise
  std::optional<int> group_rank;  // its place among the nodes
  std::string address;            // from which it reaches the master; empty: no way is known
  std::string interface;          // of the collectives; empty: unknown, or they need none
  std::string hosting;            // "here", "elsewhere", "here, if etcd says so" and others
  std::string folder;             // in which the workers start
  std::string interpreter;        // empty: the program runs by itself
  int gpus = 0;                   // that the workers can see
  int gpus_there = 0;             // of the machine
  std::string role;
  std::vector<PreviewWorker> workers;
  Environment inherited;           // of cpprun's own variables those that steer the collectives
  std::vector<std::string> notes;  // what the start would say
  friend bool operator==(const PreviewNode&, const PreviewNode&) = default;
};

struct Preview {
  std::string version;
  std::string job;          // empty: made up at the start
  std::string meeting;      // "standalone", "static", "c10d", "etcd"
  std::string master_host;  // empty: whoever leads of `places`, or the node that etcd says
  std::optional<int> master_port;
  std::vector<std::string> places;     // "a:29400": of a set of cpprunds
  std::vector<std::string> etcd = {};  // "http://a:2379": which says which node hosts the job
  int nodes_min = 1;
  int nodes_max = 1;
  std::string store;  // "local", "direct"
  bool has_secret = false;
  std::string log_folder;  // empty: no files
  std::vector<PreviewNode> nodes;
  friend bool operator==(const Preview&, const Preview&) = default;
};

struct PreviewFacts {
  std::string version;
  std::string host;
  std::string folder;
  Environment environment;
  std::vector<NetworkInterface> interfaces;
  std::vector<std::string> master_addresses;  // literal; empty: its name is not resolved
  std::string local_address;                  // towards the first of them; empty: no way there
  Hosting hosting = Hosting::never;
  std::vector<CpuSet> cpus;  // by local rank; empty: nobody is bound
  GpuCounts gpus;
  int devices = 0;  // that the workers can see
  bool has_secret = false;
};

// `config` has its store settled. Fails where the start would, for want of a network interface.
Result<Preview> preview_of(const Config& config, const ResolvedProgram& program,
                           const PreviewFacts& facts);

// All of it that is found out at the start only.
std::vector<Unknown> unknowns_of(const Preview& preview);

// Marks variables as found out at the start.
void forget(PreviewVariables& variables, std::initializer_list<std::string_view> names);

// The previews of all hosts put together. Whoever knows how many workers each of them starts knows
// their ranks, which no node knows alone.

struct HostPreview {
  std::string name;  // as --hosts calls it
  Preview preview;   // with one node
  friend bool operator==(const HostPreview&, const HostPreview&) = default;
};

// `hosts`: at least one, in the order of their ranks. `is_port_given`: otherwise the first host
// finds one that is free, and what it has said is none.
Preview joint_preview(std::vector<HostPreview> hosts, bool is_port_given);

// A preview for people: the job, a table of its workers, what they are given, and what is not known
// yet.
std::string preview_text(const Preview& preview);

// A preview as JSON, for scripts, and from a host to the console that asked it. What is not known
// before the start is null.

// Several lines, and a newline at the end.
std::string to_json(const Preview& preview);

// What another cpprun of the same version has written.
Result<Preview> read_preview(std::string_view json);

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Shows what a node would start, using the code that starts it: the plan is made from a round that
// is only partly known. Pure: `io/rehearsal` collects the facts.

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/config.h"
#include "launcher/plan/devices.h"
#include "launcher/plan/host_facts.h"
#include "launcher/plan/interfaces.h"
#include "launcher/plan/meeting_place.h"
#include "launcher/plan/program.h"
#include "proto/environment.h"
#include "proto/result.h"

namespace cpprun {

// nullopt: not known before the start.
using PreviewVariables = std::map<std::string, std::optional<std::string>, std::less<>>;

struct PreviewWorker {
  int local_rank = 0;
  std::optional<int> rank;
  std::vector<std::string> command;
  PreviewVariables variables;  // set by cpprun, in addition to its own environment
  std::string gpu;             // the GPU it uses by PyTorch's convention; empty: none
  std::string cpus;            // "0-31"; empty: the same as cpprun
  friend bool operator==(const PreviewWorker&, const PreviewWorker&) = default;
};

// A value that is determined only at the start, and how.
struct Unknown {
  std::string what;
  std::string why;  // a clause
  friend bool operator==(const Unknown&, const Unknown&) = default;
};

struct PreviewNode {
  std::string host;               // its own name
  std::string name;               // its name in --hosts; empty without --hosts
  std::optional<int> group_rank;  // its node rank
  std::string address;            // from which it reaches the coordinator; empty: no route
  std::string interface;          // of the collectives; empty: unknown or not needed
  std::string hosting;            // e.g. "here", "elsewhere", "here, if etcd elects this node"
  std::string directory;          // working directory of the workers
  std::string interpreter;        // empty: the program is executed directly
  int gpus = 0;                   // visible to the workers
  int gpus_there = 0;             // present in the machine
  std::string role;
  std::vector<PreviewWorker> workers;
  Environment inherited;  // the variables of cpprun's own environment that affect the collectives
  std::vector<std::string> notes;  // printed at the start, and findings about the machine
  friend bool operator==(const PreviewNode&, const PreviewNode&) = default;
};

struct Preview {
  std::string version;
  std::string job;          // empty: generated at the start
  std::string meeting;      // "standalone", "static", "c10d", "etcd"
  std::string master_host;  // empty: the leader of `places`, or the node stored in etcd
  std::optional<int> master_port;
  std::vector<std::string> places;     // "a:29400": the cpprunds of a cluster
  std::vector<std::string> etcd = {};  // "http://a:2379": stores which node hosts the coordinator
  int nodes_min = 1;
  int nodes_max = 1;
  std::string store;  // "local", "direct"
  bool has_secret = false;
  std::string log_directory;  // empty: no files
  std::vector<PreviewNode> nodes;
  friend bool operator==(const Preview&, const Preview&) = default;
};

struct PreviewFacts {
  std::string version;
  HostFacts machine;
  std::string directory;
  Environment environment;
  std::vector<NetworkInterface> interfaces;
  std::vector<std::string> master_addresses;  // literals; empty: the name does not resolve
  std::string local_address;                  // towards the first of them; empty: no route
  Hosting hosting = Hosting::never;
  std::vector<CpuSet> cpus;  // by local rank; empty: no binding
  int devices = 0;           // visible to the workers
  bool has_secret = false;
};

// `config.store` must be resolved. Fails if a start would fail for lack of a network interface.
Result<Preview> preview_of(const Config& config, const ResolvedProgram& program,
                           const PreviewFacts& facts);

// All values that are determined only at the start.
std::vector<Unknown> unknowns_of(const Preview& preview);

// Marks variables as determined at the start.
void forget(PreviewVariables& variables, std::initializer_list<std::string_view> names);

// Combines the previews of all hosts. Given the number of workers on every host, their ranks are
// known, which no single node can know.

struct HostPreview {
  std::string name;  // as in --hosts
  Preview preview;   // of a single node
  friend bool operator==(const HostPreview&, const HostPreview&) = default;
};

// `hosts`: at least one, in the order of their ranks. Without `is_port_given` the port is not known
// yet: the first host will choose a free one.
Preview joint_preview(std::vector<HostPreview> hosts, bool is_port_given);

// A preview for the user: the job, a table of its workers, their variables, and what is not known
// yet.
std::string preview_text(const Preview& preview);

// A preview as JSON, for scripts and for the console that asked a host for it. Values not known
// before the start are null.

// Several lines with a newline at the end.
std::string to_json(const Preview& preview);

// Parses the output of another cpprun of the same version.
Result<Preview> read_preview(std::string_view json);

}  // namespace cpprun

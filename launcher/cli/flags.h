// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the command line, the environment and the --config file may decide: one member per flag. A
// misspelled member does not compile. Names, values and help of the flags are in declaration.cpp.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/config.h"
#include "launcher/streams.h"
#include "proto/clock.h"
#include "proto/restart_rules.h"

namespace cpprun {

// Where a setting comes from, the weakest first. Where two contradict each other, the stronger
// applies; two of one origin that do are a mistake.
enum class Origin { preset, scheduler, file, environment, typed };

template <class T>
struct Flag {
  std::optional<T> value;  // nothing where the flag was not given, or not with such a value
  bool given = false;
  std::string text;    // as it was written
  std::string source;  // where: "--nnodes", "PET_NNODES", "job.toml:3: nnodes"
  Origin origin = Origin::preset;
  int place = 0;  // in the help; mistakes are told in that order
};

struct NodeRange {
  int lowest = 1;
  int highest = 1;
};

// --max-restarts: of the whole job, and of causes by name.
struct RestartBudgets {
  int whole_job = 0;
  std::vector<CauseBudget> causes = {};
};

struct Flags {
  // Rendezvous
  Flag<NodeRange> nnodes;
  Flag<int> node_rank;
  Flag<bool> standalone;
  Flag<std::string> master_addr;
  Flag<int> master_port;
  Flag<std::string> rdzv_backend;
  Flag<std::string> rdzv_endpoint;
  Flag<std::string> rdzv_id;
  Flag<std::string> rdzv_conf;
  Flag<std::string> local_addr;
  Flag<std::string> secret_file;
  Flag<std::string> store;
  Flag<std::string> standby;
  Flag<bool> insecure;
  Flag<bool> no_scheduler;
  // Hosts
  Flag<std::string> hosts;
  Flag<std::string> hostfile;
  Flag<std::string> remote_shell;
  Flag<std::string> export_variables;
  Flag<bool> ship;
  // Workers
  Flag<std::string> nproc_per_node;
  Flag<bool> module;
  Flag<bool> no_python;
  Flag<bool> run_path;
  Flag<std::string> role;
  Flag<std::string> pass_local_rank;
  Flag<bool> use_env;
  Flag<bool> virtual_local_rank;
  Flag<std::string> numa_binding;
  // Failures and restarts
  Flag<RestartBudgets> max_restarts;
  Flag<Duration> restart_backoff;
  Flag<Duration> restart_window;
  Flag<std::vector<int>> no_restart_codes;
  Flag<std::vector<int>> free_restart_codes;
  Flag<int> max_no_progress;
  Flag<HostLimit> max_host_failures;
  Flag<std::string> restart_state;
  Flag<int> shutdown_timeout;
  Flag<std::string> signal_scope;
  Flag<std::string> stragglers;
  Flag<BeatTimeout> beat_timeout;
  Flag<std::string> signals_to_handle;
  Flag<std::string> preemption_notice;
  Flag<std::string> report;
  Flag<std::string> events;
  Flag<std::string> status_access;
  // Logs
  Flag<std::string> log_dir;
  Flag<int> log_keep;
  Flag<std::uint64_t> log_max_bytes;
  Flag<StreamChoices> redirects;
  Flag<StreamChoices> tee;
  Flag<std::vector<int>> local_ranks_filter;
  Flag<std::string> log_line_prefix_template;
  Flag<std::string> stderr_kind;
  Flag<std::string> duplicate_stdout_filters;
  Flag<std::string> duplicate_stderr_filters;
  Flag<std::string> log_level;
  Flag<std::string> log_time;
  Flag<std::string> event_log_handler;
  // Compatibility with torchrun
  Flag<double> monitor_interval;
  Flag<std::string> start_method;
  Flag<std::string> logs_specs;
  // General
  Flag<std::string> config;
  Flag<bool> dry_run;
  Flag<bool> json;
  Flag<std::string> print_completion;
  Flag<bool> print_man;
  Flag<bool> help;
  Flag<bool> version;
};

inline bool is_on(const Flag<bool>& flag) {
  return flag.value.value_or(false);
}

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The user's settings: one member per flag (Flags), the value types, and the errors in them
// (Diagnostics).

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/config.h"
#include "proto/clock.h"
#include "proto/restart_rules.h"
#include "proto/result.h"

namespace cpprun {

// Where a setting comes from, weakest first. If two settings contradict each other, the stronger
// origin wins. A contradiction within one origin is an error.
enum class SettingOrigin { preset, scheduler, file, environment, typed };

template <class T>
struct Flag {
  std::optional<T> value;  // nullopt if the flag was not given or its value is invalid
  bool given = false;
  std::string text;    // as written
  std::string source;  // where: "--nnodes", "PET_NNODES", "job.toml:3: nnodes"
  SettingOrigin origin = SettingOrigin::preset;
  int place = 0;  // position in the help; errors are sorted by it
};

struct NodeRange {
  int lowest = 1;
  int highest = 1;
};

// --max-restarts: a limit for the whole job and limits for single causes.
struct RestartBudgets {
  int whole_job = 0;
  std::vector<CauseBudget> causes = {};
};

// What the command line, the environment and the --config file can set: one member per flag. Names,
// values and help of the flags are in declaration.cpp.
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
  Flag<std::vector<std::string>> warm;  // empty: off
  // Failures and restarts
  Flag<RestartBudgets> max_restarts;
  Flag<std::string> restart_scope;
  Flag<Duration> restart_backoff;
  Flag<Duration> restart_window;
  Flag<std::vector<int>> no_restart_codes;
  Flag<std::vector<int>> free_restart_codes;
  Flag<int> max_no_progress;
  Flag<HostLimit> max_host_failures;
  Flag<std::string> restart_state;
  Flag<std::string> on_failure;
  Flag<int> shutdown_timeout;
  Flag<std::string> signal_scope;
  Flag<std::string> stragglers;
  Flag<HeartbeatTimeout> beat_timeout;
  Flag<Duration> hang_timeout;  // zero: off
  Flag<std::string> probe;
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
  Flag<double> exit_barrier_timeout;
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

// All errors of a command line in the order of the help, so that the user can fix them all at once.
class Diagnostics {
 public:
  static constexpr int before_flags = -1;         // for words that are not flags
  static constexpr int after_flags = 2147483647;  // for the script

  void add(int place, std::string sentence) { all_.emplace_back(place, std::move(sentence)); }
  bool empty() const { return all_.empty(); }

  // Sorted by place; those with the same place in the order of addition.
  std::vector<std::string> sentences() const {
    auto sorted = all_;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::string> sentences;
    for (auto& [place, sentence] : sorted) sentences.push_back(std::move(sentence));
    return sentences;
  }

 private:
  std::vector<std::pair<int, std::string>> all_;
};

// Parsers for the value types of flags, each with its bounds. An error text continues a sentence
// that starts with the name of the flag: "=x is not a whole number of at least 0". Declaration
// rejects empty texts before a parser is called.

template <class T>
using ValueReader = std::function<Result<T>(const std::string& text)>;

inline constexpr int any_count_max = 2'147'483'647;  // for numbers without a bound of their own

ValueReader<int> whole_number_within(int lowest, int highest);
// A name that every node sends to the coordinator.
ValueReader<std::string> name_within(std::size_t bytes_max);

Result<std::string> job_id(const std::string& text);
Result<std::string> any_text(const std::string& text);
Result<std::string> host_name(const std::string& text);
Result<NodeRange> node_range(const std::string& text);                   // "2", "2:4"
Result<Duration> policy_seconds(const std::string& text);                // "30", "0.5"
Result<HeartbeatTimeout> beat_timeout(const std::string& text);          // "60", "auto"
Result<Duration> hang_timeout(const std::string& text);                  // "60", "off"
Result<std::vector<std::string>> warm_modules(const std::string& text);  // "on", "torch,numpy"
Result<double> seconds_above_zero(const std::string& text);              // "0.1"
Result<std::vector<int>> final_codes(const std::string& text);           // "2,SIGSEGV"
Result<RestartBudgets> restart_budgets(const std::string& text);  // "3,hang=1,node=unlimited"
Result<HostLimit> host_limit(const std::string& text);            // "3", "3/3600"
Result<std::vector<int>> local_ranks(const std::string& text);    // "0,2"
Result<std::uint64_t> log_bytes(const std::string& text);         // "500000", "64M"
Result<StreamChoices> stream_choices(const std::string& text);    // "3", "0:1,1:3"

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "launcher/cli/ending_settings.h"
#include "launcher/cli/log_settings.h"
#include "launcher/cli/rendezvous_settings.h"
#include "launcher/cli/secret_settings.h"
#include "launcher/cli/setting_reader.h"
#include "launcher/cli/worker_settings.h"

namespace cpprun {

namespace {

template <class T>
std::string spelled(const Flag<T>& flag) {
  // A flag without a value that was typed has none to show.
  const bool has_value = flag.origin != Origin::typed || !std::is_same_v<T, bool>;
  return has_value ? fmt::format("{}={}", flag.source, flag.text) : flag.source;
}

class Precedence {
 public:
  explicit Precedence(Flags& flags) : flags_(flags) {}

  std::vector<std::string> settle() {
    settle_hosts();
    settle_nodes();
    settle_meeting();
    settle_workers();
    settle_endings();
    settle_logs();
    return std::move(notes_);
  }

 private:
  template <class T>
  void drop(Flag<T>& flag, const std::string& stronger) {
    notes_.push_back(
        fmt::format("note: {} is ignored: {} takes precedence", spelled(flag), stronger));
    flag.value.reset();
    flag.given = false;
  }

  template <class T, class U>
  void drop_if_weaker(Flag<T>& flag, const Flag<U>& other) {
    if (flag.given && flag.origin < other.origin) drop(flag, spelled(other));
  }

  // Of two that exclude each other.
  template <class T, class U>
  void drop_weaker(Flag<T>& one, Flag<U>& other) {
    drop_if_weaker(one, other);
    drop_if_weaker(other, one);
  }

  // --hosts starts all nodes, and these are of one.
  void settle_hosts() {
    const auto settle = [&](const Flag<std::string>& hosts) {
      if (!hosts.given) return;
      drop_if_weaker(flags_.node_rank, hosts);
      drop_if_weaker(flags_.local_addr, hosts);
      drop_if_weaker(flags_.rdzv_endpoint, hosts);
      if (is_on(flags_.standalone)) drop_if_weaker(flags_.standalone, hosts);
      const auto& range = flags_.nnodes.value;
      if (range && range->lowest == range->highest) drop_if_weaker(flags_.nnodes, hosts);
    };
    settle(flags_.hosts);
    settle(flags_.hostfile);
  }

  void settle_nodes() {
    auto& nnodes = flags_.nnodes;
    auto& rank = flags_.node_rank;
    auto& standalone = flags_.standalone;
    if (is_on(standalone) && nnodes.value && nnodes.value->highest > 1) {
      drop_weaker(standalone, nnodes);
    }
    if (!rank.value || *rank.value == 0) return;
    if (is_on(standalone)) return drop(rank, spelled(standalone));
    if (nnodes.value && *rank.value >= nnodes.value->highest) drop_if_weaker(rank, nnodes);
  }

  void settle_meeting() {
    auto& backend = flags_.rdzv_backend;
    auto& endpoint = flags_.rdzv_endpoint;
    if (!backend.value) return;
    const bool is_static = *backend.value == "static";
    const bool has_place = endpoint.value && !endpoint.value->empty();
    if (is_static && has_place && endpoint.value->find(',') != std::string::npos) {
      drop_weaker(backend, endpoint);
    } else if (!is_static && !has_place && flags_.master_addr.given) {
      // The node of rank 0 hosts at that address.
      drop_if_weaker(backend, flags_.master_addr);
    }
  }

  void settle_workers() {
    if (is_on(flags_.module) && is_on(flags_.no_python) && !is_on(flags_.run_path)) {
      drop_weaker(flags_.module, flags_.no_python);
    }
    if (flags_.pass_local_rank.value && is_on(flags_.use_env)) {
      drop_if_weaker(flags_.pass_local_rank, flags_.use_env);
    }
  }

  void settle_endings() {
    auto& final_codes = flags_.no_restart_codes;
    auto& free_codes = flags_.free_restart_codes;
    if (!final_codes.value || !free_codes.value) return;
    const auto is_in = [](const std::vector<int>& codes) {
      return [&codes](int code) { return std::ranges::find(codes, code) != codes.end(); };
    };
    if (std::ranges::none_of(*final_codes.value, is_in(*free_codes.value))) return;
    const auto yield = [&](auto& weaker, const auto& stronger) {
      if (weaker.origin >= stronger.origin) return;
      std::erase_if(*weaker.value, is_in(*stronger.value));
      notes_.push_back(fmt::format("note: {} is ignored for the codes of {}", spelled(weaker),
                                   spelled(stronger)));
    };
    yield(final_codes, free_codes);
    yield(free_codes, final_codes);
  }

  void settle_logs() {
    if (flags_.log_dir.value == "/dev/null") {
      const auto settle = [&](Flag<std::string>& words) {
        if (words.value && !words.value->empty()) drop_weaker(words, flags_.log_dir);
      };
      settle(flags_.duplicate_stdout_filters);
      settle(flags_.duplicate_stderr_filters);
    }
    const auto& report = flags_.report.value;
    if (report && !report->starts_with("/dev/") && report == flags_.events.value) {
      drop_weaker(flags_.report, flags_.events);
    }
  }

  Flags& flags_;
  std::vector<std::string> notes_;
};

}  // namespace

std::vector<std::string> drop_contradicted(Flags& flags) {
  return Precedence(flags).settle();
}

Config config_of(const Flags& flags, const CommandLine& line, Mistakes& mistakes) {
  Config config;
  SettingReader reader(flags, line.environment, mistakes, config.notes);
  read_rendezvous_settings(reader, line.random_id, config);
  read_secret_settings(reader, config);
  read_worker_settings(reader, line, config);
  read_ending_settings(reader, line.read_file, config);
  read_log_settings(reader, config);
  // A shell that is known was answered before anything else was looked at.
  if (const auto& shell = flags.print_completion; shell.value) {
    reader.complain(shell, "={} is none of bash, zsh, fish, tcsh", *shell.value);
  }
  return config;
}

}  // namespace cpprun

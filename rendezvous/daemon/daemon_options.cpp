// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/daemon_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "proto/secure/secret.h"
#include "proto/text.h"
#include "rendezvous/command_pages.h"
#include "rendezvous/coordinator/bounds.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/etcd/bounds.h"
#include "rendezvous/etcd/etcd_request.h"

namespace cpprun {

namespace {

constexpr std::size_t count_max = 1'000'000'000;  // for numbers without a limit of their own
constexpr std::uint64_t keys_max = 1'000'000'000'000;
constexpr std::size_t lease_seconds_max = 2'000'000;  // longest lease that a node can request

constexpr std::string_view standby_of =
    "cpprund: error: --standby-of was removed: two cpprunds without etcd could both become the "
    "leader\n"
    "  hint: for a planned restart, run a single cpprund with --state; for several cpprunds, start "
    "all of them with the same --etcd and --cluster\n";
constexpr std::string_view etcd_and_state =
    "cpprund: error: --etcd and --state cannot be used together: a cluster keeps its state in etcd "
    "and in the memory of its cpprunds, not on disk\n"
    "  hint: omit --state (cpprund.service: set CPPRUND_STATE= in /etc/default/cpprund), or omit "
    "--etcd to run a single cpprund\n";

c10d::Dialect dialect_of(std::string_view name) {
  if (name == "1.x") return c10d::Dialect::a;
  if (name == "2.1") return c10d::Dialect::b;
  if (name == "2.2+") return c10d::Dialect::d;
  return c10d::Dialect::undecided;
}

// Finds the secret file if no flag names one, and whether a secret is required.
Result<void> place_secret(const Environment& environment, DaemonOptions& options) {
  const auto required = secret_required(environment);
  if (!required) return failure(required.error().reason);
  options.requires_secret = *required;
  if (options.has_secrets() || !options.looks_for_secret) return {};
  const SecretPath place = secret_path({}, environment);
  (place.was_named ? options.secret_file : options.own_secret_file) = place.path;
  return {};
}

// For values that another parser checks.
template <class Parse>
TakeValue checked_text_into(std::string& target, Parse parse) {
  return [&target, parse](const std::string& text) -> Result<void> {
    const auto parsed = parse(text);
    if (!parsed) return failure(": " + parsed.error().reason);
    target = text;
    return {};
  };
}

constexpr std::string_view manual_about =
    "Coordinates the jobs whose launchers name it with \\fB\\-\\-rdzv\\-endpoint\\fR, and hosts "
    "the "
    "stores through which their workers meet. It works with clients of PyTorch 1.9 and later. "
    "Without \\fB\\-\\-state\\fR it keeps nothing on disk.";
constexpr std::string_view manual_end =
    ".SH SIGNALS\nSIGTERM and SIGINT stop cpprund. SIGHUP reloads the secrets.\n"
    ".SH \"EXIT STATUS\"\n0: stopped by a signal. 2: invalid command line. 1: any other error.\n"
    ".SH FILES\n.TP\n.I /etc/default/cpprund\nCPPRUND_FLAGS=: the flags of the service.\n"
    ".SH ENVIRONMENT\n.TP\n.B CPPRUN_LOG_LEVEL\nThe default of \\fB\\-\\-log\\-level\\fR.\n"
    ".TP\n.B CPPRUN_SECRET_FILE, CPPRUN_REQUIRE_SECRET\n"
    "The secret file; 1: do not start without a secret.\n"
    ".TP\n.B XDG_RUNTIME_DIR, TMPDIR\n"
    "The directory of the control socket for \\fBcpprunctl\\fR.\n";

// Declares the flags, and reads them into the options.
class DaemonLine {
 public:
  explicit DaemonLine(const Environment& environment) : environment_(environment) {
    const std::string* const level = find_variable(environment, log_level_variable);
    if (level != nullptr && !level->empty()) level_ = *level;
    program_ = {.name = "cpprund",
                .manual_section = 8,
                .summary = "the rendezvous daemon of cpprun",
                .synopsis = "[flags]",
                .about =
                    "The rendezvous daemon of cpprun. It hosts jobs and the stores through which "
                    "their workers meet.\nIt works with clients of PyTorch 1.9 and later.",
                .manual_about = manual_about,
                .manual_end = manual_end,
                .see_also = ".BR cpprun (1),\n.BR cpprunctl (1)"};
    add_general();
    add_secrets();
    add_services();
    add_state();
    add_cluster();
    add_job_limits();
    add_client_limits();
    add_page_flags(program_.flags);
  }

  std::variant<DaemonOptions, CommandLineEnd> read(int argc, const char* const* argv,
                                                   std::string_view version) {
    TypedWords words;
    if (auto end = read_words_into(program_, argc, argv, version, words)) return *std::move(end);
    if (words.last("max-jobs-per-address") == nullptr) {
      const std::size_t share = std::max(options_.jobs_max / 4, bounds::jobs_few);
      options_.jobs_per_address_max = std::min(options_.jobs_per_address_max, share);
    }
    if (const auto placed = place_secret(environment_, options_); !placed) {
      return CommandLineEnd{usage_error,
                            fmt::format("cpprund: error: {}\n", placed.error().reason)};
    }
    if (options_.is_member() && !options_.state_directory.empty()) {
      return CommandLineEnd{usage_error, std::string(etcd_and_state)};
    }
    options_.names_address = words.last("host") != nullptr || words.last("port") != nullptr;
    const auto level = log_level_of(level_);
    if (!level) {
      return CommandLineEnd{
          usage_error,
          fmt::format("cpprund: error: CPPRUN_LOG_LEVEL={} is not a log level\n  hint: use {}\n",
                      plain_line(level_), log_level_names)};
    }
    options_.log_level = is_verbose_ ? LogLevel::debug : *level;
    return options_;
  }

 private:
  FlagFacts& add(std::string_view name, std::string_view value, std::string_view help,
                 TakeValue take) {
    return add_flag(program_.flags, name, value, help, std::move(take));
  }
  // A word of a fixed set.
  FlagFacts& add_choice(std::string_view name, std::vector<std::string_view> choices,
                        std::string standard, std::string_view help, TakeValue take) {
    auto& flag = add(name, "WORD", help, std::move(take)).only(std::move(choices));
    flag.standard = std::move(standard);
    return flag;
  }
  // A number, whose default appears in --help and in the manual page.
  template <class N>
  FlagFacts& add_number(std::string_view name, N& value, NumberRange range, std::string_view help) {
    auto& flag = add(name, "N", help, number_into(value, range));
    if constexpr (std::is_same_v<N, Duration>) {
      flag.standard = fmt::format("{}", in_seconds(value));
    } else {
      flag.standard = std::to_string(value);
    }
    return flag;
  }

  void add_general() {
    add("--host", "ADDRESS", "Address to listen on (default: any)", text_into(options_.host));
    add_number("--port", options_.port, any_port, "Port to listen on (0: any free port)");
    add("--quiet", "", "Log jobs only, not closed connections", switch_into(options_.is_quiet));
    add("--verbose", "", "Same as --log-level debug", switch_into(is_verbose_)).excludes = {
        "quiet", "log-level"};
    add_choice("--log-level", {"error", "warning", "info", "debug"}, "info",
               "Log level: error, warning, info or debug; CPPRUN_LOG_LEVEL sets the default",
               text_into(level_));
  }

  // The owners whose jobs are hosted.
  void add_secrets() {
    add("--secrets", "DIR",
        "Directory with one secret file per owner, named after the owner (cpprunctl keygen); "
        "reloaded on SIGHUP",
        text_into(options_.secrets_directory))
        .excludes = {"secret-file"};
    add("--secret-file", "FILE",
        "File with the secret of a single owner (default: CPPRUN_SECRET_FILE, or "
        "~/.config/cpprun/secret if it exists)",
        text_into(options_.secret_file));
    add("--no-secret", "", "Use no secret, even if a default file exists; serve any client",
        switch_into(options_.looks_for_secret, false))
        .excludes = {"secrets", "secret-file"};
  }

  // Services for clients other than agents.
  void add_services() {
    add("--no-plain-store", "", "Host jobs only; no store on the main port",
        switch_into(options_.has_plain_store, false));
    add_choice("--status-access", {"none", "user", "host", "network"}, "user",
               "Read access by HTTP: none; user (this user and root); host (users of this "
               "machine); network (any client)",
               [this](const std::string& text) -> Result<void> {
                 options_.status_access = status_access(text).value_or(options_.status_access);
                 return {};
               });
    add_choice("--store-dialect", {"1.x", "2.1", "2.2+", "auto"}, "auto",
               "PyTorch version of the clients, if it cannot be detected",
               [this](const std::string& text) -> Result<void> {
                 options_.dialect = dialect_of(text);
                 return {};
               });
  }

  // Persistent state, and the sandbox.
  void add_state() {
    // The systemd unit sets one, and the site's flags may override it.
    add("--state", "DIR",
        "State directory of a single cpprund: jobs survive its restart; created if missing "
        "(default: none)",
        text_into(options_.state_directory))
        .may_repeat = true;
    add("--state-sync", "",
        "Sync the state to disk before replying to nodes, so that a power failure loses no "
        "decision",
        switch_into(options_.state_is_synced))
        .needs = {"state"};
    add("--no-sandbox", "",
        "Do not restrict file access, connections and core dumps; for debugging",
        switch_into(options_.has_sandbox, false));
  }

  // Options of a cluster: several cpprunds, one of them the leader.
  void add_cluster() {
    add("--etcd", "URLS",
        "etcd endpoints for electing a leader among several cpprunds, e.g. "
        "http://a:2379,http://b:2379; start all cpprunds with the same flags, and give agents the "
        "addresses of all",
        checked_text_into(options_.etcd, parse_etcd_endpoints));
    add_number("--etcd-lease", options_.etcd_lease,
               {std::uint64_t{bounds::etcd_lease_min.count()},
                std::uint64_t{bounds::etcd_lease_max.count()}},
               "Leader lease in etcd, in seconds. Jobs survive an etcd outage shorter than this. A "
               "leader whose host is lost is replaced after this time (a killed leader: at once). "
               "Detection of lost nodes is delayed by the same time")
        .needs = {"etcd"};
    const auto add_text = [this](std::string_view name, std::string_view value, std::string& target,
                                 std::string_view needed, std::string_view help) {
      add(name, value, help, text_into(target)).needs = {needed};
    };
    add_text("--etcd-user", "NAME", options_.etcd_user, "etcd", "etcd user");
    add_text("--etcd-password-file", "FILE", options_.etcd_password_file, "etcd-user",
             "File with the password of the etcd user");
    add_text("--etcd-cacert", "FILE", options_.etcd_authorities_file, "etcd",
             "CA file for etcd, PEM (default: the system's)");
    add_text("--etcd-cert", "FILE", options_.etcd_certificate_file, "etcd",
             "Client certificate for etcd, PEM");
    add_text("--etcd-key", "FILE", options_.etcd_key_file, "etcd-cert",
             "Key of the client certificate");
    add("--cluster", "NAME", "Name of the cluster; cpprunds of one cluster elect one leader",
        text_into(options_.cluster))
        .standard = options_.cluster;
    add("--name", "NAME", "Name of this cpprund (default: the host name)",
        text_into(options_.name));
    add("--advertise", "HOST[:PORT]",
        "Address at which other cpprunds and agents reach this one (default: --host if it is an "
        "address, else the host name; and --port)",
        checked_text_into(options_.advertised,
                          [](std::string_view text) { return parse_member_address(text); }));
  }

  // Limits for agents.
  void add_job_limits() {
    const NumberRange any{1, count_max};
    add_number("--max-jobs", options_.jobs_max, any,
               "Limit of simultaneous jobs; each uses one port, or none with --store=local");
    add_number("--max-jobs-per-address", options_.jobs_per_address_max, any,
               "Limit of simultaneous jobs started from one address; an IPv6 /64 counts as one "
               "address (with a smaller --max-jobs: a quarter of --max-jobs, at least 8)");
    add_number("--max-links-per-address", options_.links_per_address_max, any,
               "Limit of nodes connected from one address; raise it for clusters behind NAT");
    add_number("--max-lease", options_.lease_max, {1, lease_seconds_max},
               "Longest lease that a job may request, in seconds (keep_alive_interval times "
               "keep_alive_max_attempt); a job whose nodes are all lost is kept this long");
  }

  // Limits for clients of the stores.
  void add_client_limits() {
    add("--max-memory", "SIZE",
        "Limit of the memory used for clients: keys, values, requests, replies, messages, "
        "handshakes (default: half of the machine's memory or of the control group's limit)",
        size_into(options_.memory_bytes_max));
    add("--max-memory-per-address", "SIZE",
        "Limit per client address (default: half of --max-memory)",
        size_into(options_.address_bytes_max));
    add_number("--max-keys-per-address", options_.address_keys_max, {1, keys_max},
               "Limit of keys per client address");
    add_number("--max-connections-per-address", options_.address_connections_max, {1, count_max},
               "Limit of store connections per client address");
  }

  const Environment& environment_;
  ProgramFacts program_;
  DaemonOptions options_;
  std::string level_ = "info";
  bool is_verbose_ = false;
};

}  // namespace

std::variant<DaemonOptions, CommandLineEnd> parse_daemon_options(int argc, const char* const* argv,
                                                                 std::string_view version,
                                                                 const Environment& environment) {
  for (int at = 1; at < argc; ++at) {
    const std::string_view word(argv[at]);
    if (word == "--standby-of" || word.starts_with("--standby-of=")) {
      return CommandLineEnd{usage_error, std::string(standby_of)};
    }
  }
  return DaemonLine(environment).read(argc, argv, version);
}

}  // namespace cpprun

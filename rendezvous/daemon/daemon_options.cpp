// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/daemon_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>

#include "proto/bounds.h"
#include "proto/secure/secret.h"
#include "proto/text.h"
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
    "cpprund: error: --etcd and --state cannot be used together: the cpprunds of a cluster keep "
    "their state in each other and in etcd, not on disk\n"
    "  hint: omit --state (cpprund.service: set CPPRUND_STATE= in /etc/default/cpprund), or omit "
    "--etcd to run a single cpprund\n";

// Flags that take one of a fixed set of values.
const std::map<std::string, std::set<std::string>, std::less<>> word_choices = {
    {"--log-level", {"error", "warning", "info", "debug"}},
    {"--status-access", {"none", "user", "host", "network"}},
    {"--store-dialect", {"auto", "1.x", "2.1", "2.2+"}},
    {"--print-completion", {"bash", "zsh", "fish"}},
};

c10d::Dialect dialect_of(std::string_view name) {
  if (name == "1.x") return c10d::Dialect::a;
  if (name == "2.1") return c10d::Dialect::b;
  if (name == "2.2+") return c10d::Dialect::d;
  return c10d::Dialect::undecided;
}

// Adds a numeric flag whose default appears in --help and in the manual page.
template <class N>
CLI::Option* add_limit(CLI::App& app, const char* flag, N& value, NumberRange range,
                       const char* help) {
  return add_number(
             app, flag, [&value](std::uint64_t number) { value = static_cast<N>(number); }, range,
             help)
      ->default_str(std::to_string(value));
}

// Limits for clients of the stores.
void add_limits(CLI::App& app, DaemonOptions& options) {
  add_size(
      app, "--max-memory", [&options](std::uint64_t bytes) { options.memory_bytes_max = bytes; },
      "Limit of the memory used for clients: keys, values, requests, replies, messages, handshakes "
      "(default: half of the machine's memory or of the control group's limit)");
  add_size(
      app, "--max-memory-per-address",
      [&options](std::uint64_t bytes) { options.address_bytes_max = bytes; },
      "Limit per client address (default: half of --max-memory)");
  add_limit(app, "--max-keys-per-address", options.address_keys_max, {1, keys_max},
            "Limit of keys per client address");
  add_limit(app, "--max-connections-per-address", options.address_connections_max, {1, count_max},
            "Limit of store connections per client address");
}

// Limits for agents.
void add_job_limits(CLI::App& app, DaemonOptions& options, std::size_t& lease_seconds) {
  const auto limit = [&app](const char* flag, std::size_t& value, const char* text) {
    add_limit(app, flag, value, {1, count_max}, text);
  };
  limit("--max-jobs", options.jobs_max,
        "Limit of simultaneous jobs; each uses one port, or none with --store=local");
  limit("--max-jobs-per-address", options.jobs_per_address_max,
        "Limit of simultaneous jobs started from one address; an IPv6 /64 counts as one address "
        "(with a smaller --max-jobs: a quarter of --max-jobs, at least 8)");
  limit("--max-links-per-address", options.links_per_address_max,
        "Limit of nodes connected from one address; raise it for clusters behind NAT");
  add_limit(app, "--max-lease", lease_seconds, {1, lease_seconds_max},
            "Longest lease that a job may request, in seconds (keep_alive_interval times "
            "keep_alive_max_attempt); a job whose nodes are all lost is kept this long");
}

std::string level_said_by(const Environment& environment) {
  const std::string* const said = find_variable(environment, log_level_variable);
  return said == nullptr || said->empty() ? "info" : *said;
}

// Persistent state, and the sandbox.
void add_state(CLI::App& app, DaemonOptions& options) {
  auto* const directory =
      app.add_option(
             "--state", options.state_directory,
             "State directory of a single cpprund: jobs survive its restart; created if missing "
             "(default: none)")
          ->take_last()  // The systemd unit sets one, and the site's flags may override it.
          ->type_name("DIR");
  app.add_flag("--state-sync", options.state_is_synced,
               "Sync the state to disk before replying to nodes, so that a power failure loses no "
               "decision")
      ->needs(directory);
  app.add_flag("!--no-sandbox", options.has_sandbox,
               "Do not restrict file access, connections and core dumps; for debugging");
}

// Options of a cluster: several cpprunds, one of them the leader.
void add_set(CLI::App& app, DaemonOptions& options, std::size_t& etcd_lease_seconds) {
  const auto text = [&app](const char* flag, std::string& value, const char* what,
                           const char* type) {
    return app.add_option(flag, value, what)->type_name(type);
  };
  const auto endpoints = [](std::string& given) {
    const auto parsed = parse_etcd_endpoints(given);
    return parsed ? std::string() : parsed.error().reason;
  };
  auto* const etcd = text("--etcd", options.etcd,
                          "etcd endpoints for electing a leader among several cpprunds, e.g. "
                          "http://a:2379,http://b:2379; start all cpprunds with the same flags, "
                          "and give agents the addresses of all",
                          "URLS")
                         ->check(CLI::Validator(endpoints, "", "endpoints"));
  add_limit(app, "--etcd-lease", etcd_lease_seconds,
            {std::uint64_t{bounds::etcd_lease_min.count()},
             std::uint64_t{bounds::etcd_lease_max.count()}},
            "Leader lease in etcd, in seconds. Jobs survive an etcd outage shorter than this. A "
            "leader whose host is lost is replaced after this time (a killed leader: at once); "
            "lost nodes are detected later by the same time")
      ->needs(etcd);
  text("--etcd-user", options.etcd_user, "etcd user", "NAME")->needs(etcd);
  text("--etcd-password-file", options.etcd_password_file,
       "File with the password of the etcd user", "FILE")
      ->needs("--etcd-user");
  text("--etcd-cacert", options.etcd_authorities_file,
       "CA file for etcd, PEM (default: the system's)", "FILE")
      ->needs(etcd);
  text("--etcd-cert", options.etcd_certificate_file, "Client certificate for etcd, PEM", "FILE")
      ->needs(etcd);
  text("--etcd-key", options.etcd_key_file, "Key of the client certificate", "FILE")
      ->needs("--etcd-cert");
  const auto place = [](std::string& given) {
    const auto parsed = parse_member_address(given);
    return parsed ? std::string() : parsed.error().reason;
  };
  text("--cluster", options.cluster,
       "Name of the cluster; cpprunds of one cluster elect one leader", "NAME")
      ->capture_default_str();
  text("--name", options.name, "Name of this cpprund (default: the host name)", "NAME");
  text("--advertise", options.advertised,
       "Address at which other cpprunds and agents reach this one (default: --host if it is an "
       "address, else the host name; and --port)",
       "HOST[:PORT]")
      ->check(CLI::Validator(place, "", "place"));
}

// The owners whose jobs are hosted.
void add_secrets(CLI::App& app, DaemonOptions& options) {
  auto* const directory =
      app.add_option("--secrets", options.secrets_directory,
                     "Directory with one secret file per owner, named after the owner (cpprunctl "
                     "keygen); reloaded on SIGHUP")
          ->type_name("DIR");
  app.add_option("--secret-file", options.secret_file,
                 "File with the secret of a single owner (default: CPPRUN_SECRET_FILE, or "
                 "~/.config/cpprun/secret if it exists)")
      ->type_name("FILE")
      ->excludes(directory);
  app.add_flag("!--no-secret", options.looks_for_secret,
               "Use no secret, even if a default file exists; serve any client")
      ->excludes("--secrets")
      ->excludes("--secret-file");
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

// Services for clients other than agents.
void add_services(CLI::App& app, DaemonOptions& options) {
  app.add_flag("!--no-plain-store", options.has_plain_store,
               "Host jobs only; no store on the main port");
  const auto take = [&options](const CLI::results_t& texts) {
    const auto access = status_access(texts.front());
    options.status_access = access.value_or(options.status_access);
    return access.has_value();
  };
  app.add_option("--status-access", CLI::callback_t(take),
                 "Read access by HTTP: none; user (this user and root); host (users of this "
                 "machine); network (any client)")
      ->check(CLI::IsMember(word_choices.at("--status-access")))
      ->default_str("user");
}

// The flags as declared to CLI11, for the manual page and the completions.
std::vector<DaemonFlag> flags_of(const CLI::App& app) {
  std::vector<DaemonFlag> flags;
  for (const auto* option : app.get_options()) {
    DaemonFlag flag{.spellings = spellings_of(*option),
                    .value = {},
                    .standard = option->get_default_str(),
                    .choices = {},
                    .help = option->get_description()};
    if (option->get_items_expected_max() > 0) flag.value = option->get_type_name();
    // CLI11 appends ":" and the names of the validators.
    flag.value = flag.value.substr(0, flag.value.find(':'));
    if (const auto found = word_choices.find(option->get_name()); found != word_choices.end()) {
      flag.choices.assign(found->second.begin(), found->second.end());
      flag.value = "WORD";
    }
    flags.push_back(std::move(flag));
  }
  return flags;
}

// Like --version, these take effect before missing arguments are reported.
void add_prints(CLI::App& app, std::string_view version) {
  const auto print = [](const std::string& text) { throw CLI::CallForVersion(text, 0); };
  app.add_option_function<std::string>(
         "--print-completion",
         [&app, print](const std::string& shell) {
           print(daemon_completion(shell, flags_of(app)).value_or(""));
         },
         "Print a completion script")
      ->check(CLI::IsMember(word_choices.at("--print-completion")))
      ->type_name("SHELL");
  app.add_flag_callback(
      "--print-man",
      [&app, print, said = std::string(version)] { print(daemon_manual(flags_of(app), said)); },
      "Print a manual page");
}

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
  DaemonOptions options;
  CLI::App app{
      "cpprund: the rendezvous daemon of cpprun. It hosts jobs and the stores through which their "
      "workers meet.\nIt works with clients of PyTorch 1.9 and later."};
  app.name("cpprund");
  app.set_version_flag("--version", fmt::format("cpprund {}", version), "Show the version");
  app.add_option("--host", options.host, "Address to listen on (default: any)")
      ->type_name("ADDRESS");
  add_limit(app, "--port", options.port, any_port, "Port to listen on (0: any free port)");
  auto* quiet = app.add_flag("--quiet", options.is_quiet, "Log jobs only, not closed connections");
  bool is_verbose = false;
  auto* verbose = app.add_flag("--verbose", is_verbose, "Same as --log-level debug");
  verbose->excludes(quiet);
  std::string level = level_said_by(environment);
  app.add_option("--log-level", level,
                 "Log level: error, warning, info or debug; CPPRUN_LOG_LEVEL sets the default")
      ->check(CLI::IsMember(word_choices.at("--log-level")))
      ->default_str("info")
      ->excludes(verbose);
  add_secrets(app, options);
  add_services(app, options);
  // Parsed as a string: CLI11 would accept an enum by number, too.
  std::string dialect = "auto";
  app.add_option("--store-dialect", dialect,
                 "PyTorch version of the clients, if it cannot be detected")
      ->check(CLI::IsMember(word_choices.at("--store-dialect")))
      ->capture_default_str();
  add_state(app, options);
  auto etcd_lease_seconds = static_cast<std::size_t>(in_seconds(options.etcd_lease));
  add_set(app, options, etcd_lease_seconds);
  auto lease_seconds = static_cast<std::size_t>(in_seconds(options.lease_max));
  add_job_limits(app, options, lease_seconds);
  add_limits(app, options);
  add_prints(app, version);
  if (auto end = read_words_into(app, argc, argv)) return *std::move(end);
  if (app.count("--max-jobs-per-address") == 0) {
    const std::size_t share = std::max(options.jobs_max / 4, bounds::jobs_few);
    options.jobs_per_address_max = std::min(options.jobs_per_address_max, share);
  }
  if (const auto placed = place_secret(environment, options); !placed) {
    return CommandLineEnd{usage_error, fmt::format("cpprund: error: {}\n", placed.error().reason)};
  }
  if (options.is_member() && !options.state_directory.empty()) {
    return CommandLineEnd{usage_error, std::string(etcd_and_state)};
  }
  options.names_address = app.count("--host") + app.count("--port") > 0;
  options.dialect = dialect_of(dialect);
  options.lease_max = std::chrono::seconds(lease_seconds);
  options.etcd_lease = std::chrono::seconds(etcd_lease_seconds);
  const auto wanted = log_level_of(level);
  if (!wanted) {
    return CommandLineEnd{
        usage_error,
        fmt::format("cpprund: error: CPPRUN_LOG_LEVEL={} is not a log level\n  hint: use {}\n",
                    plain_line(level), log_level_names)};
  }
  options.log_level = is_verbose ? LogLevel::debug : *wanted;
  return options;
}

namespace {

// What each shell offers in place of a flag's value.
struct Values {
  std::string bash;  // a command that prints the candidates that begin with $word
  std::string zsh;   // an action of _arguments
  std::string fish;  // arguments of complete
};

Values values_of(const DaemonFlag& flag) {
  if (!flag.choices.empty()) {
    const auto words = fmt::format("{}", fmt::join(flag.choices, " "));
    return {.bash = fmt::format("compgen -W '{}' -- \"$word\"", words),
            .zsh = fmt::format("({})", words),
            .fish = fmt::format(" -x -a '{}'", words)};
  }
  if (flag.value == "FILE") {
    return {.bash = "compgen -f -- \"$word\"", .zsh = "_files", .fish = " -r -F"};
  }
  if (flag.value == "DIR") {
    return {.bash = "compgen -d -- \"$word\"",
            .zsh = "_files -/",
            .fish = " -x -a '(__fish_complete_directories)'"};
  }
  if (flag.value == "ADDRESS") {
    return {.bash = "compgen -A hostname -- \"$word\"",
            .zsh = "_hosts",
            .fish = " -x -a '(__fish_print_hostnames)'"};
  }
  return {.bash = ":", .zsh = " ", .fish = " -x"};
}

std::string bash_script(const std::vector<DaemonFlag>& flags) {
  std::vector<std::string> all;
  std::string cases;
  for (const auto& flag : flags) {
    all.insert(all.end(), flag.spellings.begin(), flag.spellings.end());
    if (flag.value.empty()) continue;
    cases += fmt::format("    {}) mapfile -t COMPREPLY < <({}) ;;\n",
                         fmt::join(flag.spellings, "|"), values_of(flag).bash);
  }
  // bash splits --flag=value into words at the "=".
  return fmt::format(
      R"(# bash completion for cpprund: source it, or put it into bash-completion's directory
_cpprund() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} flag=${{COMP_WORDS[COMP_CWORD - 1]}}
  COMPREPLY=()
  [[ $flag != "=" ]] || flag=${{COMP_WORDS[COMP_CWORD - 2]}}
  if [[ $word == "=" ]]; then
    word=
    flag=${{COMP_WORDS[COMP_CWORD - 1]}}
  fi
  case $flag in
{}    *) mapfile -t COMPREPLY < <(compgen -W '{}' -- "$word") ;;
  esac
}}

complete -o filenames -F _cpprund cpprund
)",
      cases, fmt::join(all, " "));
}

std::string zsh_script(const std::vector<DaemonFlag>& flags) {
  std::string text =
      "#compdef cpprund\n# zsh completion for cpprund: source it, or put it into a directory of "
      "fpath as _cpprund\n\n_cpprund() {\n  _arguments -S";
  for (const auto& flag : flags) {
    for (const auto& spelling : flag.spellings) {
      const auto value = flag.value.empty()
                             ? ""
                             : fmt::format(":{}:{}", zsh_text(flag.value), values_of(flag).zsh);
      text += " \\\n    " +
              shell_word(fmt::format("{}{}[{}]{}", spelling, flag.value.empty() ? "" : "=",
                                     zsh_text(flag.help), value));
    }
  }
  return text +
         "\n}\n\nif [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n  _cpprund \"$@\"\nelse\n"
         "  compdef _cpprund cpprund\nfi\n";
}

std::string fish_script(const std::vector<DaemonFlag>& flags) {
  std::string text = "# fish completion for cpprund\ncomplete -c cpprund -f\n";
  for (const auto& flag : flags) {
    text += "complete -c cpprund";
    for (const auto& spelling : flag.spellings) {
      text += spelling.starts_with("--") ? fmt::format(" -l {}", spelling.substr(2))
                                         : fmt::format(" -s {}", spelling.substr(1));
    }
    if (!flag.value.empty()) text += values_of(flag).fish;
    text += fmt::format(" -d {}\n", shell_word(flag.help));
  }
  return text;
}

}  // namespace

std::string daemon_manual(const std::vector<DaemonFlag>& flags, std::string_view version) {
  std::string text = fmt::format(
      ".TH CPPRUND 8 \"\" \"cpprund {}\" \"System Administration\"\n"
      ".nh\n.ad l\n.SH NAME\ncpprund \\- the rendezvous daemon of cpprun\n"
      ".SH SYNOPSIS\n.B cpprund\n[\\fIflags\\fR]\n"
      ".SH DESCRIPTION\nCoordinates the jobs whose launchers name it with "
      "\\fB\\-\\-rdzv\\-endpoint\\fR, and hosts the stores through which their workers meet. "
      "It works with clients of PyTorch 1.9 and later. Without \\fB\\-\\-state\\fR it keeps "
      "nothing on disk.\n.SH OPTIONS\n",
      roff_text(version));
  for (const auto& flag : flags) {
    const auto value = flag.value.empty() ? "" : fmt::format(" \\fI{}\\fR", roff_text(flag.value));
    text += fmt::format(".TP\n\\fB{}\\fR{}\n{}.",
                        roff_text(fmt::format("{}", fmt::join(flag.spellings, ", "))), value,
                        roff_text(flag.help));
    if (!flag.choices.empty()) {
      text +=
          fmt::format(" One of {}.", roff_text(fmt::format("{}", fmt::join(flag.choices, ", "))));
    }
    if (!flag.standard.empty()) text += fmt::format(" Default: {}.", roff_text(flag.standard));
    text += '\n';
  }
  return text +
         ".SH SIGNALS\nSIGTERM and SIGINT stop cpprund. SIGHUP reloads the secrets.\n"
         ".SH \"EXIT STATUS\"\n0: stopped by a signal. 2: invalid command line. 1: any other "
         "error.\n"
         ".SH FILES\n.TP\n.I /etc/default/cpprund\nCPPRUND_FLAGS=: the flags of the service.\n"
         ".SH ENVIRONMENT\n.TP\n.B CPPRUN_LOG_LEVEL\nThe default of \\fB\\-\\-log\\-level\\fR.\n"
         ".TP\n.B CPPRUN_SECRET_FILE, CPPRUN_REQUIRE_SECRET\n"
         "The secret file; 1: do not start without a secret.\n"
         ".TP\n.B XDG_RUNTIME_DIR, TMPDIR\n"
         "The directory of the control socket for \\fBcpprunctl\\fR.\n"
         ".SH \"SEE ALSO\"\n.BR cpprun (1),\n.BR cpprunctl (1)\n";
}

std::optional<std::string> daemon_completion(std::string_view shell,
                                             const std::vector<DaemonFlag>& flags) {
  if (shell == "bash") return bash_script(flags);
  if (shell == "zsh") return zsh_script(flags);
  if (shell == "fish") return fish_script(flags);
  return std::nullopt;
}

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <set>
#include <vector>

#include "launcher/control/text.h"
#include "proto/bounds.h"
#include "proto/secure/secret.h"
#include "proto/text.h"
#include "rendezvous/endpoint.h"

namespace cpprun {

namespace {

constexpr std::int64_t token_seconds = 3600;  // default lifetime of a token

constexpr const char* footer =
    "JOB is optional if there is only one. Commands that only read accept a prefix of its\n"
    "name; all others and `wait` need the full name.\n"
    "Exit codes: 0 success; 1 rejected, or no such job; 2 invalid command line; 69 no\n"
    "response, result unknown. `wait` exits with the job's exit code.\n"
    "\n"
    "  cpprunctl ls                         your jobs on this machine\n"
    "  cpprunctl top                        one job, refreshed every second\n"
    "  cpprunctl events -f train            events of the job whose name starts with train\n"
    "  cpprunctl drain node-7 --reason \"ECC errors\"\n"
    "  cpprunctl exclude node-7 --for 2h\n"
    "  cpprunctl policy simulate job.toml --trace events.jsonl\n"
    "  cpprunctl handover                   before an upgrade of the leading cpprund\n"
    "  cpprunctl keygen                     a secret that keeps other users out of your jobs\n"
    "  cpprunctl doctor --hosts a,b         check whether these hosts can run a job together\n";

ControlFlag flag_of(const CLI::Option& option) {
  ControlFlag flag{
      .spellings = spellings_of(option), .value = {}, .help = option.get_description()};
  if (option.get_items_expected_max() > 0) flag.value = option.get_type_name();
  return flag;
}

std::vector<ControlFlag> flags_of(const CLI::App& app) {
  std::vector<ControlFlag> flags;
  for (const auto* option : app.get_options()) {
    if (!option->nonpositional()) continue;
    flags.push_back(flag_of(*option));
  }
  return flags;
}

ControlFacts facts_of(const CLI::App& app) {
  ControlFacts facts{.flags = flags_of(app), .commands = {}};
  for (const auto* each : app.get_subcommands({})) {
    ControlCommand command{.name = each->get_name(),
                           .help = each->get_description(),
                           .subject = {},
                           .flags = flags_of(*each)};
    for (const auto* option : each->get_options()) {
      if (option->nonpositional()) continue;
      if (!command.subject.empty()) command.subject += ' ';
      command.subject += option->get_name(true);
      command.needs_subject = option->get_required();
    }
    facts.commands.push_back(std::move(command));
  }
  return facts;
}

// Declares the commands with their flags and arguments.
class Declaration {
 public:
  explicit Declaration(std::string_view version)
      : app_("Monitors and controls the jobs of cpprun and cpprund.") {
    app_.name("cpprunctl");
    app_.set_version_flag("--version", fmt::format("cpprunctl {}", version), "Show the version");
    app_.require_subcommand(1);
    app_.fallthrough();
    app_.footer(footer);
    app_.add_option("--address", address_,
                    "Connect to HOST:PORT or [IPv6]:PORT instead of this user's sockets")
        ->type_name("HOST:PORT");
    app_.add_flag("--all-users", options_.of_all_users,
                  "Include jobs of other users, if permitted");
    app_.add_flag("--json", options_.as_json, "Print one line of JSON, for scripts");
    add_sights();
    add_view();
    add_orders();
    add_policy();
    add_secrets();
    add_doctor();
    add_prints(version);
  }

  std::variant<ControlOptions, CommandLineEnd> read(int argc, const char* const* argv) {
    if (auto end = read_words_into(app_, argc, argv)) return *std::move(end);
    return checked();
  }

 private:
  CLI::App* add(CommandKind kind, const char* name, const char* help, const char* example) {
    auto* const command = app_.add_subcommand(name, help);
    command->callback([this, kind] { options_.kind = kind; });
    command->footer(fmt::format("Example:\n  {}\n", example));
    return command;
  }
  void take_job(CLI::App* command,
                const char* help = "Full name of the job; optional if there is only one") {
    command->add_option("JOB", options_.job, help)->type_name("");
  }
  void take_job_to_read(CLI::App* command) {
    take_job(command, "Name of the job, or a prefix of it; optional if there is only one");
  }
  void take_reason(CLI::App* command) {
    command->add_option("--reason", options_.reason, "Reason, for the report and the events")
        ->type_name("TEXT");
  }

  void add_sights() {
    auto* const list =
        add(CommandKind::list, "ls", "List the jobs", "cpprunctl ls --all-users")->alias("list");
    list->add_flag("--names", options_.names_alone, "Print only the names, one per line");
    take_job_to_read(add(CommandKind::status, "status",
                         "Show a job with its nodes and rounds, or a cpprund with its jobs",
                         "cpprunctl status train"));
    take_job_to_read(add(CommandKind::top, "top", "Like status, refreshed every second; q quits",
                         "cpprunctl top train"));
    auto* const events = add(CommandKind::events, "events", "List the events of a job",
                             "cpprunctl events --follow train");
    take_job_to_read(events);
    events->add_flag("-f,--follow", options_.follows, "Wait for new events");
    take_job_to_read(
        add(CommandKind::report, "report", "Show what failed, and why", "cpprunctl report train"));
    take_job(add(CommandKind::wait, "wait", "Wait for the job to end, and exit with its exit code",
                 "cpprunctl wait train && ./evaluate.sh"));
  }

  void add_view() {
    auto* const view = add(CommandKind::view, "view",
                           "Write a report from cpprun --report as a web page, to open or to share",
                           "cpprunctl view report.json");
    view->add_option("FILE", options_.subject, "The report")->type_name("")->required();
    view->add_option("-o,--output", options_.output,
                     "Output file (default: FILE with the ending .html; -: standard output)")
        ->type_name("FILE");
  }

  void add_orders() {
    auto* const stop =
        add(CommandKind::stop, "stop",
            "Stop the job on all nodes: SIGTERM, then SIGKILL after the grace period",
            "cpprunctl stop train --reason \"wrong learning rate\"");
    auto* const restart = add(CommandKind::restart, "restart", "Restart all workers in a new round",
                              "cpprunctl restart train --reason \"rank 3 hangs\"");
    auto* const save =
        add(CommandKind::save, "save", "Send all workers a signal to save a checkpoint",
            "cpprunctl save train --signal SIGUSR2");
    auto* const forget =
        add(CommandKind::forget, "forget", "Remove a finished job from its cpprund",
            "cpprunctl forget train --address head:29400");
    take_reason(add(CommandKind::handover, "handover",
                    "Transfer leadership from a cpprund to its standby",
                    "cpprunctl handover --address head:29400 --reason upgrade"));
    for (auto* const command : {stop, restart, save, forget}) {
      take_job(command);
      take_reason(command);
    }
    save->add_option("--signal", options_.signal, "The signal (default: SIGUSR1)")
        ->type_name("NAME");
    auto* const drain =
        add(CommandKind::drain, "drain", "Remove a node from the job; a spare takes its place",
            "cpprunctl drain node-7 --reason \"ECC errors\"");
    drain->add_option("NODE|HOST", options_.subject, "Rank or host name of the node")
        ->type_name("")
        ->required();
    auto* const exclude =
        add(CommandKind::exclude, "exclude", "Exclude a host from all jobs, or from --job",
            "cpprunctl exclude node-7 --for 2h");
    exclude
        ->add_option("--for", length_,
                     "Duration: 90s, 45m, 2h, 1h30m (default: until the job ends or include)")
        ->type_name("LENGTH");
    auto* const include = add(CommandKind::include, "include", "Allow an excluded host again",
                              "cpprunctl include node-7");
    for (auto* const command : {exclude, include}) {
      command->add_option("HOST", options_.subject, "The host")->type_name("")->required();
    }
    for (auto* const command : {drain, exclude, include}) {
      command->add_option("--job", options_.job, "Full name of the job")->type_name("JOB");
      take_reason(command);
    }
    for (auto* const command : {exclude, include}) {
      command->add_flag("--all", options_.to_all,
                        "Send the command to all cppruns and cpprunds that host jobs here");
    }
  }

  void add_policy() {
    auto* const policy =
        add(CommandKind::simulate, "policy", "Simulate a restart policy on recorded failures",
            "cpprunctl policy simulate job.toml --trace events.jsonl");
    policy->add_option("simulate", simulate_, "Always \"simulate\"")
        ->check(CLI::IsMember(std::set<std::string>{"simulate"}))
        ->type_name("")
        ->required();
    policy->add_option("POLICY", options_.subject, "File with the policy, as for cpprun --config")
        ->type_name("")
        ->required();
    policy
        ->add_option("--trace", options_.trace,
                     "File from --events or --report, or with invented failures")
        ->type_name("FILE")
        ->required();
    policy->add_option("--job", options_.job, "The job, if the trace has several")
        ->type_name("JOB");
  }

  void add_secrets() {
    app_.add_option("--secret-file", options_.secret_file,
                    "Secret to use (default: CPPRUN_SECRET_FILE, or ~/.config/cpprun/secret)")
        ->type_name("FILE");
    auto* const keygen =
        add(CommandKind::keygen, "keygen", "Create a secret for the nodes of your jobs",
            "cpprunctl keygen --id 2027-01 --add ~/.config/cpprun/secret");
    keygen
        ->add_option("FILE", options_.subject,
                     "Output file (default: ~/.config/cpprun/secret; -: standard output)")
        ->type_name("");
    keygen
        ->add_option("--id", options_.id, "Name of the secret (default: the date and six letters)")
        ->type_name("NAME");
    keygen->add_flag("--add", options_.adds, "Add to an existing file; the old secret stays valid");
    auto* const token = add(CommandKind::token, "token",
                            "Print a bearer token for a client that does not have the secret",
                            "cpprunctl token --read --for 8h --job train");
    token->add_flag("--read", reads_, "The token gives read access");
    token->add_flag("--order", options_.token_controls, "The token gives read and control access");
    token->add_option("--for", length_, "Lifetime: 90s, 45m, 2h, 1h30m (default: 1h)")
        ->type_name("LENGTH");
    token->add_option("--job", options_.job, "Only for this job (full name)")->type_name("JOB");
  }

  void add_doctor() {
    auto* const doctor =
        add(CommandKind::doctor, "doctor", "Check hosts: names, clocks, ports, GPUs, limits, disks",
            "cpprunctl doctor --hosts node-1,node-2");
    auto& options = options_.doctor;
    doctor->add_option("--hosts", options.hosts, "Hosts, as for cpprun (default: this machine)")
        ->type_name("HOST,...|slurm");
    doctor->add_option("--hostfile", options.host_file, "Read the hosts from a file, one per line")
        ->type_name("FILE");
    doctor
        ->add_option("--remote-shell", options.remote_shell,
                     "Command to use instead of ssh, e.g. \"kubectl exec -i {host} --\"")
        ->type_name("CMD");
    add_number(
        *doctor, "--port",
        [&options](std::uint64_t port) { options.port = static_cast<int>(port); }, any_port,
        "Port to test on every host, e.g. the --master-port (default: any free port)")
        ->type_name("PORT");
    doctor->add_flag("--ship", options.ship, "Copy this binary to hosts that do not have it");
  }

  // Handled like --version: before missing arguments are reported.
  void add_prints(std::string_view version) {
    const auto print = [](const std::string& text) { throw CLI::CallForVersion(text, 0); };
    app_.add_option_function<std::string>(
            "--print-completion",
            [this, print](const std::string& shell) {
              print(control_completion(shell, facts_of(app_)).value_or(""));
            },
            "Print a completion script: bash, zsh or fish")
        ->check(CLI::IsMember(std::set<std::string>{"bash", "zsh", "fish"}))
        ->type_name("SHELL");
    app_.add_flag_callback(
        "--print-man",
        [this, print, said = std::string(version)] { print(control_manual(facts_of(app_), said)); },
        "Print a manual page");
  }

  std::variant<ControlOptions, CommandLineEnd> checked() {
    const auto misuse = [](const std::string& why) {
      return CommandLineEnd{control_code::misuse, fmt::format("cpprunctl: error: {}\n", why)};
    };
    if (!address_.empty()) {
      auto endpoint = parse_endpoint(address_, rendezvous_port_default);
      if (!endpoint) return misuse("--address: " + endpoint.error().reason);
      if (endpoint->port == 0)
        return misuse("--address: port \"0\" is not a number from 1 to 65535");
      options_.address = std::move(*endpoint);
    }
    if (options_.to_all && !options_.job.empty()) {
      return misuse("--all and --job exclude each other\n  hint: use only one");
    }
    if (!length_.empty()) {
      const auto length = parse_duration(length_);
      if (!length) return misuse("--for: " + length.error().reason);
      options_.for_seconds = *length;
    }
    if (const auto why = wrong_with_secrets(); !why.empty()) return misuse(why);
    if (const auto why = wrong_with_doctor(); !why.empty()) return misuse(why);
    if (const auto why = wrong_with_view(); !why.empty()) return misuse(why);
    return options_;
  }

  std::string wrong_with_view() const {
    if (options_.kind != CommandKind::view) return {};
    if (options_.as_json) return "--json has no effect with view: the report is JSON already";
    return {};
  }

  std::string wrong_with_doctor() const {
    const auto& options = options_.doctor;
    if (options.hosts && !options.host_file.empty()) {
      return "--hosts and --hostfile exclude each other\n  hint: use only one";
    }
    const bool has_hosts = options.hosts || !options.host_file.empty();
    if (!has_hosts && options.remote_shell) {
      return "--remote-shell has no effect without --hosts or --hostfile";
    }
    if (!has_hosts && options.ship) return "--ship has no effect without --hosts or --hostfile";
    return {};
  }

  // Rejects invalid combinations for keygen and token, and a token without --read or --order.
  std::string wrong_with_secrets() {
    if (options_.kind != CommandKind::keygen && options_.kind != CommandKind::token) return {};
    if (options_.as_json) return "--json has no effect with keygen and token";
    if (options_.kind == CommandKind::keygen) {
      if (!options_.id.empty() && !is_secret_id(options_.id)) {
        return "--id takes 1 to 64 letters, digits, dots, dashes and underscores";
      }
      if (options_.adds && options_.subject == "-") return "--add needs a file that has a secret";
      return {};
    }
    if (reads_ == options_.token_controls) return "token needs either --read or --order";
    if (options_.job.size() > bounds::job_id_bytes_max) {
      return fmt::format("--job: a job name has at most {} bytes", bounds::job_id_bytes_max);
    }
    if (!options_.for_seconds) options_.for_seconds = token_seconds;
    return {};
  }

  CLI::App app_;
  ControlOptions options_;
  std::string address_;
  std::string length_;
  std::string simulate_;
  bool reads_ = false;
};

}  // namespace

std::variant<ControlOptions, CommandLineEnd> read_control_line(int argc, const char* const* argv,
                                                               std::string_view version) {
  return Declaration(version).read(argc, argv);
}

namespace {

constexpr std::string_view jobs_of_now = "cpprunctl ls --names 2>/dev/null";

bool takes_job(const ControlCommand& command) {
  return command.subject == "JOB";
}
bool takes_file(const ControlCommand& command) {
  return command.subject == "FILE";
}

std::vector<std::string> spellings_of(const std::vector<ControlFlag>& flags) {
  std::vector<std::string> all;
  for (const auto& flag : flags) {
    all.insert(all.end(), flag.spellings.begin(), flag.spellings.end());
  }
  return all;
}

// Names of jobs and files are data. They are filtered and quoted, and never expanded by a shell.
// compgen -W would expand them, because it parses its word list like a shell line.
std::string bash_script(const ControlFacts& facts) {
  std::vector<std::string> names;
  std::string cases;
  for (const auto& command : facts.commands) {
    names.push_back(command.name);
    const auto words = fmt::format("{} {}", fmt::join(spellings_of(command.flags), " "),
                                   fmt::join(spellings_of(facts.flags), " "));
    std::string subjects = ":";
    if (takes_job(command)) subjects = fmt::format("mapfile -t found < <({})", jobs_of_now);
    if (takes_file(command)) subjects = "compopt -o default 2>/dev/null";
    cases += fmt::format("    {}) if [[ $word == -* ]]; then found=({}); else {}; fi ;;\n",
                         command.name, words, subjects);
  }
  return fmt::format(
      R"(# bash completion for cpprunctl: source it, or put it into bash-completion's directory
_cpprunctl() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} at command= each quoted
  local -a found=()
  for ((at = 1; at < COMP_CWORD; at++)); do
    case ${{COMP_WORDS[at]}} in
    --address) ((at++)) ;;
    -*) ;;
    *) command=${{COMP_WORDS[at]}}; break ;;
    esac
  done
  COMPREPLY=()
  case $command in
    "") if [[ $word == -* ]]; then found=({}); else found=({}); fi ;;
{}  esac
  for each in "${{found[@]}}"; do
    printf -v quoted %q "$each"
    [[ $each != "$word"* && $quoted != "$word"* ]] || COMPREPLY+=("$quoted")
  done
}}

complete -F _cpprunctl cpprunctl
)",
      fmt::join(spellings_of(facts.flags), " "), fmt::join(names, " "), cases);
}

std::string zsh_flags(const std::vector<ControlFlag>& flags) {
  std::string text;
  for (const auto& flag : flags) {
    for (const auto& spelling : flag.spellings) {
      const auto value = flag.value.empty() ? "" : fmt::format(":{}: ", zsh_text(flag.value));
      text += " " + shell_word(fmt::format("{}[{}]{}", spelling, zsh_text(flag.help), value));
    }
  }
  return text;
}

std::string zsh_script(const ControlFacts& facts) {
  std::string commands;
  std::string cases;
  for (const auto& command : facts.commands) {
    commands += fmt::format("      {}\n", shell_word(command.name + ":" + zsh_text(command.help)));
    std::string subject;
    if (takes_job(command)) {
      subject = " '1:job:_cpprunctl_jobs'";
    } else if (takes_file(command)) {
      subject = " '1:file:_files'";
    } else if (!command.subject.empty()) {
      subject = " " + shell_word(fmt::format("1:{}:_hosts", command.subject));
    }
    cases += fmt::format("      {}) _arguments{}{}{} ;;\n", command.name, zsh_flags(command.flags),
                         zsh_flags(facts.flags), subject);
  }
  return fmt::format(R"(#compdef cpprunctl
# zsh completion for cpprunctl: source it, or put it into a directory of fpath as _cpprunctl

_cpprunctl_jobs() {{
  local -a jobs=("${{(@f)$({})}}")
  jobs=("${{(@)jobs:#}}")
  compadd -a jobs
}}

_cpprunctl() {{
  local line state
  _arguments -C{} '1:command:->command' '*::argument:->argument'
  case $state in
    command)
      local -a commands=(
{}      )
      _describe command commands ;;
    argument)
      case $line[1] in
{}      esac ;;
  esac
}}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _cpprunctl "$@"
else
  compdef _cpprunctl cpprunctl
fi
)",
                     jobs_of_now, zsh_flags(facts.flags), commands, cases);
}

std::string fish_flags(const std::vector<ControlFlag>& flags, std::string_view condition) {
  std::string text;
  for (const auto& flag : flags) {
    text += fmt::format("complete -c cpprunctl{}", condition);
    for (const auto& spelling : flag.spellings) {
      text += spelling.starts_with("--") ? fmt::format(" -l {}", spelling.substr(2))
                                         : fmt::format(" -s {}", spelling.substr(1));
    }
    text += fmt::format("{} -d {}\n", flag.value.empty() ? "" : " -x", shell_word(flag.help));
  }
  return text;
}

std::string fish_script(const ControlFacts& facts) {
  std::string text = "# fish completion for cpprunctl\ncomplete -c cpprunctl -f\n";
  text += fish_flags(facts.flags, "");
  for (const auto& command : facts.commands) {
    text += fmt::format("complete -c cpprunctl -n __fish_use_subcommand -a {} -d {}\n",
                        command.name, shell_word(command.help));
    const auto condition = fmt::format(" -n '__fish_seen_subcommand_from {}'", command.name);
    text += fish_flags(command.flags, condition);
    if (takes_job(command)) {
      text += fmt::format("complete -c cpprunctl{} -a '({})'\n", condition, jobs_of_now);
    }
    if (takes_file(command)) text += fmt::format("complete -c cpprunctl{} -F\n", condition);
  }
  return text;
}

std::string flag_entry(const ControlFlag& flag) {
  const auto value = flag.value.empty() ? "" : fmt::format(" \\fI{}\\fR", roff_text(flag.value));
  return fmt::format(".TP\n\\fB{}\\fR{}\n{}.\n",
                     roff_text(fmt::format("{}", fmt::join(flag.spellings, ", "))), value,
                     roff_text(flag.help));
}

}  // namespace

std::optional<std::string> control_completion(std::string_view shell, const ControlFacts& facts) {
  if (shell == "bash") return bash_script(facts);
  if (shell == "zsh") return zsh_script(facts);
  if (shell == "fish") return fish_script(facts);
  return std::nullopt;
}

std::string control_manual(const ControlFacts& facts, std::string_view version) {
  std::string text = fmt::format(
      ".TH CPPRUNCTL 1 \"\" \"cpprunctl {}\" \"User Commands\"\n"
      ".nh\n.ad l\n.SH NAME\ncpprunctl \\- monitor and control the jobs of cpprun\n"
      ".SH SYNOPSIS\n.B cpprunctl\n[\\fIflags\\fR] \\fIcommand\\fR [\\fIarguments\\fR]\n"
      ".SH DESCRIPTION\nConnects to the cpprun or cpprund that coordinates a job, through a socket "
      "of this machine or an address. JOB is optional if there is only one; commands that only "
      "read accept a prefix of its name, all others and \\fBwait\\fR need the full name.\n"
      ".SH COMMANDS\n",
      roff_text(version));
  for (const auto& command : facts.commands) {
    std::string subject;
    if (!command.subject.empty()) {
      subject = command.needs_subject ? fmt::format(" \\fI{}\\fR", roff_text(command.subject))
                                      : fmt::format(" [\\fI{}\\fR]", roff_text(command.subject));
    }
    text += fmt::format(".TP\n\\fB{}\\fR{}\n{}.\n", roff_text(command.name), subject,
                        roff_text(command.help));
    if (command.flags.empty()) continue;
    text += ".RS\n";
    for (const auto& flag : command.flags) text += flag_entry(flag);
    text += ".RE\n";
  }
  text += ".SH OPTIONS\n";
  for (const auto& flag : facts.flags) text += flag_entry(flag);
  return text +
         ".SH \"EXIT STATUS\"\n0 success; 1 rejected, or no such job; 2 invalid command line; 69 "
         "no response, so the result is unknown. \\fBwait\\fR exits with the exit code of the "
         "job.\n"
         ".SH ENVIRONMENT\n.TP\n.B XDG_RUNTIME_DIR, TMPDIR\nDirectories that are searched for the "
         "sockets.\n"
         ".TP\n.B NO_COLOR\nDisables colours.\n"
         ".SH \"SEE ALSO\"\n.BR cpprun (1)\n";
}

}  // namespace cpprun

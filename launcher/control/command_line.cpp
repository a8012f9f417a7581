// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/command_line.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "launcher/control/text.h"
#include "proto/bounds.h"
#include "proto/secure/secret.h"
#include "proto/text.h"
#include "rendezvous/command_pages.h"
#include "rendezvous/endpoint.h"

namespace cpprun {

namespace {

constexpr std::int64_t token_seconds = 3600;  // default lifetime of a token

constexpr std::string_view help_end =
    "\nJOB is optional if there is only one. Commands that only read accept a prefix of its\n"
    "name; all others and `wait` need the full name.\n"
    "Exit codes: 0 success; 1 rejected, or no such job; 2 invalid command line; 69 no\n"
    "response, result unknown. `wait` exits with the job's exit code.\n"
    "\n"
    "  cpprunctl ls                         your jobs on this machine\n"
    "  cpprunctl top                        a job, or all jobs, refreshed every second\n"
    "  cpprunctl events -f train            events of the job whose name starts with train\n"
    "  cpprunctl drain node-7 --reason \"ECC errors\"\n"
    "  cpprunctl exclude node-7 --for 2h\n"
    "  cpprunctl policy simulate job.toml --trace events.jsonl\n"
    "  cpprunctl handover                   before an upgrade of the leading cpprund\n"
    "  cpprunctl keygen                     a secret that keeps other users out of your jobs\n"
    "  cpprunctl doctor --hosts a,b         check whether these hosts can run a job together\n";

constexpr std::string_view manual_about =
    "Connects to the cpprun or cpprund that coordinates a job, through a socket of this machine or "
    "an address. JOB is optional if there is only one; commands that only read accept a prefix of "
    "its name, all others and \\fBwait\\fR need the full name.";
constexpr std::string_view manual_end =
    ".SH \"EXIT STATUS\"\n0 success; 1 rejected, or no such job; 2 invalid command line; 69 "
    "no response, so the result is unknown. \\fBwait\\fR exits with the exit code of the job.\n"
    ".SH ENVIRONMENT\n.TP\n.B XDG_RUNTIME_DIR, TMPDIR\nDirectories that are searched for the "
    "sockets.\n"
    ".TP\n.B NO_COLOR\nDisables colours.\n";

// One command in the making.
class Command {
 public:
  explicit Command(CommandFacts& facts) : facts_(facts) {}

  Command& flag(std::string_view names, std::string_view help, bool& target) {
    add_flag(facts_.flags, names, "", help, switch_into(target));
    return *this;
  }
  Command& option(std::string_view names, std::string_view value, std::string_view help,
                  TakeValue take, bool is_required = false) {
    add_flag(facts_.flags, names, value, help, std::move(take)).is_required = is_required;
    return *this;
  }
  // An argument. `value` tells what the shells complete.
  Command& argument(const char* name, std::string_view value, std::string_view help,
                    std::string& target, bool is_required = true) {
    facts_.subjects.push_back({.name = name,
                               .value = value,
                               .help = help,
                               .take = text_into(target),
                               .is_required = is_required});
    return *this;
  }
  // The flag that was added last excludes another one.
  Command& excludes(std::string_view other) {
    facts_.flags.back().excludes.push_back(other);
    return *this;
  }

 private:
  CommandFacts& facts_;
};

// Declares the commands with their flags and arguments, and reads them into the options.
class ControlLine {
 public:
  ControlLine() {
    program_ = {.name = "cpprunctl",
                .summary = "monitor and control the jobs of cpprun",
                .synopsis = "[flags] command [arguments]",
                .about = "Monitors and controls the jobs of cpprun and cpprund.",
                .help_end = help_end,
                .manual_about = manual_about,
                .manual_end = manual_end,
                .see_also = ".BR cpprun (1)"};
    add_flag(program_.flags, "--address", "HOST:PORT",
             "Connect to HOST:PORT or [IPv6]:PORT instead of this user's sockets",
             text_into(address_));
    add_flag(program_.flags, "--all-users", "", "Include jobs of other users, if permitted",
             switch_into(options_.of_all_users));
    add_flag(program_.flags, "--json", "", "Print one line of JSON, for scripts",
             switch_into(options_.as_json));
    add_flag(program_.flags, "--secret-file", "FILE",
             "Secret to use (default: CPPRUN_SECRET_FILE, or ~/.config/cpprun/secret)",
             text_into(options_.secret_file));
    add_page_flags(program_.flags);
    add_readers();
    add_orders();
    add_policy();
    add_secrets();
    add_doctor();
  }

  std::variant<ControlOptions, CommandLineEnd> read(int argc, const char* const* argv,
                                                    std::string_view version) {
    TypedWords words;
    if (auto end = read_words_into(program_, argc, argv, version, words)) return *std::move(end);
    options_.kind = kinds_[static_cast<std::size_t>(words.command - program_.commands.data())];
    return checked();
  }

 private:
  // The command is valid until the next one is added.
  Command add(CommandKind kind, std::string_view name, std::string_view help,
              std::string_view example) {
    kinds_.push_back(kind);
    program_.commands.push_back({.name = name, .help = help, .example = example});
    return Command(program_.commands.back());
  }
  // A command about a job.
  Command add_for_job(CommandKind kind, std::string_view name, std::string_view help,
                      std::string_view example) {
    const auto* const job =
        reads_only(kind) ? "Name of the job, or a prefix of it; optional if there is only one"
                         : "Full name of the job; optional if there is only one";
    auto command = add(kind, name, help, example);
    return command.argument("JOB", "JOB", job, options_.job, false);
  }
  void take_reason(Command command) {
    command.option("--reason", "TEXT", "Reason, for the report and the events",
                   text_into(options_.reason));
  }
  TakeValue job() { return text_into(options_.job); }

  void add_readers() {
    add(CommandKind::list, "ls", "List the jobs", "cpprunctl ls --all-users")
        .flag("--names", "Print only the names, one per line", options_.names_alone);
    program_.commands.back().alias = "list";
    add_for_job(CommandKind::status, "status",
                "Show a job with its nodes and rounds, or a cpprund with its jobs",
                "cpprunctl status train");
    add_for_job(CommandKind::top, "top", "Like status, refreshed every second; q quits",
                "cpprunctl top train");
    add_for_job(CommandKind::events, "events", "List the events of a job",
                "cpprunctl events --follow train")
        .flag("-f,--follow", "Wait for new events", options_.follows);
    add_for_job(CommandKind::report, "report", "Show what failed, and why",
                "cpprunctl report train");
    add_for_job(CommandKind::stacks, "stacks",
                "Show what all workers do: their stacks, and the rank that the others wait for",
                "cpprunctl stacks train")
        .option("--rank", "N", "Show only the group that contains rank N", text_into(rank_))
        .flag("--native", "Show frames of C and C++ as well", options_.native);
    add_for_job(CommandKind::wait, "wait", "Wait for the job to end, and exit with its exit code",
                "cpprunctl wait train && ./evaluate.sh");
    add(CommandKind::view, "view",
        "Write a report from cpprun --report as a web page, to open or to share",
        "cpprunctl view report.json")
        .argument("FILE", "FILE", "The report", options_.subject)
        .option("-o,--output", "FILE",
                "Output file (default: FILE with the ending .html; -: standard output)",
                text_into(options_.output));
  }

  void add_orders() {
    take_reason(
        add_for_job(CommandKind::stop, "stop",
                    "Stop the job on all nodes: SIGTERM, then SIGKILL after the grace period",
                    "cpprunctl stop train --reason \"wrong learning rate\""));
    take_reason(add_for_job(CommandKind::restart, "restart", "Restart all workers in a new round",
                            "cpprunctl restart train --reason \"rank 3 hangs\""));
    take_reason(add_for_job(CommandKind::save, "save",
                            "Send all workers a signal to save a checkpoint",
                            "cpprunctl save train --signal SIGUSR2")
                    .option("--signal", "NAME", "The signal (default: SIGUSR1)",
                            text_into(options_.signal)));
    take_reason(add_for_job(CommandKind::forget, "forget", "Remove a finished job from its cpprund",
                            "cpprunctl forget train --address head:29400"));
    take_reason(add(CommandKind::handover, "handover",
                    "Transfer leadership from a cpprund to its standby",
                    "cpprunctl handover --address head:29400 --reason upgrade"));
    take_reason(
        add(CommandKind::drain, "drain", "Remove a node from the job; a spare takes its place",
            "cpprunctl drain node-7 --reason \"ECC errors\"")
            .argument("NODE|HOST", "HOST", "Rank or host name of the node", options_.subject)
            .option("--job", "JOB", "Full name of the job", job()));
    take_reason(add_for_job(CommandKind::upgrade_agent, "upgrade-agent",
                            "Replace the agents of a job by the installed version; workers run on",
                            "cpprunctl upgrade-agent train --node node-7")
                    .option("--node", "NODE|HOST",
                            "Only the agent of this node (default: all, in turn)",
                            text_into(options_.subject)));
    const auto add_for_host = [this](CommandKind kind, std::string_view name, std::string_view help,
                                     std::string_view example) {
      auto command = add(kind, name, help, example);
      command.argument("HOST", "HOST", "The host", options_.subject)
          .option("--job", "JOB", "Full name of the job", job())
          .flag("--all", "Send the command to all cppruns and cpprunds that host jobs here",
                options_.to_all)
          .excludes("job");
      take_reason(command);
      return command;
    };
    add_for_host(CommandKind::exclude, "exclude",
                 "Exclude a host from the jobs hosted here, or from --job",
                 "cpprunctl exclude node-7 --for 2h")
        .option("--for", "LENGTH",
                "Duration: 90s, 45m, 2h, 1h30m (default: until the job ends or include)",
                text_into(length_));
    add_for_host(CommandKind::include, "include", "Allow an excluded host again",
                 "cpprunctl include node-7");
  }

  void add_policy() {
    auto policy =
        add(CommandKind::simulate, "policy", "Simulate a restart policy on recorded failures",
            "cpprunctl policy simulate job.toml --trace events.jsonl");
    policy.argument("simulate", "WORD", "Always \"simulate\"", simulate_)
        .argument("POLICY", "FILE", "File with the policy, as for cpprun --config",
                  options_.subject)
        .option("--trace", "FILE", "File from --events or --report, or written by hand",
                text_into(options_.trace), true)
        .option("--job", "JOB", "The job, if the trace has several", job());
    auto& action = program_.commands.back().subjects.front();
    action.choices = {"simulate"};
    action.only_choices = true;
  }

  void add_secrets() {
    add(CommandKind::keygen, "keygen", "Create a secret for the nodes of your jobs",
        "cpprunctl keygen --id 2027-01 --add ~/.config/cpprun/secret")
        .argument("FILE", "FILE",
                  "Output file (default: ~/.config/cpprun/secret; -: standard output)",
                  options_.subject, false)
        .option("--id", "NAME", "Name of the secret (default: the date and six letters)",
                text_into(options_.id))
        .flag("--add", "Add to an existing file; the old secret stays valid", options_.adds);
    add(CommandKind::token, "token",
        "Print a bearer token for a client that does not have the secret",
        "cpprunctl token --read --for 8h --job train")
        .flag("--read", "The token gives read access", reads_)
        .flag("--order", "The token gives read and control access", options_.token_controls)
        .option("--for", "LENGTH", "Lifetime: 90s, 45m, 2h, 1h30m (default: 1h)",
                text_into(length_))
        .option("--job", "JOB", "Only for this job (full name)", job());
  }

  void add_doctor() {
    auto& doctor = options_.doctor;
    add(CommandKind::doctor, "doctor", "Check hosts: names, clocks, ports, GPUs, limits, disks",
        "cpprunctl doctor --hosts node-1,node-2")
        .option("--hosts", "HOST,...|slurm", "Hosts, as for cpprun (default: this machine)",
                text_into(doctor.hosts))
        .excludes("hostfile")
        .option("--hostfile", "FILE", "Read the hosts from a file, one per line",
                text_into(doctor.host_file))
        .option("--remote-shell", "CMD",
                "Command to use instead of ssh, e.g. \"kubectl exec -i {host} --\"",
                text_into(doctor.remote_shell))
        .option("--port", "PORT",
                "Port to test on every host, e.g. the --master-port (default: any free port)",
                number_into(doctor.port, any_port))
        .flag("--ship", "Copy this binary to hosts that do not have it", doctor.ship);
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
    if (!length_.empty()) {
      const auto length = parse_duration(length_);
      if (!length) return misuse("--for: " + length.error().reason);
      options_.for_seconds = *length;
    }
    if (!rank_.empty()) {
      options_.rank = exact_number<int>(rank_);
      if (!options_.rank || *options_.rank < 0) {
        return misuse(fmt::format("--rank: \"{}\" is not a rank", rank_));
      }
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

  ProgramFacts program_;
  std::vector<CommandKind> kinds_;  // of the program's commands, in the same order
  ControlOptions options_;
  std::string address_;
  std::string length_;
  std::string rank_;
  std::string simulate_;
  bool reads_ = false;
};

}  // namespace

std::variant<ControlOptions, CommandLineEnd> read_control_line(int argc, const char* const* argv,
                                                               std::string_view version) {
  return ControlLine().read(argc, argv, version);
}

}  // namespace cpprun

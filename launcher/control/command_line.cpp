// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <set>
#include <vector>

#include "launcher/control/command_facts.h"
#include "launcher/control/durations.h"
#include "proto/bounds.h"
#include "proto/secure/secret.h"
#include "rendezvous/daemon/place.h"

namespace cpprun {

namespace {

constexpr std::int64_t token_seconds = 3600;  // where nobody says how long one is good

constexpr const char* footer =
    "JOB may be left out where there is one. Commands that only read take the beginning\n"
    "of its name, all others and `wait` the whole name.\n"
    "Exit codes: 0 done; 1 it cannot be done, or there is no such job; 2 misuse of the\n"
    "command line; 69 no response, so it cannot be known. `wait` ends with the job's own.\n"
    "\n"
    "  cpprunctl ls                         which jobs of yours run on this machine\n"
    "  cpprunctl top                        one of them, refreshed each second\n"
    "  cpprunctl events -f train            what happens in the one called train…\n"
    "  cpprunctl drain node-7 --reason \"ECC errors\"\n"
    "  cpprunctl exclude node-7 --for 2h\n"
    "  cpprunctl policy simulate job.toml --trace events.jsonl\n"
    "  cpprunctl handover                   before the cpprund that leads is upgraded\n"
    "  cpprunctl keygen                     a secret, so that nobody else joins your jobs\n"
    "  cpprunctl doctor --hosts a,b         can these run a job together?\n";

ControlFlag flag_of(const CLI::Option& option) {
  ControlFlag flag{.spellings = {}, .value = {}, .help = option.get_description()};
  for (const auto& name : option.get_snames()) flag.spellings.push_back("-" + name);
  for (const auto& name : option.get_lnames()) flag.spellings.push_back("--" + name);
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

// The commands, each with what it takes.
class Declaration {
 public:
  explicit Declaration(std::string_view version)
      : app_("Sees into the jobs of cpprun and cpprund, and steers them.") {
    app_.name("cpprunctl");
    app_.set_version_flag("--version", fmt::format("cpprunctl {}", version), "Show the version");
    app_.require_subcommand(1);
    app_.fallthrough();
    app_.footer(footer);
    app_.add_option("--address", address_,
                    "Ask there instead of at this user's sockets: HOST:PORT or [IPv6]:PORT")
        ->type_name("HOST:PORT");
    app_.add_flag("--all-users", wish_.of_all_users, "Those of other users too, as far as allowed");
    app_.add_flag("--json", wish_.as_json, "JSON for scripts, in one line");
    add_sights();
    add_orders();
    add_policy();
    add_secrets();
    add_doctor();
    add_prints(version);
  }

  std::variant<Wish, CommandLineEnd> read(int argc, const char* const* argv) {
    if (auto end = read_words_into(app_, argc, argv)) return *std::move(end);
    return checked();
  }

 private:
  CLI::App* add(Verb verb, const char* name, const char* help) {
    auto* const command = app_.add_subcommand(name, help);
    command->callback([this, verb] { wish_.verb = verb; });
    return command;
  }
  void take_job(CLI::App* command, const char* help = "The job, by its whole name") {
    command->add_option("JOB", wish_.job, help)->type_name("");
  }
  void take_job_to_read(CLI::App* command) {
    take_job(command, "The job, or the beginning of its name");
  }
  void take_reason(CLI::App* command) {
    command->add_option("--reason", wish_.reason, "Why, for the report and the events")
        ->type_name("TEXT");
  }

  void add_sights() {
    auto* const list = add(Verb::list, "ls", "List the jobs")->alias("list");
    list->add_flag("--names", wish_.names_alone, "Their names alone, one a line");
    take_job_to_read(add(Verb::status, "status",
                         "Show one job, its nodes and rounds, or a cpprund and its jobs"));
    take_job_to_read(add(Verb::top, "top", "The same, refreshed each second; q quits"));
    auto* const events = add(Verb::events, "events", "What has happened, as lines");
    take_job_to_read(events);
    events->add_flag("-f,--follow", wish_.follows, "Go on as it happens");
    take_job_to_read(add(Verb::report, "report", "What has failed, and why"));
    take_job(add(Verb::wait, "wait", "Wait for its end, and end with its exit code"));
  }

  void add_orders() {
    auto* const stop = add(Verb::stop, "stop", "End the job: TERM, grace, KILL, on every node");
    auto* const restart = add(Verb::restart, "restart", "Begin a new round");
    auto* const save = add(Verb::save, "save", "Send every worker a signal: save a checkpoint now");
    auto* const forget = add(Verb::forget, "forget", "Have a daemon forget a job that is over");
    take_reason(add(Verb::handover, "handover",
                    "Have a cpprund and the one that stands by for it change places"));
    for (auto* const command : {stop, restart, save, forget}) {
      take_job(command);
      take_reason(command);
    }
    save->add_option("--signal", wish_.signal, "Which one (default: SIGUSR1)")->type_name("NAME");
    auto* const drain = add(Verb::drain, "drain", "Have a node leave; a spare takes its place");
    drain->add_option("NODE|HOST", wish_.subject, "Its rank, or its host")
        ->type_name("")
        ->required();
    auto* const exclude =
        add(Verb::exclude, "exclude", "Let no job, or --job alone, use a host for a while");
    exclude->add_option("--for", length_, "How long: 90s, 45m, 2h, 1h30m (default: until include)")
        ->type_name("LENGTH");
    auto* const include = add(Verb::include, "include", "Let jobs use a host again");
    for (auto* const command : {exclude, include}) {
      command->add_option("HOST", wish_.subject, "The host")->type_name("")->required();
    }
    for (auto* const command : {drain, exclude, include}) {
      command->add_option("--job", wish_.job, "The job, by its whole name")->type_name("JOB");
      take_reason(command);
    }
    for (auto* const command : {exclude, include}) {
      command->add_flag("--all", wish_.to_all, "Tell whoever hosts jobs on this machine");
    }
  }

  void add_policy() {
    auto* const policy =
        add(Verb::simulate, "policy",
            "What a policy of restarts would have done with a history of failures");
    policy->add_option("simulate", simulate_, "The word simulate")
        ->check(CLI::IsMember(std::set<std::string>{"simulate"}))
        ->type_name("")
        ->required();
    policy->add_option("POLICY", wish_.subject, "A file as for cpprun --config")
        ->type_name("")
        ->required();
    policy
        ->add_option("--trace", wish_.trace, "What --events or --report wrote, or failures made up")
        ->type_name("FILE")
        ->required();
    policy->add_option("--job", wish_.job, "Which, where several share the trace")
        ->type_name("JOB");
  }

  void add_secrets() {
    app_.add_option("--secret-file", wish_.secret_file,
                    "Secret to use (default: CPPRUN_SECRET_FILE, or ~/.config/cpprun/secret)")
        ->type_name("FILE");
    auto* const keygen = add(Verb::keygen, "keygen", "Make a secret that the nodes of jobs share");
    keygen
        ->add_option("FILE", wish_.subject,
                     "Where (default: ~/.config/cpprun/secret); - is standard output")
        ->type_name("");
    keygen->add_option("--id", wish_.id, "What it is called (default: the day and six letters)")
        ->type_name("NAME");
    keygen->add_flag("--add", wish_.adds, "To a file that has one, which stays valid");
    auto* const token =
        add(Verb::token, "token", "Print a token for whoever has no secret: Authorization: Bearer");
    token->add_flag("--read", reads_, "It lets them see");
    token->add_flag("--order", wish_.token_orders, "It lets them see and give orders");
    token->add_option("--for", length_, "How long: 90s, 45m, 2h, 1h30m (default: 1h)")
        ->type_name("LENGTH");
    token->add_option("--job", wish_.job, "This job alone, by its whole name")->type_name("JOB");
  }

  void add_doctor() {
    auto* const doctor =
        add(Verb::doctor, "doctor", "Examine hosts: names, clocks, ports, GPUs, limits, disks");
    auto& wish = wish_.doctor;
    doctor->add_option("--hosts", wish.hosts, "These, as for cpprun (default: this machine alone)")
        ->type_name("HOST,...|slurm");
    doctor->add_option("--hostfile", wish.host_file, "The same from a file, a line each")
        ->type_name("FILE");
    doctor
        ->add_option("--remote-shell", wish.remote_shell,
                     "Instead of ssh, e.g. \"kubectl exec -i {host} --\"")
        ->type_name("CMD");
    add_number(
        *doctor, "--port", [&wish](std::uint64_t port) { wish.port = static_cast<int>(port); },
        any_port, "Try this one on every host, as for --master-port (default: any free one)")
        ->type_name("PORT");
    doctor->add_flag("--ship", wish.ship, "Bring this cpprunctl along where there is none");
  }

  // As the version is: before anything is missed.
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

  std::variant<Wish, CommandLineEnd> checked() {
    const auto misuse = [](const std::string& why) {
      return CommandLineEnd{control_code::misuse, fmt::format("cpprunctl: error: {}\n", why)};
    };
    if (!address_.empty()) {
      auto endpoint = parse_endpoint(address_, place_port_default);
      if (!endpoint) return misuse("--address: " + endpoint.error().reason);
      if (endpoint->port == 0) return misuse("--address: 0 is not a port from 1 to 65535");
      wish_.address = std::move(*endpoint);
    }
    if (wish_.to_all && !wish_.job.empty()) {
      return misuse("--all is for whoever hosts jobs here, and --job for one of them: give one");
    }
    if (!length_.empty()) {
      const auto length = parse_duration(length_);
      if (!length) return misuse("--for: " + length.error().reason);
      wish_.for_seconds = *length;
    }
    if (const auto why = wrong_with_secrets(); !why.empty()) return misuse(why);
    if (const auto why = wrong_with_doctor(); !why.empty()) return misuse(why);
    return wish_;
  }

  std::string wrong_with_doctor() const {
    const auto& wish = wish_.doctor;
    if (wish.hosts && !wish.host_file.empty()) {
      return "--hosts and --hostfile both name the hosts; leave one of them out";
    }
    const bool has_hosts = wish.hosts || !wish.host_file.empty();
    if (!has_hosts && wish.remote_shell) {
      return "--remote-shell has no effect without --hosts or --hostfile";
    }
    if (!has_hosts && wish.ship) return "--ship has no effect without --hosts or --hostfile";
    return {};
  }

  // What is asked of keygen and token that cannot be, and what token does if it is not asked.
  std::string wrong_with_secrets() {
    if (wish_.verb != Verb::keygen && wish_.verb != Verb::token) return {};
    if (wish_.as_json) return "--json has nothing to say of keygen and token";
    if (wish_.verb == Verb::keygen) {
      if (!wish_.id.empty() && !is_secret_id(wish_.id)) {
        return "--id takes 1 to 64 letters, digits, dots, dashes and underscores";
      }
      if (wish_.adds && wish_.subject == "-") return "--add needs the file of the old secret";
      return {};
    }
    if (reads_ == wish_.token_orders) return "token needs one of --read and --order";
    if (wish_.job.size() > bounds::job_id_bytes_max) {
      return fmt::format("--job: no job has a name of more than {} bytes",
                         bounds::job_id_bytes_max);
    }
    if (!wish_.for_seconds) wish_.for_seconds = token_seconds;
    return {};
  }

  CLI::App app_;
  Wish wish_;
  std::string address_;
  std::string length_;
  std::string simulate_;
  bool reads_ = false;
};

}  // namespace

std::variant<Wish, CommandLineEnd> read_control_line(int argc, const char* const* argv,
                                                     std::string_view version) {
  return Declaration(version).read(argc, argv);
}

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/io/commands.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/cli/config_file.h"
#include "launcher/control/io/console.h"
#include "launcher/control/io/jobs.h"
#include "launcher/control/job_choice.h"
#include "launcher/control/policy_replay.h"
#include "launcher/control/text.h"
#include "launcher/doctor/findings.h"
#include "launcher/doctor/io/doctor.h"
#include "launcher/fanout/host_list.h"
#include "launcher/fanout/io/shells.h"
#include "launcher/plan/io/host.h"
#include "proto/bounds.h"
#include "proto/secure/io/openssl_library.h"
#include "proto/secure/secret.h"
#include "proto/secure/token.h"
#include "proto/text.h"
#include "proto/version.h"
#include "rendezvous/io/event_loop.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/random_bytes.h"
#include "rendezvous/io/secret_file.h"

namespace cpprun::io {

namespace {

constexpr std::string_view standard_output = "-";
constexpr std::size_t report_bytes_max = 256U << 20;
constexpr std::size_t report_page_bytes_max = report_bytes_max + (1U << 20);
constexpr std::size_t trace_bytes_max = 256U << 20;  // about half a million events

int list(const ControlOptions& options, const Environment& environment) {
  const FoundJobs found = find_jobs(options, environment);
  const bool is_silent =
      !found.places.empty() && std::ranges::none_of(found.answers, &SeenAnswer::has_answered);
  const int code = is_silent ? control_code::unreachable : control_code::done;
  if (options.as_json) {
    print(list_json(found.answers));
    return code;
  }
  if (options.names_alone) {
    for (const auto& each : found.jobs) print(plain_line(each.job.id) + "\n");
    return code;
  }
  if (found.jobs.empty()) {
    if (!is_silent) report_error("no jobs found");
    return code;
  }
  print(list_text(seen_jobs(found), canvas_of_stdout(environment)));
  return code;
}

int show_report(const ControlOptions& options, const Environment& environment) {
  const auto found = find_job(options, environment);
  if (!found) return give_up(found.error());
  const auto details = body_of(found->place, {.target = found->target()});
  if (!details) return give_up(details.error());
  const auto job = job_view(*details);
  if (!job) return give_up({job.error().reason});
  print(options.as_json ? *details : failure_story(*job, canvas_of_stdout(environment)));
  return control_code::done;
}

int give_up_on(const std::string& file, const Error& error) {
  return give_up({file + ": " + error.reason, control_code::misuse});
}

int simulate_policy(const ControlOptions& options, const Environment& environment) {
  const auto policy = read_text_file(options.subject, bounds::config_file_bytes_max);
  if (!policy) return give_up_on(options.subject, policy.error());
  const auto trace = read_text_file(options.trace, trace_bytes_max);
  if (!trace) return give_up_on(options.trace, trace.error());
  const auto file = read_rules_file(options.subject, *policy);
  for (const std::string& problem : file.diagnostics) {
    constexpr std::string_view hint = "\n  hint: ";
    const auto end = problem.find(hint);
    report_error("error: " + problem.substr(0, end),
                 end == problem.npos ? "" : problem.substr(end + hint.size()));
  }
  if (!file.diagnostics.empty()) return control_code::misuse;
  const auto history = read_policy_trace(*trace, options.job);
  if (!history) return give_up_on(options.trace, history.error());
  const PolicyReplay played = replay(file.rules, *history);
  print(options.as_json ? replay_json(played) : replay_text(played, canvas_of_stdout(environment)));
  return control_code::done;
}

// "report.html" for "report.json"; of any other name, the name with ".html".
std::string page_name_of(const std::string& report) {
  const std::filesystem::path path(report);
  return path.extension() == ".json"
             ? std::filesystem::path(path).replace_extension(".html").string()
             : report + ".html";
}

// Whether `view` has written that file.
bool is_report_page(const std::string& path) {
  const auto text = read_text_file(path, report_page_bytes_max);
  return text && text->find("<p id=\"report\" hidden>{") != std::string::npos;
}

// view.
int write_report_page(const ControlOptions& options) {
  struct stat of_report {};
  // Not a pipe, which may have no writer.
  if (::stat(options.subject.c_str(), &of_report) == 0 && !S_ISREG(of_report.st_mode)) {
    return give_up({options.subject + ": not a regular file", control_code::misuse});
  }
  const auto report = read_text_file(options.subject, report_bytes_max);
  if (!report) return give_up_on(options.subject, report.error());
  const auto page = report_page(*report);
  if (!page) return give_up_on(options.subject, page.error());
  if (options.output == standard_output) {
    print(*page);
    return control_code::done;
  }
  const std::string path = options.output.empty() ? page_name_of(options.subject) : options.output;
  struct stat of_page {};
  if (::stat(path.c_str(), &of_page) == 0) {
    if (of_page.st_dev == of_report.st_dev && of_page.st_ino == of_report.st_ino) {
      return give_up({path + " is the report itself; use --output FILE", control_code::misuse});
    }
    if (options.output.empty() && !is_report_page(path)) {
      return give_up({path + " exists, and is not the page of a report; use --output FILE",
                      control_code::misuse});
    }
  }
  // A user who cannot read the report cannot read the page.
  const FileDescriptor file{
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, of_report.st_mode & 0666)};
  if (!file || write_all(file.get(), *page) < page->size()) {
    return give_up({fmt::format("cannot write {}: {}", path, errno_text(errno))});
  }
  print(fmt::format("wrote {}; open it in a browser\n", path));
  return control_code::done;
}

// For a daemon with no job or with several, shows the status of the daemon itself.
int show_daemons(const FoundJobs& found, const std::vector<FoundDaemon>& daemons,
                 const ControlOptions& options, const Canvas& canvas) {
  if (options.as_json) {
    std::vector<SeenAnswer> seen;
    for (const auto& each : daemons) seen.push_back({each.place.text(), each.text});
    print(daemons_json(seen, found.answers));
    return control_code::done;
  }
  for (const auto& each : daemons) {
    print(daemon_text(each.view) + warnings_text(each.view.warnings, canvas));
  }
  if (!found.jobs.empty()) print("\n" + list_text(seen_jobs(found), canvas));
  return control_code::done;
}

// `cpprunctl status`: one job, or the daemons on this machine with all of their jobs.
int show_status(const ControlOptions& options, const Environment& environment) {
  FoundJobs jobs = find_jobs(options, environment);
  const auto daemons = find_daemons(jobs);
  const Canvas canvas = canvas_of_stdout(environment);
  if (options.job.empty() && jobs.jobs.size() != 1 && !daemons.empty()) {
    return show_daemons(jobs, daemons, options, canvas);
  }
  const auto found = pick_job(std::move(jobs), options, environment);
  if (!found) return give_up(found.error());
  const auto details = details_of(*found);
  if (!details) return give_up(details.error());
  const auto its = std::ranges::find_if(
      daemons, [&](const FoundDaemon& each) { return each.place.text() == found->place.text(); });
  if (options.as_json) {
    const auto daemon = its == daemons.end() ? std::string() : its->text;
    print(status_json(details->text, details->node_pages, daemon));
    return control_code::done;
  }
  print(status_text(details->job, details->nodes, canvas));
  if (its != daemons.end()) print("\n" + daemon_text(its->view));
  return control_code::done;
}

// The names in URLs of the commands that change something.
constexpr std::array<std::pair<CommandKind, std::string_view>, 9> names_in_urls = {
    {{CommandKind::stop, "stop"},
     {CommandKind::restart, "restart"},
     {CommandKind::save, "save"},
     {CommandKind::drain, "drain"},
     {CommandKind::exclude, "exclude"},
     {CommandKind::include, "include"},
     {CommandKind::forget, "forget"},
     {CommandKind::handover, "handover"},
     {CommandKind::upgrade_agent, "upgrade"}}};

std::string_view name_of(CommandKind kind) {
  const auto* const found =
      std::ranges::find(names_in_urls, kind, [](auto each) { return each.first; });
  return found == names_in_urls.end() ? "" : found->second;
}

bool is_about_hosts(CommandKind kind) {
  return kind == CommandKind::exclude || kind == CommandKind::include;
}

Attempt<std::string> send_command(const ControlEndpoint& place, const std::string& target,
                                  const ControlOptions& options) {
  auto body =
      body_of(place, {.method = http::Method::post, .target = target, .body = order_json(options)});
  if (!body) return tl::unexpected(body.error());
  return said_in(*body);
}

int tell(const Attempt<std::string>& said, const ControlOptions& options) {
  if (!said) return give_up(said.error());
  print(options.as_json ? said_json(*said) : plain_line(*said) + "\n");
  return control_code::done;
}

// The requested program may be one of those that do not respond.
Setback cannot_tell_program(const std::vector<std::string>& silent) {
  return {.sentence = fmt::format("cannot choose a program: no response from {}",
                                  plain_line(fmt::format("{}", fmt::join(silent, ", ")))),
          .code = control_code::unreachable,
          .hint = "choose one with --address"};
}

// All endpoints that replied, with the jobs they host.
std::vector<KnownEndpoint> known_places(const FoundJobs& found) {
  std::vector<KnownEndpoint> known;
  for (const auto& each : answered_endpoints(found)) {
    known.push_back({.place = each.text(), .jobs = {}});
    for (const auto& job : found.jobs) {
      if (job.place.text() == each.text()) known.back().jobs.push_back(job.job.id);
    }
  }
  return known;
}

int command_all(const ControlOptions& options, const std::vector<ControlEndpoint>& places,
                const std::string& target) {
  int code = control_code::unreachable;
  for (const auto& place : places) {
    const int own = tell(send_command(place, target, options), options);
    // Success at one endpoint is enough.
    if (own == control_code::done || code == control_code::unreachable) code = own;
  }
  return code;
}

// Drops standbys whose leader is present, because they replicate its state.
void leave_out_standbys(FoundJobs& found) {
  const auto daemons = find_daemons(found);
  for (const FoundDaemon& each : daemons) {
    if (!is_led_by_one_of(daemons, each)) continue;
    std::erase_if(found.places,
                  [&](const ControlEndpoint& place) { return place.text() == each.place.text(); });
  }
}

// A host belongs to no single job. If several programs host jobs here, the user has to choose one.
int order_about_host(const ControlOptions& options, const Environment& environment) {
  const auto target =
      fmt::format("/api/v1/hosts/{}/{}", escaped(options.subject), name_of(options.kind));
  if (!options.job.empty()) {
    const auto chosen = find_job(options, environment);
    if (!chosen) return give_up(chosen.error());
    auto said = send_command(chosen->place, target, options);
    if (!said && said.error().sentence.ends_with("takes no \"job\"")) {
      said.error().hint = fmt::format(
          "use --address without --job: the program at {} is an older version, which supports this "
          "only for all of its jobs",
          chosen->place.text());
    }
    return tell(said, options);
  }
  FoundJobs found = find_jobs(options, environment);
  leave_out_standbys(found);
  const auto known = known_places(found);
  const auto silent = silent_endpoints(found);
  if (!known.empty() && !silent.empty() && !options.to_all) {
    return give_up(cannot_tell_program(silent));
  }
  if (known.empty()) {
    const auto job = find_job(options, environment);
    return give_up(job ? Setback{} : job.error());
  }
  if (known.size() > 1 && !options.to_all) {
    return give_up({.sentence = which_endpoint(known),
                    .hint = "choose one with --job or --address, or use --all"});
  }
  return command_all(options, found.places, target);
}

// The cpprund to use: the only one here, or the only leader here.
Attempt<ControlEndpoint> daemon_to_hand_over(const ControlOptions& options,
                                             const Environment& environment) {
  const FoundJobs found = find_jobs(options, environment);
  // With --address, query that endpoint only. It reports errors itself.
  if (options.address) return found.places.front();
  const auto silent = silent_endpoints(found);
  if (!found.places.empty() && !silent.empty()) return tl::unexpected(cannot_tell_program(silent));
  std::vector<FoundDaemon> daemons = find_daemons(found);
  if (daemons.size() > 1) {
    std::erase_if(daemons, [](const FoundDaemon& each) { return !each.view.leads; });
  }
  if (daemons.size() == 1) return daemons.front().place;
  if (daemons.empty()) {
    return tl::unexpected(Setback{
        .sentence = found.places.empty()
                        ? "found no cpprund of this user on this machine"
                        : "no cpprund on this machine is a leader; a job that is hosted by cpprun "
                          "cannot transfer leadership",
        .hint = "choose the leader with --address HOST:PORT"});
  }
  std::string places;
  for (const auto& each : daemons) {
    places += (places.empty() ? "" : ", ") + plain_line(each.place.text());
  }
  return tl::unexpected(
      Setback{.sentence = fmt::format("{} leading cpprunds run here: {}", daemons.size(), places),
              .hint = "choose one with --address"});
}

// The commands that change a job, a host or a cpprund.
int give_order(const ControlOptions& options, const Environment& environment) {
  if (options.kind == CommandKind::handover) {
    const auto place = daemon_to_hand_over(options, environment);
    if (!place) return give_up(place.error());
    return tell(send_command(*place, "/api/v1/daemon/handover", options), options);
  }
  if (is_about_hosts(options.kind)) return order_about_host(options, environment);
  const auto chosen = find_job(options, environment);
  if (!chosen) return give_up(chosen.error());
  const auto target = fmt::format("{}/{}", chosen->target(), name_of(options.kind));
  return tell(send_command(chosen->place, target, options), options);
}

bool is_called(const NodeView& node, const std::string& name) {
  return node.host == name || (node.node && std::to_string(*node.node) == name);
}

// The node as soon as it is like that; nothing if the time is over first. The coordinator may be in
// an agent that is upgraded, and does not answer for a moment then.
template <class Ready>
std::optional<NodeView> await_node(const FoundJob& job, const NodeView& node,
                                   std::chrono::seconds timeout, Ready ready) {
  constexpr timespec pause{.tv_sec = 0, .tv_nsec = 20'000'000};
  for (const TimePoint until = boot_now() + timeout; boot_now() < until;
       ::nanosleep(&pause, nullptr)) {
    const auto details = details_of(job);
    if (!details) continue;
    const auto its = std::ranges::find_if(details->nodes, [&](const NodeView& each) {
      return each.host == node.host && each.pid == node.pid;
    });
    if (its != details->nodes.end() && ready(*its)) return *its;
  }
  return std::nullopt;
}

// Returns the exit code.
int upgrade_node(const FoundJob& job, const NodeView& node, ControlOptions options) {
  options.subject = node.node ? std::to_string(*node.node) : node.host;
  const auto name =
      plain_line(node.node ? fmt::format("node {} ({})", *node.node, node.host) : node.host);
  const auto target = fmt::format("{}/{}", job.target(), name_of(options.kind));
  constexpr std::chrono::seconds connection_timeout{5};
  constexpr std::chrono::seconds upgrade_timeout{30};
  // Its coordinator may have been upgraded just now. If it stays away, the command says so.
  (void)await_node(job, node, connection_timeout,
                   [](const NodeView& each) { return each.is_connected; });
  if (const auto said = send_command(job.place, target, options); !said) {
    return give_up(said.error());
  }
  const std::uint64_t before = node.upgrade ? node.upgrade->number : 0;
  const auto done = await_node(job, node, upgrade_timeout, [before](const NodeView& each) {
    return each.upgrade && each.upgrade->number > before;
  });
  if (!done) {
    return give_up(
        {.sentence = fmt::format("no answer from {}", name), .code = control_code::unreachable});
  }
  const auto& ended = done->upgrade;
  if (!ended->error.empty()) {
    return give_up({fmt::format("{} was not upgraded: {}", name, plain_line(ended->error))});
  }
  const auto text =
      fmt::format("{} runs {}; cpprun was down for {:.0f} ms; workers were not interrupted", name,
                  plain_line(ended->version), 1000 * ended->took);
  print(options.as_json ? said_json(text) : text + "\n");
  return control_code::done;
}

// upgrade-agent. One node after the other; the coordinator's comes last, since it has to pass on
// the others. The first that fails ends it: the same program would fail on the rest.
int upgrade_agents(const ControlOptions& options, const Environment& environment) {
  const auto chosen = find_job(options, environment);
  if (!chosen) return give_up(chosen.error());
  auto details = details_of(*chosen);
  if (!details) return give_up(details.error());
  std::vector<NodeView>& nodes = details->nodes;
  if (!options.subject.empty()) {
    std::erase_if(nodes, [&](const NodeView& each) { return !is_called(each, options.subject); });
  }
  if (nodes.empty()) {
    return give_up({options.subject.empty()
                        ? "the job has no nodes"
                        : fmt::format("no node of the job has the rank or the host name \"{}\"",
                                      plain_line(options.subject))});
  }
  std::ranges::stable_partition(nodes,
                                [](const NodeView& each) { return !each.hosts_coordinator; });
  for (const NodeView& each : nodes) {
    const int code = upgrade_node(*chosen, each, options);
    if (code != control_code::done) return code;
  }
  return control_code::done;
}

// stacks. The nodes answer within a few seconds, or are named as silent.
int show_stacks(const ControlOptions& options, const Environment& environment) {
  constexpr timespec pause{.tv_sec = 0, .tv_nsec = 50'000'000};
  constexpr std::chrono::seconds timeout{8};
  const auto chosen = find_job(options, environment);
  if (!chosen) return give_up(chosen.error());
  const http::Question question{.target = chosen->target() + "/stacks"};
  std::int64_t last = -1;
  for (const TimePoint until = boot_now() + timeout; boot_now() < until;
       ::nanosleep(&pause, nullptr)) {
    const auto body = body_of(chosen->place, question);
    if (!body) return give_up(body.error());
    const auto capture = capture_view(*body);
    if (!capture) return give_up({capture.error().reason});
    if (last < 0) {
      last = capture->number;
      const auto said = send_command(chosen->place, chosen->target() + "/capture", options);
      if (!said) return give_up(said.error());
    } else if (capture->number > last) {
      if (options.rank && *options.rank >= capture->world_size) {
        return give_up({fmt::format("rank {} does not exist (this job has ranks 0-{})",
                                    *options.rank, capture->world_size - 1)});
      }
      print(options.as_json ? *body + "\n" : stacks_text(*capture, options.rank));
      return control_code::done;
    }
  }
  return give_up(
      {.sentence = "no answer from the nodes of the job", .code = control_code::unreachable});
}

// None if the hosts are invalid, which is already reported.
std::optional<DoctorRequest> order_of(const DoctorOptions& options,
                                      const Environment& environment) {
  const auto read = [](const std::string& path) {
    return read_text_file(path, bounds::config_file_bytes_max);
  };
  const HostList hosts = options.hosts
                             ? fanout::hosts_of(*options.hosts, environment)
                             : fanout::hosts_in_file(options.host_file, "--hostfile", read);
  if (!hosts) {
    for (const auto& problem : hosts.error()) {
      report_error(options.hosts ? "error: --hosts: " + problem : "error: " + problem);
    }
    return std::nullopt;
  }
  DoctorRequest send_command{.members = fanout::members_of(*hosts),
                             .shell = fanout::remote_shell(options.remote_shell, options.hosts),
                             .port = options.port,
                             .ship = options.ship};
  const auto lack = lacks_open_files(send_command.members.size());
  if (!send_command.shell.empty() && !lack) return send_command;
  report_error("error: " + lack.value_or("--remote-shell is empty"));
  return std::nullopt;
}

// `cpprunctl doctor`.
int examine(const ControlOptions& options, const Environment& environment) {
  Examined examined;
  if (options.doctor.hosts || !options.doctor.host_file.empty()) {
    const auto send_command = order_of(options.doctor, environment);
    if (!send_command) return control_code::misuse;
    examined = examine_hosts(*send_command, environment);
    if (examined.interrupted != 0) return examined.interrupted;
  } else {
    examined = examine_here(options.doctor.port, environment);
  }
  const auto findings = doctor::findings_of(
      examined.hosts, {.version = std::string(version_text()), .is_shipped = options.doctor.ship});
  const bool is_told = print(options.as_json ? doctor::doctor_json(examined.hosts, findings)
                                             : doctor::doctor_text(examined.hosts, findings,
                                                                   canvas_of_stdout(environment)));
  return findings.empty() && is_told ? control_code::done : control_code::refused;
}

// Secret files are written complete, private and flushed to disk, or not at all.

constexpr mode_t own_file = 0600;
constexpr mode_t own_directory = 0700;

tl::unexpected<Error> refused(const std::string& path, std::string_view why) {
  return failure(fmt::format("cannot create a secret in \"{}\": {}", plain_line(path), why));
}

std::string directory_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == path.npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Directories created for a file. The destructor removes them unless keep() is called.
class MadeDirectories {
 public:
  MadeDirectories() = default;
  ~MadeDirectories() {
    // rmdir() leaves a directory that has content by now.
    for (auto each = made_.rbegin(); each != made_.rend(); ++each) (void)::rmdir(each->c_str());
  }
  MadeDirectories(const MadeDirectories&) = delete;
  MadeDirectories& operator=(const MadeDirectories&) = delete;

  // On failure errno has the reason.
  bool make(const std::string& directory) {
    if (make_one(directory)) return true;
    const std::string parent = directory_of(directory);
    return errno == ENOENT && parent != directory && make(parent) && make_one(directory);
  }
  void keep() { made_.clear(); }

 private:
  bool make_one(const std::string& directory) {
    const bool is_new = ::mkdir(directory.c_str(), own_directory) == 0;
    if (is_new) made_.push_back(directory);
    return is_new || errno == EEXIST;
  }

  std::vector<std::string> made_;
};

// A file created by us. The destructor removes it unless keep() is called.
class MadeFile {
 public:
  explicit MadeFile(std::string path)
      : path_(std::move(path)),
        file_(
            ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, own_file)),
        is_ours_(static_cast<bool>(file_)) {}
  ~MadeFile() {
    if (is_ours_) (void)::unlink(path_.c_str());
  }
  MadeFile(const MadeFile&) = delete;
  MadeFile& operator=(const MadeFile&) = delete;

  explicit operator bool() const { return static_cast<bool>(file_); }

  // Flushes to the disk, which may report only then that it is full. On failure errno has the
  // reason.
  bool fill(std::string_view text) {
    return write_all(file_.get(), text) == text.size() && ::fsync(file_.get()) == 0 &&
           ::close(file_.release()) == 0;
  }
  void keep() { is_ours_ = false; }

 private:
  std::string path_;
  FileDescriptor file_;
  bool is_ours_;
};

// Flushes the directory, so that the name survives a power failure too. Errors are ignored, because
// some disks do not support it.
void sync_directory(const std::string& path) {
  const FileDescriptor directory(
      ::open(directory_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory) (void)::fsync(directory.get());
}

// Hidden, so that a daemon that reads this directory skips it.
std::string draft_of(const std::string& path) {
  const auto slash = path.rfind('/');
  const auto begin = slash == path.npos ? 0 : slash + 1;
  return fmt::format("{}.{}.new", path.substr(0, begin), path.substr(begin));
}

// Writes the draft file, which belongs to this process alone.
Result<Secret> add_by_draft(const std::string& path, const std::string& draft, const Secret& secret,
                            MadeFile& file) {
  auto old = read_secret_file(path);
  if (!old) return tl::unexpected(std::move(old.error()));
  if (find_secret(*old, secret.id) != nullptr) {
    return refused(path, fmt::format("the file already has a secret \"{}\"", secret.id));
  }
  if (old->size() == secrets_max) {
    return refused(
        path,
        fmt::format(
            "the file already has {} secrets, the maximum; remove the lines of unused secrets",
            secrets_max));
  }
  Secret first = old->front();
  old->insert(old->begin(), secret);
  std::string text = secrets_text(*old);
  const bool is_written = file.fill(text);
  const int error = errno;
  ::explicit_bzero(text.data(), text.size());
  if (!is_written) return refused(path, errno_text(error) + "; the file is unchanged");
  if (::rename(draft.c_str(), path.c_str()) != 0) {
    return refused(path, errno_text(errno) + "; the file is unchanged");
  }
  file.keep();
  return first;
}

// Creates a new file and its missing directories. Never replaces a file: if two processes create it
// at once, one fails. On failure leaves no file and no directory behind.
Result<void> create_key_file(const std::string& path, std::string_view text) {
  MadeDirectories directories;
  if (!directories.make(directory_of(path))) return refused(path, errno_text(errno));
  MadeFile file(path);
  if (!file) {
    const int error = errno;
    if (error != EEXIST) return refused(path, errno_text(error));
    return refused(path,
                   "the file exists; use --add to put a new secret first, while the old one stays "
                   "valid until you remove its line");
  }
  if (!file.fill(text))
    return refused(path, errno_text(errno) + "; the incomplete file was removed");
  // A file that could not be read back must not stay: for example on a disk without permissions, or
  // in a directory that others can write to.
  if (const auto read = read_secret_file(path); !read) {
    return tl::unexpected(Error{read.error().reason});
  }
  file.keep();
  directories.keep();
  sync_directory(path);
  return {};
}

// Inserts a secret before the existing ones, atomically: a concurrent reader gets the old secrets,
// or all of them. Returns the secret that was first before.
Result<Secret> add_to_key_file(const std::string& path, const Secret& secret) {
  const std::string draft = draft_of(path);
  // The draft file is the lock for changing the file. Without it, two concurrent writers would lose
  // one new secret.
  MadeFile file(draft);
  if (!file && errno == EEXIST) {
    return refused(path, fmt::format("{} exists: another cpprunctl is adding a secret, or was "
                                     "interrupted; if no cpprunctl is running, remove that file",
                                     plain_line(draft)));
  }
  if (!file) return refused(path, errno_text(errno));
  auto first = add_by_draft(path, draft, secret, file);
  if (first) sync_directory(path);
  return first;
}

int give_up(const std::string& why, std::string_view hint = {}) {
  report_error("error: " + why, hint);
  return control_code::refused;
}

Result<Secret> random_secret(const std::string& id) {
  auto key = make_key_memory();
  IdBytes name{};
  for (const std::span<unsigned char> bytes : {std::span<unsigned char>(*key), {name}}) {
    if (auto filled = fill_randomly(bytes); !filled)
      return tl::unexpected(std::move(filled.error()));
  }
  return Secret{id.empty() ? secret_id(wall_now(), name) : id, std::move(key)};
}

// Wipes its text on destruction.
struct KeyText {
  explicit KeyText(const Secret& secret) : text(secrets_text({secret})) {}
  ~KeyText() { ::explicit_bzero(text.data(), text.size()); }
  KeyText(const KeyText&) = delete;
  KeyText& operator=(const KeyText&) = delete;
  std::string text;
};

int print_secret(const Secret& secret) {
  const KeyText key(secret);
  if (!print(key.text)) return give_up("cannot write the secret to stdout: " + errno_text(errno));
  (void)write_all(STDERR_FILENO, fmt::format("cpprunctl: created secret {}\n", secret.id));
  return control_code::done;
}

// keygen.
int make_secret(const ControlOptions& options, const Environment& environment) {
  const auto secret = random_secret(options.id);
  if (!secret) return give_up(secret.error().reason);
  if (options.subject == standard_output) return print_secret(*secret);
  const std::string path =
      secret_path(options.subject.empty() ? options.secret_file : options.subject, environment)
          .path;
  if (path.empty()) {
    return give_up("HOME is not set to a directory", "use `cpprunctl keygen FILE`");
  }
  if (options.adds) {
    const auto old = add_to_key_file(path, *secret);
    if (!old) return give_up(old.error().reason);
    print(added_text(secret->id, path, old->id));
    return control_code::done;
  }
  const KeyText key(*secret);
  if (const auto made = create_key_file(path, key.text); !made) return give_up(made.error().reason);
  print(made_text(secret->id, path));
  return control_code::done;
}

// token.
int print_token(const ControlOptions& options, const Environment& environment) {
  const auto secrets = find_secrets(options.secret_file, environment);
  if (!secrets) return give_up(secrets.error().reason);
  if (secrets->empty()) {
    return give_up("a token needs a secret, but none was found",
                   "create one with \"cpprunctl keygen\", or use --secret-file FILE");
  }
  const auto openssl = open_openssl();
  if (!openssl) return give_up(openssl.error().reason);
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(wall_now().time_since_epoch());
  const auto purpose = options.token_controls ? TokenPurpose::control : TokenPurpose::read;
  const auto token =
      make_token(*openssl, secrets->front(),
                 {.purpose = purpose,
                  .expiry_unix_seconds = now.count() + options.for_seconds.value_or(0),
                  .job = options.job});
  if (!print(token + "\n")) return give_up("cannot write the token to stdout");
  return control_code::done;
}

}  // namespace

int run_control(const ControlOptions& options, const Environment& environment) {
  switch (options.kind) {
    case CommandKind::list:
      return list(options, environment);
    case CommandKind::top:
      if (!options.as_json) return show_top(options, environment);
      return show_status(options, environment);
    case CommandKind::status:
      return show_status(options, environment);
    case CommandKind::report:
      return show_report(options, environment);
    case CommandKind::stacks:
      return show_stacks(options, environment);
    case CommandKind::events:
      return show_events(options, environment);
    case CommandKind::wait:
      return wait_for_end(options, environment);
    case CommandKind::stop:
    case CommandKind::restart:
    case CommandKind::save:
    case CommandKind::drain:
    case CommandKind::exclude:
    case CommandKind::include:
    case CommandKind::forget:
    case CommandKind::handover:
      return give_order(options, environment);
    case CommandKind::upgrade_agent:
      return upgrade_agents(options, environment);
    case CommandKind::simulate:
      return simulate_policy(options, environment);
    case CommandKind::view:
      return write_report_page(options);
    case CommandKind::keygen:
      return make_secret(options, environment);
    case CommandKind::token:
      return print_token(options, environment);
    case CommandKind::doctor:
      return examine(options, environment);
  }
  return control_code::misuse;
}

}  // namespace cpprun::io

// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/store_daemon.h"

#include <fmt/format.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/clock.h"
#include "proto/result.h"
#include "proto/secure/tls.h"
#include "proto/text.h"
#include "proto/version.h"
#include "rendezvous/client/io/link_client.h"
#include "rendezvous/coordinator/io/coordinator_server.h"
#include "rendezvous/daemon/bounds.h"
#include "rendezvous/daemon/daemon_options.h"
#include "rendezvous/daemon/io/daemon_log.h"
#include "rendezvous/daemon/io/owner_access.h"
#include "rendezvous/daemon/io/replica_controller.h"
#include "rendezvous/daemon/io/service.h"
#include "rendezvous/daemon/io/state_recovery.h"
#include "rendezvous/daemon/service.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/etcd/io/election_driver.h"
#include "rendezvous/io/asio_loop.h"
#include "rendezvous/io/event_loop.h"
#include "rendezvous/io/file_writer_process.h"
#include "rendezvous/io/helper_processes.h"
#include "rendezvous/io/program.h"
#include "rendezvous/io/random_bytes.h"
#include "rendezvous/io/socket_address.h"
#include "rendezvous/io/stream_writer.h"
#include "rendezvous/job/job_record_json.h"
#include "rendezvous/status/io/door.h"
#include "rendezvous/status/status_json.h"
#include "rendezvous/store/io/listener.h"
#include "rendezvous/store/io/machine_memory.h"

namespace cpprun {

// The last step before the daemon serves: enters the sandbox and opens the control socket. Files
// that the sandbox does not allow must be open by then.
void close_up(CoordinatorServer& server, HelperProcesses& side, const DaemonOptions& options,
              DaemonLog& log);

// A ReplicaController's clock, and its access to etcd and to other members, by real sockets.
// Simulated tests have their own. `security` gives the TLS context for links to others; null: no
// TLS. `say` writes to the log.
SetPorts ports_of(asio::io_context& context, HelperProcesses& side, LeaseGuard::Say say,
                  std::function<Result<std::shared_ptr<SecureContext>>()> security);

MemoryLimits memory_of(const DaemonOptions& options) {
  MemoryLimits limits = memory_of_this_machine();
  if (options.memory_bytes_max != 0) limits.bytes_max = options.memory_bytes_max;
  limits.address_bytes_max =
      options.address_bytes_max != 0 ? options.address_bytes_max : limits.bytes_max / 2;
  limits.address_keys_max = options.address_keys_max;
  limits.address_connections_max = options.address_connections_max;
  // The kernel also needs some kilobytes per connection, which count in the control group.
  constexpr std::uint64_t connection_bytes = 8 * 1024;
  if (options.memory_bytes_max == 0) {
    limits.address_connections_max =
        std::min(limits.address_connections_max, limits.address_bytes_max / connection_bytes);
  }
  return limits;
}

namespace {

// The host names that the command line gives to this daemon.
HostNames given_names(const DaemonOptions& options) {
  HostNames names = {options.host};
  if (options.advertised.empty()) return names;
  if (const auto place = parse_member_address(options.advertised)) names.push_back(place->host);
  return names;
}

// The first line of a file after "=", or why it has none.
std::string first_line_of(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  if (file) std::getline(file, line);
  if (!file.is_open() || file.bad()) return "cannot be read: " + errno_text(errno);
  return line.empty() ? "has an empty first line" : "=" + line;
}

void debug(DaemonLog& log, std::string_view what, const std::string& why) {
  if (!why.empty()) log.say(LogLevel::debug, fmt::format("{}: {}", what, why));
}

// The passed socket, or an empty descriptor.
Result<FileDescriptor> passed_socket(const Result<Activation>& activation) {
  if (!activation) return tl::unexpected<Error>(activation.error());
  return take_passed_socket(*activation);
}

// Listens on the passed socket if there is one.
ListenOptions listen_options(const DaemonOptions& options, FileDescriptor& passed, DaemonLog& log) {
  if (!passed) return {.host = options.host, .port = options.port, .dialect = options.dialect};
  log.say(LogLevel::info,
          fmt::format("serving on the passed socket {}{}", local_address_of(passed.get()).text(),
                      options.names_address ? "; --host and --port are ignored" : ""));
  return {
      .host = {}, .port = 0, .dialect = options.dialect, .hosts = {}, .passed = passed.release()};
}

void connect(ServiceNotifier& notifier, const Environment& environment, DaemonLog& log) {
  const auto address = notify_address(environment);
  debug(log, "cannot notify the service manager",
        address ? notifier.connect(*address) : address.error().reason);
}

void tell(ServiceNotifier& notifier, const std::string& message, DaemonLog& log) {
  debug(log, "cannot notify the service manager", notifier.say(message));
}

PlainStore plain_store(const DaemonOptions& options) {
  if (!options.has_plain_store) return PlainStore::refused;
  return options.has_secrets() ? PlainStore::behind_secret : PlainStore::served;
}

// Timing of jobs, and the limits for clients.
CoordinatorOptions coordinator_options(const DaemonOptions& options) {
  return {.only = {},
          .options = {.lease = bounds::daemon_lease,
                      .status_interval = bounds::status_interval,
                      .last_call = bounds::daemon_last_call},
          .limits = {.jobs = options.jobs_max,
                     .jobs_per_source = options.jobs_per_address_max,
                     .links_per_source = options.links_per_address_max,
                     .lease = options.lease_max},
          .keeps_records = true,
          .follows = options.is_member(),
          .own_agent = options.own_agent};
}

// A single cpprund, as its status shows it: the leader since its start.
DaemonSnapshot alone_of(const DaemonOptions& options, const Listening& listening) {
  const std::string name = options.name.empty() ? machine_name() : options.name;
  const std::string host = is_one_address(options.host) ? options.host : machine_name();
  const std::string place = to_string(
      options.advertised.empty() ? Endpoint{host, listening.port}
                                 : *parse_member_address(options.advertised, listening.port));
  const WallTime now = wall_now();
  return {
      .name = name,
      .place = place,
      .version = std::string(version_text()),
      .leads = true,
      .epoch = static_cast<std::uint64_t>(now.time_since_epoch() / std::chrono::milliseconds(1)),
      .since = now,
      .leader = name,
      .leader_address = place};
}

// This member's identity in the cluster, and its access to etcd.
Result<ReplicaControllerOptions> options_of_set(const DaemonOptions& options,
                                                const DaemonSnapshot& alone,
                                                HelperProcesses& side) {
  EtcdAccess access{.endpoints = *parse_etcd_endpoints(options.etcd),
                    .user = options.etcd_user,
                    .authorities_file = options.etcd_authorities_file,
                    .certificate_file = options.etcd_certificate_file,
                    .key_file = options.etcd_key_file};
  if (!options.etcd_password_file.empty()) {
    const std::string answer =
        side.ask([&] { return first_line_of(options.etcd_password_file); }, bounds::log_flush_max)
            .value_or("cannot be read: the disk does not respond");
    if (!answer.starts_with('=')) {
      return failure(
          fmt::format("--etcd-password-file: \"{}\" {}", options.etcd_password_file, answer));
    }
    access.password = answer.substr(1);
  }
  return ReplicaControllerOptions{
      .name = member_name(alone.name, fmt::format("{:016x}", random_word())),
      .cluster = options.cluster,
      .place = alone.place,
      .version = alone.version,
      .etcd = std::move(access),
      .etcd_lease = options.etcd_lease,
      .standbys_max = options.standbys_max,
      .leaves_nothing = options.leaves_nothing};
}

// A second SIGTERM during shutdown must not turn a clean exit into a killed process.
void block_further_signals() {
  sigset_t late;
  ::sigemptyset(&late);
  ::sigaddset(&late, SIGTERM);
  ::sigaddset(&late, SIGINT);
  ::sigaddset(&late, SIGHUP);
  ::pthread_sigmask(SIG_BLOCK, &late, nullptr);
}

// What the server's callbacks use. `set` and `alone` are valid once the port is open.
struct Ends {
  DaemonLog& log;
  JobEvents& events;
  StateRecovery& state;
  const std::unique_ptr<ReplicaController>& set;  // null: a single cpprund
  const DaemonSnapshot& alone;
};

constexpr const char* no_cluster =
    "this cpprund was started without --etcd and has no standby; "
    "start two cpprunds with the same --etcd and --cluster";

// There is no local agent, and a daemon never finishes.
CoordinatorServer::Callbacks callbacks_of(const Ends& ends, const DaemonOptions& options) {
  CoordinatorServer::Callbacks callbacks = {
      .to_local_agent = [](const link::Message&) {},
      .note = [ends](const Note& note) { ends.log.write(note); },
      .done = nullptr,
      .event_of = [ends](const std::string& job,
                         const auto& action) { return ends.events.line(wall_now(), job, action); },
      .keep_record =
          [ends](const auto& job, const auto& record) {
            if (ends.set) return ends.set->keep(job, record);
            return ends.state.is_open() ? ends.state.keep(job, record) : 0;
          },
      .forget_record =
          [ends](const std::string& job) {
            if (ends.set) return ends.set->forget(job);
            return ends.state.is_open() ? ends.state.forget(job) : 0;
          },
      .daemon =
          [ends] {
            DaemonSnapshot seen = ends.set ? ends.set->seen() : ends.alone;
            seen.durable = ends.state.is_durable();
            seen.is_synced = ends.state.is_synced();
            return seen;
          },
      .hand_over =
          [ends](auto then) {
            if (!ends.set) return then({CommandResult::Kind::not_now, no_cluster});
            ends.set->hand_over([then = std::move(then)](const Result<std::string>& said) {
              using Kind = CommandResult::Kind;
              then(said ? CommandResult{Kind::done, *said}
                        : CommandResult{Kind::not_now, said.error().reason});
            });
          },
      .follower =
          [ends](auto channel, const auto& follow, const auto& peer, const auto& owner) {
            if (ends.set) return ends.set->adopt(channel, follow, peer, owner);
            ends.log.say(LogLevel::warning,
                         fmt::format("rejected standby {}: {}", peer.host_text(), no_cluster));
            channel->send(link::Refused{no_cluster});
            channel->hang_up(no_cluster);
          }};
  if (options.status_access == StatusAccess::none) callbacks.event_of = nullptr;
  return callbacks;
}

ReplicaController::Callbacks set_callbacks(DaemonLog& log, OwnerAccess& access,
                                           CoordinatorServer& server) {
  return {.say = [&log](LogLevel level, const std::string& text) { log.say(level, text); },
          .sees_all = [&access](const std::string& owner) { return access.sees_all(owner); },
          .leader_changed =
              [&server, &log](const LeaderChange& change) {
                log.say(LogLevel::info, leader_changed_text(change));
                server.tell_event(leader_changed_line(change, machine_name()));
              }};
}

std::function<void(int)> lost_stdout(DaemonLog& log) {
  return [&log](int error_number) {
    log.say(LogLevel::warning, fmt::format("cannot write to stdout: {}", errno_text(error_number)));
  };
}

}  // namespace

int run_store_daemon(const DaemonOptions& options, const Environment& environment) {
  // This comes first: passed sockets are identified by their numbers, which nothing else may take.
  const auto activation = activation_of(environment, ::getpid());
  auto passed = passed_socket(activation);
  raise_descriptor_limit();
  asio::io_context io(1);
  HelperProcesses side;
  DaemonLog log(io, side, STDERR_FILENO, options);
  const auto fail = [&log](const Error& error) {
    log.say(LogLevel::error, error.reason);
    log.flush();
    return 1;
  };
  if (!passed) return fail(passed.error());
  if (!activation->remark.empty()) log.say(LogLevel::info, activation->remark);
  ServiceNotifier notifier;
  connect(notifier, environment, log);
  asio::signal_set signals(io, SIGTERM, SIGINT);
  std::unique_ptr<ReplicaController> set;
  DaemonSnapshot alone;
  const auto last_words = loop_of(io).make_alarm();
  signals.async_wait([&](const asio::error_code&, int) {
    tell(notifier, stopping_message(), log);
    // A second signal ends the process at once.
    signals.async_wait([&](const asio::error_code&, int) { io.stop(); });
    if (set) return set->leave([&] { io.stop(); });
    // Messages that have arrived are handled first: their senders may have exited.
    last_words->ring_in(bounds::last_words, [&] { io.stop(); });
  });
  JobEvents events(machine_name());
  StateRecovery state(log);
  const auto opened = state.open(io, side, options.state_directory, options.state_is_synced);
  if (!opened) return fail(opened.error());
  CoordinatorServer server(io, callbacks_of({log, events, state, set, alone}, options),
                           {.memory = memory_of(options)});
  OwnerAccess access(server);
  const auto say = [&log](LogLevel level, const std::string& text) { log.say(level, text); };
  OwnerReload owners(io, options, {.say = say, .take = [&access](Owners taken) {
                                     return access.take(std::move(taken));
                                   }});
  if (const auto loaded = owners.load(); !loaded) return fail(loaded.error());
  const auto listening = server.open(
      listen_options(options, *passed, log), coordinator_options(options), plain_store(options),
      {.access = options.status_access, .names = given_names(options)});
  if (!listening) return fail(listening.error());
  if (const auto loaded = state.load(server); !loaded) return fail(loaded.error());
  alone = alone_of(options, *listening);
  if (options.is_member()) {
    auto set_options = options_of_set(options, alone, side);
    if (!set_options) return fail(set_options.error());
    set = std::make_unique<ReplicaController>(
        ports_of(io, side, say, [&access] { return access.for_dialing(); }), server,
        *std::move(set_options), set_callbacks(log, access, server));
    if (const auto started = set->start(); !started) return fail(started.error());
  }
  const auto lost = lost_stdout(log);  // the reader of a pipe may have closed it
  const auto file_writer = FileWriterProcess::begin_for_file(
      io, side, STDOUT_FILENO, {.trouble = [lost](std::size_t, int error) { lost(error); }});
  NonBlockingWriter out(io, file_writer ? file_writer->pipe() : STDOUT_FILENO, {.lost = lost});
  // By now everything is open that the sandbox would block.
  close_up(server, side, options, log);
  out.write(fmt::format("cpprund listening on {}\n", listening->address));
  tell(notifier, ready_message(listening->address), log);
  state.recover(server);
  io.run();
  block_further_signals();
  set.reset();
  log.flush();
  return 0;
}

namespace {

// Returns the first usable directory for the control socket. Creates it now, since the sandbox does
// not allow that later. A hung disk is given a short timeout and does not prevent serving. `note`
// is set if the directory is not the one in $TMPDIR, and says why.
Result<DoorDirectory> prepared_door(HelperProcesses& side,
                                    const std::vector<DoorDirectory>& directories,
                                    std::string& note) {
  std::string why = "there is no directory for the control socket";
  const DoorDirectory* wrong_temporary = nullptr;
  bool has_why = false;
  for (const auto& directory : directories) {
    const auto make = [&directory] {
      const auto made = make_door_directory(directory);
      return made ? std::string() : made.error().reason;
    };
    const auto wrong = directory.is_at_hand() ? make() : side.ask(make, bounds::log_flush_max);
    if (wrong && wrong->empty()) {
      if (wrong_temporary != nullptr) {
        note = fmt::format("note: TMPDIR={} cannot be used ({}); the control socket is in {}",
                           wrong_temporary->parent, why, directory.path());
      }
      return directory;
    }
    if (!has_why || !directory.is_parent_own) {
      why =
          wrong
              ? *wrong
              : fmt::format(
                    "the directory \"{}\" for control sockets is on a disk that is not responding",
                    directory.path());
    }
    if (!directory.is_parent_own && wrong_temporary == nullptr) wrong_temporary = &directory;
    has_why = true;
  }
  return failure(why);
}

bool is_link(const std::string& path) {
  struct stat facts {};
  return ::lstat(path.c_str(), &facts) == 0 && S_ISLNK(facts.st_mode);
}

// The directories that SIGHUP needs to read the secrets again: the directory of a file, since
// editors replace files, and its parent if the directory itself may be replaced. That is the case
// for a symbolic link, as Kubernetes creates them, and for the directory with all owners.
std::vector<std::string> secret_places(const DaemonOptions& options) {
  if (!options.has_secrets()) return {};
  const bool has_directory = !options.secrets_directory.empty();
  const auto above = [](const std::string& path) {
    const auto slash =
        path.find_last_not_of('/') == path.npos ? 0 : path.rfind('/', path.find_last_not_of('/'));
    return slash == path.npos ? std::string(".") : path.substr(0, slash);
  };
  const std::string directory =
      has_directory ? options.secrets_directory : above(options.secret_file);
  std::vector<std::string> places = {directory.empty() ? "/" : directory};
  const std::string next = above(directory);
  if (!next.empty() && (has_directory || is_link(directory))) places.push_back(next);
  if (!has_directory && is_link(options.secret_file)) {
    std::array<char, PATH_MAX> file{};
    // A dangling link needs no directory.
    const bool leads = ::realpath(options.secret_file.c_str(), file.data()) != nullptr;
    if (leads) places.push_back(above(file.data()));
  }
  return places;
}

// Enters the sandbox and logs what is in force.
void shut_in(const DaemonOptions& options, const std::optional<DoorDirectory>& door,
             DaemonLog& log) {
  // The secrets are read again at SIGHUP.
  SandboxWants wants{
      .readable = secret_places(options), .door = door, .connects = options.is_member()};
  if (options.is_member()) {
    // Host names are resolved again at each dial.
    for (const char* const place : {"/etc", "/lib", "/usr/lib", "/run/systemd/resolve"}) {
      if (::access(place, R_OK) == 0) wants.readable.emplace_back(place);
    }
  }
#ifdef __SANITIZE_ADDRESS__
  // AddressSanitizer reads about this process and its program when it reports an error.
  wants.readable.emplace_back("/");
#endif
  const auto in_force = enter_sandbox(wants);
  if (!in_force.why_none.empty()) {
    // A kernel without Landlock is normal; a kernel that rejects it is misconfigured.
    log.say(in_force.has_failed ? LogLevel::warning : LogLevel::debug,
            fmt::format("Landlock is not active: {}", in_force.why_none));
  }
  for (const auto& each : in_force.left_out)
    log.say(LogLevel::debug, "the sandbox blocks access to " + each);
  log.say(LogLevel::info, sandbox_line(in_force, wants));
}

}  // namespace

void close_up(CoordinatorServer& server, HelperProcesses& side, const DaemonOptions& options,
              DaemonLog& log) {
  DoorPlan plan{.directories = options.door_directories, .timeout = bounds::log_flush_max};
  if (!options.has_sandbox) log.say(LogLevel::info, "sandbox: off (--no-sandbox)");
  if (options.status_access == StatusAccess::none) {
    if (options.has_sandbox) shut_in(options, std::nullopt, log);
    return;
  }
  std::string note;
  const auto door = prepared_door(side, options.door_directories, note);
  if (options.has_sandbox) shut_in(options, door ? std::optional(*door) : std::nullopt, log);
  if (!door) return log.write({.text = no_door_text(door.error().reason)});
  if (!note.empty()) log.write({.text = note});
  plan.directories = {*door};
  server.open_door(side, std::move(plan));
}

SetPorts ports_of(asio::io_context& context, HelperProcesses& side, LeaseGuard::Say say,
                  std::function<Result<std::shared_ptr<SecureContext>>()> security) {
  using LinkPointer = std::unique_ptr<DialledLink>;
  using ElectionPointer = std::unique_ptr<Elector>;
  return {.loop = loop_of(context),
          .wall_now = wall_now,
          .link_to = [&context, security = std::move(security)](
                         const std::string& host, int port,
                         DialCallbacks callbacks) -> Result<LinkPointer> {
            auto secure = security();
            if (!secure) return tl::unexpected<Error>(secure.error());
            return std::make_unique<LinkClient>(context, host, port, std::move(callbacks),
                                                *std::move(secure));
          },
          .election = [&context, &side, say = std::move(say)](
                          ElectionOptions options, const EtcdAccess& access,
                          Elector::Told told) -> Result<ElectionPointer> {
            auto tls = open_tls(access);
            if (!tls) return tl::unexpected<Error>(tls.error());
            options.seed = random_word();
            auto guard = std::make_unique<LeaseGuard>(
                context, side, LeaseGuard::Options{access, *tls, options.keys, options.ttl}, say);
            return std::make_unique<ElectionDriver>(context, std::move(options), access,
                                                    *std::move(tls), std::move(told),
                                                    std::move(guard));
          }};
}

}  // namespace cpprun

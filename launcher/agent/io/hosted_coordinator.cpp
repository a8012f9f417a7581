// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/io/hosted_coordinator.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "launcher/agent/agent_text.h"
#include "launcher/agent/bounds.h"
#include "launcher/agent/coordinator_link.h"
#include "launcher/output/bounds.h"
#include "launcher/output/io/log_dir.h"
#include "launcher/plan/io/host.h"
#include "launcher/plan/meeting_place.h"
#include "proto/environment.h"
#include "proto/text.h"
#include "rendezvous/daemon/bounds.h"
#include "rendezvous/io/event_loop.h"
#include "rendezvous/job/job_record_json.h"
#include "rendezvous/status/door_places.h"

namespace cpprun::io {

namespace {

ClockPair clock_reading() {
  return {.now = boot_now(), .wall = wall_now()};
}

// Empty if there is no such file.
Result<std::string> read_aside(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) {
    if (errno == ENOENT) return "";
    return failure(fmt::format("cannot read \"{}\": {}", path, errno_text(errno)));
  }
  if (!S_ISREG(facts.st_mode)) return failure(fmt::format("\"{}\" is not a regular file", path));
  return read_small_file(path);
}

Result<std::string> write_aside(const std::string& path, const std::string& text) {
  return write_whole_file(path, text).map([] { return std::string(); });
}

Result<std::string> remove_aside(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return "";
  return failure(fmt::format("cannot remove \"{}\": {}", path, errno_text(errno)));
}

// What a helper process says, with the name of the flag.
Result<std::string> state_result(const std::string& path,
                                 const std::optional<std::string>& answer) {
  return result_of(answer, fmt::format("the disk of \"{}\" does not respond", path))
      .map_error([](const Error& error) { return Error{"--restart-state: " + error.reason}; });
}

}  // namespace

Result<RestartState> RestartStateFile::read(const std::string& path, const std::string& job,
                                            HelperProcesses& side) {
  const auto ask = [&](const std::function<Result<std::string>()>& look) {
    return state_result(path,
                        side.ask([&] { return answer_of(look()); }, bounds::disk_timeout_at_start));
  };
  const auto text = ask([&] { return read_aside(path); });
  if (!text) return tl::unexpected(text.error());
  RestartState state;
  if (!text->empty()) {
    auto before = read_restart_state(*text, job, clock_reading());
    if (!before) {
      return failure(fmt::format("--restart-state: \"{}\" {}", path, before.error().reason));
    }
    state = *std::move(before);
  }
  const auto kept = restart_state_json(state, job, clock_reading());
  const auto written = ask([&] { return write_aside(path, kept); });
  if (!written) return tl::unexpected(written.error());
  return state;
}

RestartStateFile::RestartStateFile(asio::io_context& context, HelperProcesses& side,
                                   std::string path, std::string job, Tell tell)
    : desk_(context, side, bounds::disk_timeout_at_end),
      path_(std::move(path)),
      job_(std::move(job)),
      tell_(std::move(tell)) {}

void RestartStateFile::keep(const RestartState& state) {
  write(state, [] {});
}

void RestartStateFile::finish(const std::optional<RestartState>& state,
                              std::function<void()> done) {
  if (state) return write(*state, std::move(done));
  ask([path = path_] { return remove_aside(path); }, std::move(done));
}

void RestartStateFile::write(const RestartState& state, std::function<void()> done) {
  auto text = restart_state_json(state, job_, clock_reading());
  ask([path = path_, text = std::move(text)] { return write_aside(path, text); }, std::move(done));
}

void RestartStateFile::ask(std::function<Result<std::string>()> look, std::function<void()> done) {
  desk_.ask(
      [look = std::move(look)] { return answer_of(look()); },
      [this, done = std::move(done)](const std::optional<std::string>& answer) {
        const auto result = state_result(path_, answer);
        const auto wrong = result ? std::string() : result.error().reason;
        if (!wrong.empty() && wrong != last_wrong_) {
          tell_(wrong +
                "; if the job is requeued, restarts that were already used may not be counted");
        }
        last_wrong_ = wrong;
        done();
      });
}

HostedCoordinator::HostedCoordinator(asio::io_context& context, RunInputs& inputs,
                                     LinkSecurity& security, Callbacks callbacks)
    : context_(context), inputs_(inputs), security_(security), callbacks_(std::move(callbacks)) {}

// It requires the job's secret, if there is one.
Result<std::unique_ptr<CoordinatorServer>> HostedCoordinator::make() {
  auto secure = security_.for_hosting();
  if (!secure) return tl::unexpected<Error>(secure.error());
  CoordinatorServer::Callbacks callbacks = callbacks_.server;
  callbacks.to_local_agent = [this](link::Message m) {
    callbacks_.post(agent::Heard{std::move(m)});
  };
  callbacks.round_over = [this](const auto& root) {
    callbacks_.server.round_over(root);
    if (restart_state_) restart_state_->keep(leader_->restart_state());
  };
  callbacks.worker_restarted = [this] {
    if (restart_state_) restart_state_->keep(leader_->restart_state());
  };
  callbacks.leads_until = [this](auto until) { callbacks_.post(agent::LeadsUntil{until}); };
  // Called by the server itself. The object stays alive and only changes its owner.
  callbacks.leads = [this] {
    lead(std::move(standby_));
    callbacks_.post(agent::Leads{});
  };
  callbacks.leads_again = [this] {
    // If this node has not stepped down yet, nothing has to be restored.
    if (!leader_) {
      lead(std::move(retired_));
      keep_restart_state();
    }
    callbacks_.post(agent::Leads{.again = true});
  };
  auto server = std::make_unique<CoordinatorServer>(context_, std::move(callbacks));
  if (*secure) server->require_secret(*std::move(secure));
  return server;
}

void HostedCoordinator::lead(std::unique_ptr<CoordinatorServer> server) {
  leader_ = std::move(server);
  callbacks_.leads();
  open_door();
}

CoordinatorOptions HostedCoordinator::options() const {
  const Config& config = inputs_.config;
  return {.only = terms_of(join_message(config, {}, {})),
          .options = {.lease = config.lease(),
                      .status_interval = bounds::status_interval,
                      .last_call = config.last_call,
                      .standby = config.may_have_standby()}};
}

void HostedCoordinator::open_door() {
  leader_->open_door(*inputs_.side,
                     {.directories = own_door_directories(inputs_.environment, ::geteuid()),
                      .after = bounds::door_opens_after,
                      .timeout = bounds::disk_timeout_at_end});
}

Result<void> HostedCoordinator::open() {
  const Config& config = inputs_.config;
  auto before = take_restart_state();
  if (!before) return tl::unexpected<Error>(before.error());
  return listen({.host = listening_address(config.endpoint),
                 .port = static_cast<std::uint16_t>(config.endpoint.port)},
                *std::move(before));
}

Result<int> HostedCoordinator::resume(const CarriedCoordinator& carried, agent::LinkUp place) {
  keep_restart_state();
  const auto listening = listen({.hosts = carried.hosts, .adopted = carried.port}, {});
  if (!listening) return tl::unexpected<Error>(listening.error());
  place_ = std::move(place);
  return leader_->resume(carried);
}

std::optional<std::string> HostedCoordinator::objection_to_upgrade() const {
  if (standby_)
    return "this node is the standby of the coordinator; only other nodes can be upgraded";
  if (retired_) {
    return "this node was the coordinator of this job and can become it again; only other nodes "
           "can be upgraded";
  }
  // No heartbeat is answered while the store is copied.
  const std::uint64_t held = leader_ ? leader_->store_bytes() : 0;
  if (held > bounds::upgraded_store_bytes_max) {
    constexpr std::uint64_t mebibyte = 1024 * 1024;
    return fmt::format("the job's store holds {} MiB, and an upgrade can keep at most {} MiB",
                       held / mebibyte, bounds::upgraded_store_bytes_max / mebibyte);
  }
  return std::nullopt;
}

Result<void> HostedCoordinator::listen(const ListenOptions& listen, RestartState before) {
  Config& config = inputs_.config;
  auto server = make();
  if (!server) {
    restart_state_.reset();
    return tl::unexpected<Error>(server.error());
  }
  leader_ = *std::move(server);
  CoordinatorOptions options = this->options();
  options.options.restarts_before = std::move(before);
  const auto listening =
      leader_->open(listen, std::move(options), PlainStore::refused,
                    {.access = config.status_access, .names = {config.endpoint.host}});
  if (!listening) {
    leader_.reset();
    restart_state_.reset();
    return failure(with_port_hint(listening.error().reason));
  }
  config.endpoint.port = listening->port;
  open_door();
  return {};
}

// A standalone job gets a new id each time.
std::string HostedCoordinator::job_of_restart_state() const {
  const bool is_standalone = inputs_.config.rendezvous == RendezvousMode::standalone;
  return is_standalone ? "standalone" : inputs_.config.job;
}

void HostedCoordinator::keep_restart_state() {
  const auto& path = inputs_.config.restart_state_file;
  if (path.empty()) return;
  restart_state_.emplace(context_, *inputs_.side, path, job_of_restart_state(),
                         [this](const std::string& sentence) {
                           callbacks_.note({sentence, LogLevel::warning});
                         });
}

// What the job used before this run, if there is a --restart-state file.
Result<RestartState> HostedCoordinator::take_restart_state() {
  const auto& path = inputs_.config.restart_state_file;
  if (path.empty()) return RestartState{};
  auto before = RestartStateFile::read(path, job_of_restart_state(), *inputs_.side);
  if (!before) return before;
  keep_restart_state();
  if (before->restarts_used > 0) callbacks_.note({goes_on_text(before->restarts_used, path)});
  return before;
}

bool HostedCoordinator::finish_restart_state(bool goes_on, std::function<void()> done) {
  if (!restart_state_) return false;
  restart_state_->finish(goes_on ? std::optional(leader_->restart_state()) : std::nullopt,
                         std::move(done));
  return true;
}

void HostedCoordinator::dial() {
  if (place_) return callbacks_.post(*std::exchange(place_, std::nullopt));
  const std::string& master = inputs_.config.endpoint.host;
  if (auto place = place_alone(inputs_.config, literal_address(master))) {
    return callbacks_.post(*std::move(place));
  }
  look_up(context_, master, [this](const auto& found) { place_found(found); });
}

void HostedCoordinator::place_found(const Result<std::vector<std::string>>& addresses) {
  if (!addresses) {
    const std::string& why = addresses.error().reason;
    // This node may have stepped down while the name was being resolved.
    if (leader_) leader_->local_agent_waits(unresolved_for_others(inputs_.config, why));
    callbacks_.post(agent::LinkDown{why});
    return;
  }
  const int port = inputs_.config.endpoint.port;
  callbacks_.post(place_among_nodes(*addresses, local_address_towards(addresses->front(), port)));
}

// Prefer the master's port, which firewalls are most likely to allow. Otherwise use any port.
Result<int> HostedCoordinator::stand_by(const std::string& text) {
  auto record = read_job_record(text, clock_reading());
  if (!record) return failure("the record from the master " + record.error().reason);
  if (!standby_) {
    auto made = make();
    if (!made) return tl::unexpected<Error>(made.error());
    auto server = *std::move(made);
    CoordinatorOptions options = this->options();
    options.stands_by = true;
    Config own = inputs_.config;
    const StatusOptions status{.access = own.status_access, .names = {}};
    const std::string host = listening_address(own.endpoint);
    const auto port = static_cast<std::uint16_t>(own.endpoint.port);
    auto listening =
        server->open({.host = host, .port = port}, options, PlainStore::refused, status);
    if (!listening) {
      listening = server->open({.host = host, .port = 0}, options, PlainStore::refused, status);
    }
    if (!listening) return tl::unexpected<Error>(listening.error());
    standby_ = std::move(server);
    standby_port_ = own.endpoint.port = listening->port;
    const auto open = security_.has_secret() ? std::nullopt : open_port_note(own, inputs_.host);
    if (open) callbacks_.note({*open});
  }
  standby_->succeed(*std::move(record));
  return standby_port_;
}

void HostedCoordinator::stand(const link::Join& own, bool is_transfer) {
  if (standby_) standby_->stand(own, is_transfer);
}

// The restart-state file stays as it is: the current leader has newer data.
void HostedCoordinator::step_down() {
  leader_->local_agent_left();
  // Its status is about a finished round. Clients have to ask the current leader.
  leader_->close_door();
  retired_ = std::move(leader_);
  restart_state_.reset();
}

}  // namespace cpprun::io

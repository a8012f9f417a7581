// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/http_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "proto/bounds.h"
#include "proto/link/bounds.h"
#include "proto/text.h"
#include "rendezvous/coordinator/bounds.h"
#include "rendezvous/status/metrics.h"
#include "rendezvous/status/page.h"
#include "rendezvous/status/status_json.h"

namespace cpprun {

namespace {

constexpr std::string_view jobs_path = "/api/v1/jobs";
constexpr std::string_view jobs_prefix = "/api/v1/jobs/";
constexpr std::string_view hosts_prefix = "/api/v1/hosts/";
constexpr std::string_view daemon_prefix = "/api/v1/daemon/";
constexpr std::string_view nodes_path = "/nodes";
constexpr std::string_view stacks_path = "/stacks";
constexpr std::string_view events_path = "/api/v1/events";  // answered by CoordinatorServer
constexpr const char* json_type = "application/json";

// What a path below /api/v1/jobs/ names: a job, still escaped, the list of its nodes, or its
// stacks.
struct JobPath {
  std::string_view name;
  bool of_nodes = false;
  bool of_stacks = false;
};
std::optional<JobPath> job_path(std::string_view path) {
  if (!path.starts_with(jobs_prefix)) return std::nullopt;
  path.remove_prefix(jobs_prefix.size());
  const bool of_nodes = path.ends_with(nodes_path);
  if (of_nodes) path.remove_suffix(nodes_path.size());
  const bool of_stacks = path.ends_with(stacks_path);
  if (of_stacks) path.remove_suffix(stacks_path.size());
  return JobPath{path, of_nodes, of_stacks};
}

// The path and the query parameters of a request's target.
struct Address {
  std::string_view path;
  std::string after;  // ?after=…; empty: from the beginning
  std::optional<std::size_t> limit;
  bool with_ranks = true;
};

http::Response refusal(unsigned status, const std::string& why) {
  return {.status = status, .type = json_type, .body = error_json(why)};
}

http::Response json_response(std::string text) {
  return {.type = json_type, .body = std::move(text)};
}

// Returns false if the parameter is unknown or invalid.
bool read_parameter(std::string_view parameter, Address& address) {
  const auto equals = parameter.find('=');
  if (equals == std::string_view::npos) return false;
  const auto name = parameter.substr(0, equals);
  const auto value = parameter.substr(equals + 1);
  if (name == "after") {
    auto after = unescaped(value);
    if (after) address.after = std::move(*after);
    return after.has_value();
  }
  if (name == "limit") {
    address.limit = exact_number<std::size_t>(value);
    return address.limit && *address.limit > 0;
  }
  address.with_ranks = value == "1";
  return name == "ranks" && (value == "0" || value == "1");
}

// The context of a status request.
struct Look {
  const Coordinator& coordinator;
  const ClockPair& moment;
  const Address& address;
  const http::Request& request;
  const std::optional<std::string>& owner;      // hides the jobs of others; nothing: all are shown
  const std::optional<DaemonSnapshot>& daemon;  // see answer()
  const Viewer& viewer;                         // see answer()
};

// Nothing if a query parameter is unknown or invalid.
std::optional<Address> address_of(std::string_view target) {
  const auto mark = target.find('?');
  Address address{.path = target.substr(0, mark)};
  const auto query = mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1);
  if (query.empty()) return address;
  for (const auto parameter : split(query, '&')) {
    if (!read_parameter(parameter, address)) return std::nullopt;
  }
  return address;
}

std::vector<JobSnapshot> snapshots_of(const std::vector<const Job*>& jobs, TimePoint now) {
  std::vector<JobSnapshot> snapshots;
  snapshots.reserve(jobs.size());
  for (const Job* job : jobs) snapshots.push_back(snapshot_of(*job, now));
  return snapshots;
}

http::Response all_jobs(const Look& look) {
  const auto& [coordinator, moment, address, request, owner, daemon, viewer] = look;
  // One more than is shown tells whether there is a next page.
  auto jobs = coordinator.jobs_after(address.after, bounds::status_jobs_shown_max + 1, owner);
  std::optional<std::string> next;
  if (jobs.size() > bounds::status_jobs_shown_max) {
    jobs.pop_back();
    next = jobs.back()->terms().id;
  }
  return json_response(jobs_json(snapshots_of(jobs, moment.now), next, moment, viewer));
}

http::Response the_page(const Look& /*look*/) {
  return status_page();
}

http::Response health(const Look& /*look*/) {
  return {.body = "ok\n"};
}

http::Response all_metrics(const Look& look) {
  const auto& [coordinator, moment, address, request, owner, daemon, viewer] = look;
  if (owner)
    return refusal(403, "the metrics cover the jobs of all users; use the secret of \"admin\"");
  const MetricsFormat format = metrics_format(request.accept);
  std::vector<JobSnapshot> jobs = coordinator.ended().told(moment.now);
  for (const Job* job : coordinator.jobs_after({}, bounds::status_jobs_measured_max)) {
    jobs.push_back(measured(*job, moment.now));
  }
  return {.type = std::string(content_type(format)),
          .body = metrics_text(jobs, coordinator.job_count(), moment.now, format, daemon),
          .fields = {{"Vary", "Accept"}}};
}

http::Response of_job(const Look& look) {
  const auto& [coordinator, moment, address, request, owner, daemon, viewer] = look;
  const auto [rest, wants_nodes, wants_stacks] = job_path(address.path).value_or(JobPath{});
  const auto id = unescaped(rest);
  const bool is_shown = id && (!owner || coordinator.owner_of(*id) == owner);
  const Job* job = is_shown ? coordinator.find(*id) : nullptr;
  if (job == nullptr) {
    const auto name = plain_line(id.value_or(std::string(rest)), bounds::name_shown_bytes_max);
    return refusal(404, fmt::format("unknown job \"{}\"", name));
  }
  if (wants_stacks) return json_response(stacks_json(*job, moment));
  if (!wants_nodes) {
    return json_response(job_json(details_of(*job, moment.now, daemon), moment, viewer));
  }
  const auto place = node_place(address.after);
  if (!address.after.empty() && !place) {
    return refusal(400, "invalid after=; use the value of next of an earlier page");
  }
  const std::size_t most = bounds::status_nodes_shown_max;
  const auto nodes = nodes_of(*job, moment.now,
                              {.after = place,
                               .nodes_max = std::min(address.limit.value_or(most), most),
                               .with_ranks = address.with_ranks});
  return json_response(nodes_json(nodes, moment));
}

http::Response the_daemon(const Look& look) {
  if (look.daemon) return json_response(daemon_json(*look.daemon, look.moment));
  return refusal(404, "this is a cpprun, not a cpprund; /api/v1/jobs shows its job");
}

// For a path with a placeholder, `show` parses the name in it.
struct Route {
  std::string_view path;
  http::Response (*show)(const Look&);
};
constexpr std::array routes = {Route{"/", the_page},
                               Route{"/healthz", health},
                               Route{"/readyz", health},
                               Route{"/metrics", all_metrics},
                               Route{"/api/v1/daemon", the_daemon},
                               Route{jobs_path, all_jobs},
                               Route{"/api/v1/jobs/{id}", of_job},
                               Route{"/api/v1/jobs/{id}/nodes", of_job},
                               Route{"/api/v1/jobs/{id}/stacks", of_job}};

}  // namespace

std::vector<std::string_view> status_routes() {
  std::vector<std::string_view> paths;
  for (const Route& route : routes) paths.push_back(route.path);
  return paths;
}

bool is_shown_path(std::string_view target) {
  const std::string_view path = target.substr(0, target.find('?'));
  if (path == events_path || std::ranges::find(routes, path, &Route::path) != routes.end()) {
    return true;
  }
  const auto job = job_path(path);
  return job && !job->name.empty() && job->name.find('/') == std::string_view::npos;
}

http::Response not_allowed(const http::Request& request) {
  const bool is_order = is_command_path(request.target);
  http::Response response =
      refusal(405, is_order ? "use POST for commands" : "this path is read-only; use GET");
  response.fields.emplace_back("Allow", is_order ? "POST" : "GET, HEAD");
  return response;
}

bool is_for_us(const HostNames& names, const http::Request& request) {
  return request.host.empty() || http::is_own_host(request.host, names);
}

namespace {

// The reply to a request for another host; nothing if it is for this one.
std::optional<http::Response> misdirected(const http::Request& request, const HostNames& names) {
  if (is_for_us(names, request)) return std::nullopt;
  return refusal(421,
                 fmt::format("\"{}\" is not a name of this host; use the IP address of the host",
                             plain_line(request.host, bounds::name_shown_bytes_max)));
}

}  // namespace

http::Response answer(const Coordinator& coordinator, const HostNames& names,
                      const ClockPair& moment, const http::Request& request,
                      const std::optional<std::string>& owner,
                      const std::optional<DaemonSnapshot>& daemon, const Viewer& viewer) {
  if (auto wrong_host = misdirected(request, names)) return *std::move(wrong_host);
  const bool is_look = request.method == http::Method::get || request.method == http::Method::head;
  if (!is_look || is_command_path(request.target)) return not_allowed(request);
  const auto address = address_of(request.target);
  if (!address)
    return refusal(400, "invalid query; valid parameters are after=…, limit=… and ranks=0");
  const auto path = address->path;
  const auto* const route = std::ranges::find(routes, path, &Route::path);
  const Look look{coordinator, moment, *address, request, owner, daemon, viewer};
  if (route != routes.end()) return route->show(look);
  if (path.starts_with(jobs_prefix)) return of_job(look);
  return refusal(404, "not found; the status page is at /");
}

std::optional<Coordinator::LookedAt> looked_at(const http::Request& request) {
  const auto address = address_of(request.target);
  if (!address || request.method == http::Method::post || request.method == http::Method::other) {
    return std::nullopt;
  }
  if (address->path == "/metrics") return Coordinator::LookedAt{};
  // The list of all jobs shows no worker statistics.
  const auto path = job_path(address->path);
  if (!path) return std::nullopt;
  auto job = unescaped(path->name);
  return job ? std::optional(Coordinator::LookedAt{std::move(job)}) : std::nullopt;
}

std::optional<std::string> unescaped(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    if (text.front() != '%') {
      plain += text.front();
      text.remove_prefix(1);
      continue;
    }
    unsigned value = 0;
    if (text.size() < 3) return std::nullopt;
    const auto [end, error] = std::from_chars(text.data() + 1, text.data() + 3, value, 16);
    if (error != std::errc{} || end != text.data() + 3) return std::nullopt;
    plain += static_cast<char>(value);
    text.remove_prefix(3);
  }
  return plain;
}

namespace {

constexpr std::uint32_t root = 0;

// The target of a command, still escaped, and what to do with it.
struct CommandAddress {
  std::string_view name;
  OperatorCommand::Kind kind;
};

// Nothing if the path is not the path of a command.
std::optional<CommandAddress> command_address(std::string_view target) {
  if (target.starts_with(daemon_prefix)) {
    const auto kind = command_kind(target.substr(daemon_prefix.size()));
    const bool is_known = kind && OperatorCommand{.kind = *kind}.is_about_the_daemon();
    return is_known ? std::optional(CommandAddress{.name = {}, .kind = *kind}) : std::nullopt;
  }
  const bool is_of_job = target.starts_with(jobs_prefix);
  if (!is_of_job && !target.starts_with(hosts_prefix)) return std::nullopt;
  target.remove_prefix(is_of_job ? jobs_prefix.size() : hosts_prefix.size());
  const auto slash = target.find('/');
  if (slash == std::string_view::npos || slash == 0) return std::nullopt;
  const auto kind = command_kind(target.substr(slash + 1));
  if (!kind || OperatorCommand{.kind = *kind}.is_about_the_daemon()) return std::nullopt;
  if (OperatorCommand{.kind = *kind}.is_about_a_host() == is_of_job) return std::nullopt;
  return CommandAddress{.name = target.substr(0, slash), .kind = *kind};
}

// "application/json", optionally followed by parameters such as "; charset=utf-8".
bool is_json(std::string_view type) {
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  return is_alike(type, json_type);
}

std::string name_of(const StatusClient& client) {
  if (client.credential) return client.credential->holder;
  return *client.user == root ? "uid 0 (root)" : fmt::format("uid {}", *client.user);
}

}  // namespace

bool is_command_path(std::string_view target) {
  return command_address(target).has_value();
}

namespace {

// A browser sends the address of the page, and Host, which misdirected() has checked, is that of
// the request. No page of another site or port has the same.
bool is_from_own_page(const http::Request& request) {
  return !request.host.empty() && request.origin == "http://" + request.host;
}

}  // namespace

std::variant<OperatorCommand, http::Response> order_of(const http::Request& request,
                                                       const StatusClient& client,
                                                       const CommandDesk& desk) {
  if (auto wrong_host = misdirected(request, desk.names)) return *std::move(wrong_host);
  if (request.origin && !is_from_own_page(request)) {
    return refusal(403, "commands from other web pages are rejected; use cpprunctl");
  }
  const auto address = command_address(request.target);
  if (!address) {
    const bool is_near = request.target.starts_with(jobs_prefix) ||
                         request.target.starts_with(hosts_prefix) ||
                         request.target.starts_with(daemon_prefix);
    if (is_near && !is_shown_path(request.target)) {
      return refusal(404,
                     "unknown command; jobs have stop, restart, save, capture, drain, upgrade and "
                     "forget, "
                     "hosts have exclude and include, daemons have handover");
    }
    return not_allowed(request);
  }
  if (const auto may = may_control(client, desk.own_user); !may) {
    return refusal(403, may.error().reason);
  }
  // Required even for an empty body: a page in a browser cannot send this type without a CORS
  // preflight.
  if (!is_json(request.content_type)) {
    return refusal(415, "Content-Type must be application/json, even for an empty body");
  }
  const auto name = unescaped(address->name);
  if (!name) return refusal(400, "invalid percent-encoding in the path");
  const auto plain = plain_line(*name, bounds::job_id_bytes_max + bounds::host_bytes_max);
  OperatorCommand command{.kind = address->kind, .by = name_of(client)};
  (command.is_about_a_host() ? command.whom : command.job) = plain;
  if (const auto read = read_command(request.body, command); !read) {
    return refusal(400, read.error().reason);
  }
  return command;
}

std::optional<http::Response> objection_of_owners(const OperatorCommand& command,
                                                  const StatusClient& client,
                                                  const Coordinator& coordinator) {
  if (!client.credential || !client.credential->owner) return std::nullopt;
  if (command.is_about_a_host() && command.job.empty()) {
    return refusal(403, "hosts are shared by all users; use the secret of \"admin\"");
  }
  if (command.is_about_the_daemon()) {
    return refusal(403, "a handover affects the jobs of all users; use the secret of \"admin\"");
  }
  if (coordinator.owner_of(command.job) == client.credential->owner) return std::nullopt;
  return refusal(404, fmt::format("unknown job \"{}\"",
                                  plain_line(command.job, bounds::name_shown_bytes_max)));
}

http::Response answer_to(const CommandResult& outcome) {
  http::Response response{.type = json_type, .body = outcome_json(outcome)};
  switch (outcome.kind) {
    case CommandResult::Kind::done:
      break;
    case CommandResult::Kind::malformed:
      response.status = 400;
      break;
    case CommandResult::Kind::unknown:
      response.status = 404;
      break;
    case CommandResult::Kind::not_now:
      response.status = 409;
      break;
  }
  return response;
}

namespace {

constexpr std::string_view bearer = "Bearer";

// The token after the scheme, whose name is case-insensitive, and the spaces after it (RFC 9110,
// 11.4).
std::optional<std::string_view> shown_token(std::string_view authorization) {
  if (!is_alike(authorization.substr(0, bearer.size()), bearer)) return std::nullopt;
  authorization.remove_prefix(bearer.size());
  if (!authorization.starts_with(' ')) return std::nullopt;
  return trimmed(authorization);
}

}  // namespace

WantedToken token_wanted_for(const http::Request& request) {
  const bool is_command = request.method == http::Method::post;
  WantedToken wanted{.purpose = is_command ? TokenPurpose::control : TokenPurpose::read};
  const std::string_view target = request.target;
  // Split the path exactly as the handlers do, so that a token for "a" does not permit "a/b". The
  // handlers reject an invalid name, whatever the token.
  const auto path = job_path(is_command ? target : target.substr(0, target.find('?')));
  if (!path) return wanted;
  wanted.job =
      unescaped(is_command ? path->name.substr(0, path->name.find('/')) : path->name).value_or("");
  return wanted;
}

Holder holder_of(const HolderOf& holder_of, const std::string& secret_id) {
  return holder_of ? holder_of(secret_id) : Holder{};
}

// How long a valid token remains valid, capped at what a timer can count.
Duration time_left(const TokenTerms& terms, WallTime now) {
  constexpr std::chrono::seconds most = std::chrono::years(10);
  const auto since_1970 = std::chrono::floor<std::chrono::seconds>(now.time_since_epoch());
  return std::min(most, std::chrono::seconds(terms.expiry_unix_seconds) - since_1970);
}

Credential credential_of(const std::string& secret_id, const std::string& address,
                         const HolderOf& whose) {
  Credential credential{.holder = fmt::format("{} with the secret \"{}\"", address, secret_id),
                        .may_control = true};
  if (Holder holder = holder_of(whose, secret_id); !holder.sees_all) {
    credential.owner = std::move(holder.owner);
  }
  return credential;
}

Result<Credential> credential_of(const http::Request& request, const SecureContext& secure,
                                 WallTime now, const HolderOf& whose) {
  const auto token = shown_token(request.authorization);
  if (!token) return failure("not a token (expected Authorization: Bearer cpprun1…)");
  const std::string_view shown = *token;
  const WantedToken wanted = token_wanted_for(request);
  const auto terms = check_token(secure.openssl(), secure.secrets(), shown, now,
                                 {.purpose = wanted.purpose, .job = wanted.job});
  if (!terms) return tl::unexpected<Error>(terms.error());
  const std::string id = secret_id_of_token(shown);
  Credential credential{.holder = fmt::format("a token of the secret \"{}\"", id),
                        .may_control = terms->purpose == TokenPurpose::control,
                        .lasts = time_left(*terms, now)};
  if (Holder holder = holder_of(whose, id); !holder.sees_all) {
    credential.owner = std::move(holder.owner);
  }
  return credential;
}

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/status_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "proto/bounds.h"
#include "proto/text.h"
#include "rendezvous/coordinator/order_routes.h"
#include "rendezvous/status/metrics.h"
#include "rendezvous/status/page.h"
#include "rendezvous/status/status_json.h"

namespace cpprun {

const Job* Coordinator::find(const std::string& job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : &found->second->job;
}

std::optional<std::string> Coordinator::owner_of(const std::string& job) const {
  if (const auto found = jobs_.find(job); found != jobs_.end()) return found->second->owner;
  const auto begins = awaiting_store_.find(job);
  if (begins != awaiting_store_.end()) return begins->second.owner;
  return std::nullopt;
}

const std::string* Coordinator::job_of(LinkId link) const {
  const auto found = job_of_link_.find(link);
  return found == job_of_link_.end() ? nullptr : &found->second;
}

std::vector<const Job*> Coordinator::jobs_after(const std::string& name, std::size_t jobs_max,
                                                const std::optional<std::string>& owner) const {
  std::vector<const Job*> jobs;
  for (const auto& [id, entry] : jobs_) {
    if (owner && entry->owner != *owner) continue;
    if (name.empty() || name < id) jobs.push_back(&entry->job);
  }
  const auto by_name = [](const Job* left, const Job* right) {
    return left->terms().id < right->terms().id;
  };
  const std::size_t count = std::min(jobs.size(), jobs_max);
  std::partial_sort(jobs.begin(), jobs.begin() + static_cast<std::ptrdiff_t>(count), jobs.end(),
                    by_name);
  jobs.resize(count);
  return jobs;
}

void Coordinator::on(TimePoint now, const LookedAt& event, Actions& actions) {
  if (!event.job) {
    for (const auto& [id, entry] : jobs_) entry->job.look(now, actions);
  } else if (const auto found = jobs_.find(*event.job); found != jobs_.end()) {
    found->second->job.look(now, actions);
  }
}

namespace {

constexpr std::string_view jobs_path = "/api/v1/jobs";
constexpr std::string_view nodes_path = "/nodes";
constexpr std::string_view events_path = "/api/v1/events";  // the server's own
constexpr const char* json_type = "application/json";

// What an address has before and behind its question mark, taken apart.
struct Address {
  std::string_view path;
  std::string after;  // of ?after=…; empty: from the beginning
  std::optional<std::size_t> limit;
  bool with_ranks = true;
};

http::Response refusal(unsigned status, const std::string& why) {
  return {.status = status, .type = json_type, .body = error_json(why)};
}

http::Response json(std::string text) {
  return {.type = json_type, .body = std::move(text)};
}

// False where that is not known here.
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

// Somebody's look, and what is looked at.
struct Look {
  const Coordinator& coordinator;
  const Moment& moment;
  const Address& address;
  const http::Request& request;
  const std::optional<std::string>&
      owner;  // of whom others' jobs are hidden; nothing: all are shown
  const std::optional<DaemonSnapshot>& daemon;  // see answer()
};

// Nothing where it asks for what is not known here.
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
  const auto& [coordinator, moment, address, request, owner, daemon] = look;
  // One more than is shown tells whether these are the last.
  auto jobs = coordinator.jobs_after(address.after, bounds::status_jobs_shown_max + 1, owner);
  std::optional<std::string> next;
  if (jobs.size() > bounds::status_jobs_shown_max) {
    jobs.pop_back();
    next = jobs.back()->terms().id;
  }
  return json(jobs_json(snapshots_of(jobs, moment.now), next, moment));
}

http::Response the_page(const Look& /*look*/) {
  return status_page();
}

http::Response health(const Look& /*look*/) {
  return {.body = "ok\n"};
}

http::Response all_metrics(const Look& look) {
  const auto& [coordinator, moment, address, request, owner, daemon] = look;
  if (owner)
    return refusal(403,
                   "these are figures of everybody's jobs: the secret of \"admin\" shows them");
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
  const auto& [coordinator, moment, address, request, owner, daemon] = look;
  auto rest = address.path.substr(jobs_path.size() + 1);
  const bool wants_nodes = rest.ends_with(nodes_path);
  if (wants_nodes) rest.remove_suffix(nodes_path.size());
  const auto id = unescaped(rest);
  const bool is_shown = id && (!owner || coordinator.owner_of(*id) == owner);
  const Job* job = is_shown ? coordinator.find(*id) : nullptr;
  if (job == nullptr) {
    const auto name = plain_line(id.value_or(std::string(rest)), bounds::name_shown_bytes_max);
    return refusal(404, fmt::format("no job \"{}\" is known here", name));
  }
  if (!wants_nodes) return json(job_json(details_of(*job, moment.now, daemon), moment));
  const auto place = node_place(address.after);
  if (!address.after.empty() && !place) {
    return refusal(400, "after= is no place that an earlier page has named as its next");
  }
  const std::size_t most = bounds::status_nodes_shown_max;
  const auto page = nodes_of(*job, moment.now,
                             {.after = place,
                              .nodes_max = std::min(address.limit.value_or(most), most),
                              .with_ranks = address.with_ranks});
  return json(nodes_json(page, moment));
}

http::Response the_daemon(const Look& look) {
  if (look.daemon) return json(daemon_json(*look.daemon, look.moment));
  return refusal(404, "this is a cpprun, which hosts its own job: /api/v1/jobs shows it");
}

// One with a name in it is taken apart by who shows it.
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
                               Route{"/api/v1/jobs/{id}/nodes", of_job}};

}  // namespace

std::vector<std::string_view> status_routes() {
  std::vector<std::string_view> paths;
  for (const Route& route : routes) paths.push_back(route.path);
  return paths;
}

bool is_shown_path(std::string_view target) {
  std::string_view path = target.substr(0, target.find('?'));
  if (path == events_path || std::ranges::find(routes, path, &Route::path) != routes.end()) {
    return true;
  }
  if (!path.starts_with(jobs_path)) return false;
  path.remove_prefix(jobs_path.size());
  if (path.ends_with(nodes_path)) path.remove_suffix(nodes_path.size());
  return path.size() > 1 && path.starts_with('/') && path.find('/', 1) == std::string_view::npos;
}

http::Response not_allowed(const http::Request& request) {
  const bool is_order = is_order_path(request.target);
  http::Response response = refusal(
      405, is_order ? "that is asked for with POST" : "there is nothing to be changed here");
  response.fields.emplace_back("Allow", is_order ? "POST" : "GET, HEAD");
  return response;
}

bool is_for_us(const HostNames& names, const http::Request& request) {
  return request.host.empty() || http::is_own_host(request.host, names);
}

http::Response answer(const Coordinator& coordinator, const HostNames& names, const Moment& moment,
                      const http::Request& request, const std::optional<std::string>& owner,
                      const std::optional<DaemonSnapshot>& daemon) {
  if (!is_for_us(names, request)) {
    return refusal(421, fmt::format("this machine is not called \"{}\": ask for it by an address",
                                    plain_line(request.host, bounds::name_shown_bytes_max)));
  }
  const bool is_look = request.method == http::Method::get || request.method == http::Method::head;
  if (!is_look || is_order_path(request.target)) return not_allowed(request);
  const auto address = address_of(request.target);
  if (!address)
    return refusal(
        400, "nothing but after=…, limit=… and ranks=0 may follow an address's question mark");
  const auto path = address->path;
  const auto* const route = std::ranges::find(routes, path, &Route::path);
  const Look look{coordinator, moment, *address, request, owner, daemon};
  if (route != routes.end()) return route->show(look);
  const bool is_of_job =
      path.starts_with(jobs_path) && path.substr(jobs_path.size()).starts_with('/');
  if (is_of_job) return of_job(look);
  return refusal(404, "there is nothing at this address; / shows what there is");
}

std::optional<Coordinator::LookedAt> looked_at(const http::Request& request) {
  const auto address = address_of(request.target);
  if (!address || request.method == http::Method::post || request.method == http::Method::other) {
    return std::nullopt;
  }
  if (address->path == "/metrics") return Coordinator::LookedAt{};
  if (!address->path.starts_with(jobs_path)) return std::nullopt;
  auto rest = address->path.substr(jobs_path.size());
  // The list of all jobs shows nobody's workers.
  if (!rest.starts_with('/')) return std::nullopt;
  rest.remove_prefix(1);
  if (rest.ends_with(nodes_path)) rest.remove_suffix(nodes_path.size());
  auto job = unescaped(rest);
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

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/io/jobs.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <memory>
#include <utility>

#include "launcher/control/io/console.h"
#include "launcher/control/job_choice.h"
#include "launcher/control/views.h"
#include "proto/secure/io/openssl_library.h"
#include "proto/sniff.h"
#include "proto/text.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/secret_file.h"
#include "rendezvous/status/door_places.h"
#include "rendezvous/status/io/door.h"

namespace cpprun::io {

namespace {

using std::chrono::steady_clock;

constexpr std::size_t chunk_bytes = 64 * 1024;

tl::unexpected<Error> cannot_reach(const ControlEndpoint& place, const std::string& why) {
  return failure(fmt::format("cannot reach {}: {}", place.text(), why));
}

// Whether the socket becomes ready in time. An address may be silent forever.
bool is_ready(int socket, short what, int milliseconds) {
  pollfd watched{socket, what, 0};
  int ready = 0;
  do {
    ready = ::poll(&watched, 1, milliseconds);
  } while (ready < 0 && errno == EINTR);
  return ready == 1;
}

// Sends everything in one call, because it is little.
bool is_sent(int socket, const std::string& bytes) {
  return bytes.empty() || ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                              static_cast<ssize_t>(bytes.size());
}

int error_of(int socket) {
  int error_number = 0;
  socklen_t size = sizeof error_number;
  (void)::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error_number, &size);
  return error_number;
}

int milliseconds_until(steady_clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
  return std::max(0, static_cast<int>(left.count()));
}

Result<FileDescriptor> dial(const ControlEndpoint& place, const Endpoint& endpoint,
                            steady_clock::time_point deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const auto port = std::to_string(endpoint.port);
  const int unknown = ::getaddrinfo(endpoint.host.c_str(), port.c_str(), &hints, &found);
  if (unknown != 0) return cannot_reach(place, ::gai_strerror(unknown));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, ::freeaddrinfo);
  int error_number = ECONNREFUSED;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    FileDescriptor socket(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) continue;
    if (::connect(socket.get(), at->ai_addr, at->ai_addrlen) == 0) return socket;
    error_number = errno;
    if (error_number != EINPROGRESS) continue;
    const bool is_over = is_ready(socket.get(), POLLOUT, milliseconds_until(deadline));
    error_number = is_over ? error_of(socket.get()) : ETIMEDOUT;
    if (error_number == 0) return socket;
  }
  return cannot_reach(place, errno_text(error_number));
}

Result<FileDescriptor> connect_to(const ControlEndpoint& place, steady_clock::time_point deadline) {
  if (place.address) return dial(place, *place.address, deadline);
  SocketProbe knocked = probe_socket(place.door);
  if (!knocked.socket) return cannot_reach(place, errno_text(knocked.error_number));
  return std::move(knocked.socket);
}

std::string silence_text(Duration timeout) {
  return fmt::format("no response within {} s; the process may be suspended",
                     std::chrono::duration_cast<std::chrono::seconds>(timeout).count());
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(directory.c_str()), ::closedir);
  if (!open) return names;
  while (const dirent* entry = ::readdir(open.get())) names.emplace_back(entry->d_name);
  std::sort(names.begin(), names.end());
  return names;
}

// One of several concurrent requests.
struct Asked {
  std::optional<Call> call;
  std::optional<Result<Answer>> answer;

  void hear(const ControlEndpoint& place) {
    const auto heard = call->hear();
    if (!heard) {
      answer = cannot_reach(place, heard.error().reason);
    } else if (call->answer().is_whole()) {
      answer = Answer{call->answer().status(), call->take_body()};
    }
  }
};

void hear_all(std::vector<Asked>& asked, const std::vector<ControlEndpoint>& places,
              Duration timeout, steady_clock::time_point deadline) {
  while (true) {
    std::vector<pollfd> watched;
    std::vector<std::size_t> whose;
    for (std::size_t at = 0; at < asked.size(); ++at) {
      if (asked[at].answer) continue;
      watched.push_back({asked[at].call->fd(), POLLIN, 0});
      whose.push_back(at);
    }
    if (watched.empty()) return;
    const int left = milliseconds_until(deadline);
    const int ready = left == 0 ? 0 : ::poll(watched.data(), watched.size(), left);
    if (ready < 0) continue;  // interrupted by a signal
    if (ready == 0) {
      for (const std::size_t at : whose) {
        asked[at].answer = cannot_reach(places[at], silence_text(timeout));
      }
      return;
    }
    for (std::size_t at = 0; at < watched.size(); ++at) {
      if (watched[at].revents != 0) asked[whose[at]].hear(places[whose[at]]);
    }
  }
}

}  // namespace

std::string ControlEndpoint::text() const {
  return address ? to_string(*address) : door;
}

Result<Call> Call::begin(const ControlEndpoint& place, const http::Question& question,
                         steady_clock::time_point deadline) {
  auto socket = connect_to(place, deadline);
  if (!socket) return tl::unexpected<Error>(socket.error());
  http::Question said = question;
  if (place.address) said.host = to_string(*place.address);
  const auto bytes = http::to_bytes(said);
  Call call;
  call.socket_ = std::move(*socket);
  if (place.secure) {
    call.secure_ = std::make_unique<SecureChannel>(place.secure);
    const auto proven = call.prove(bytes, deadline);
    if (!proven) return cannot_reach(place, proven.error().reason);
    return call;
  }
  // A request has a few hundred bytes, which fit into the socket buffer.
  if (!is_ready(call.fd(), POLLOUT, milliseconds_until(deadline)) || !is_sent(call.fd(), bytes)) {
    return cannot_reach(place, "cannot send the request: " + errno_text(errno));
  }
  return call;
}

// Completes the mutual authentication and sends the request behind it.
Result<void> Call::prove(const std::string& question, steady_clock::time_point deadline) {
  secure_->say(question);
  while (true) {
    if (!is_sent(fd(), secure_->take_outgoing())) return failure(errno_text(errno));
    if (secure_->is_established()) return {};
    const int left = milliseconds_until(deadline);
    if (left == 0 || !is_ready(fd(), POLLIN, left)) {
      return failure("no response to the handshake; check that this is a cpprun with a secret");
    }
    std::array<char, chunk_bytes> chunk;
    const ssize_t count = ::recv(fd(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count < 0) return failure(errno_text(errno));
    if (count == 0) return failure("connection closed during the handshake");
    if (!secure_->hear({chunk.data(), static_cast<std::size_t>(count)})) {
      return failure(secure_->reason());
    }
  }
}

// After the authentication the peer sends its greeting first, as it does to an agent.
Result<void> Call::take(std::string_view bytes) {
  if (!secure_) return reader_.hear(bytes);
  const bool goes_on = secure_->hear(bytes);
  std::string heard = secure_->take_heard();
  const std::size_t missing = std::min(link_preamble.size() - greeting_.size(), heard.size());
  greeting_ += heard.substr(0, missing);
  heard.erase(0, missing);
  if (!link_preamble.starts_with(greeting_)) return failure("not a cpprun coordinator");
  if (auto taken = reader_.hear(heard); !taken) return taken;
  if (!goes_on) return failure(secure_->reason());
  return {};
}

Result<bool> Call::hear() {
  std::array<char, chunk_bytes> chunk;
  const ssize_t count = ::recv(socket_.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (count < 0) return failure(errno_text(errno));
  if (count == 0) {
    if (auto ended = reader_.end(); !ended) return tl::unexpected<Error>(ended.error());
    return false;
  }
  const auto heard = take({chunk.data(), static_cast<std::size_t>(count)});
  if (!heard) return tl::unexpected<Error>(heard.error());
  return true;
}

std::vector<Result<Answer>> ask_all(const std::vector<ControlEndpoint>& places,
                                    const http::Question& question, Duration timeout) {
  const auto deadline =
      steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(timeout);
  std::vector<Asked> asked(places.size());
  for (std::size_t at = 0; at < places.size(); ++at) {
    auto call = Call::begin(places[at], question, deadline);
    if (call) {
      asked[at].call = std::move(*call);
    } else {
      asked[at].answer = tl::unexpected<Error>(call.error());
    }
  }
  hear_all(asked, places, timeout, deadline);
  std::vector<Result<Answer>> answers;
  for (auto& each : asked) answers.push_back(std::move(*each.answer));
  return answers;
}

Result<Answer> ask(const ControlEndpoint& place, const http::Question& question) {
  return ask_all({place}, question, bounds::ask_timeout).front();
}

Found find_endpoints(const Environment& environment, bool of_all_users) {
  auto directories = searched_door_directories(environment, ::geteuid());
  for (const auto& directory : directories) sweep_doors(directory);
  if (of_all_users) {
    for (auto& directory : door_directories_of_all(environment, names_in("/run/user"),
                                                   names_in(temporary_directory(environment)))) {
      if (std::ranges::find(directories, directory) == directories.end())
        directories.push_back(std::move(directory));
    }
  }
  Found found;
  for (const auto& directory : directories) {
    std::string why;
    for (const auto& name : doors_in(directory, &why)) {
      found.places.push_back({.door = directory.path() + "/" + name});
    }
    if (!why.empty()) found.troubles.push_back(fmt::format("{}: {}", directory.path(), why));
  }
  return found;
}

namespace {

constexpr const char* jobs_target = "/api/v1/jobs";
// For all pages of one list, counted from the first request.
constexpr Duration pages_timeout = 6 * bounds::ask_timeout;

// The error if no endpoint is found. Lists the directories searched.
Setback none_found(const Environment& environment) {
  std::string directories;
  for (const auto& each : searched_door_directories(environment, ::geteuid())) {
    directories += (directories.empty() ? "" : ", ") + each.path();
  }
  return {
      .sentence = fmt::format("found no cpprun or cpprund of uid {} on this machine (searched {})",
                              ::geteuid(), directories),
      .code = control_code::unreachable,
      .hint =
          "if another machine hosts the job, run cpprunctl there or use --address "
          "HOST:PORT"};
}

Setback unreachable(const std::string& sentence) {
  return {.sentence = sentence, .code = control_code::unreachable};
}

// For sockets of this machine the kernel reports the owner. At an address both sides prove that
// they hold the secret, if this user has one.
Result<Found> places_of(const ControlOptions& options, const Environment& environment) {
  if (!options.address) return find_endpoints(environment, options.of_all_users);
  auto secrets = find_secrets(options.secret_file, environment);
  if (!secrets) return tl::unexpected<Error>(secrets.error());
  // Keep the secret out of core dumps and away from other processes of this user.
  if (!secrets->empty()) (void)::prctl(PR_SET_DUMPABLE, 0);
  auto secure = LinkSecurity(*std::move(secrets)).for_dialing();
  if (!secure) return tl::unexpected<Error>(secure.error());
  return Found{.places = {{.door = {}, .address = options.address, .secure = *std::move(secure)}},
               .troubles = {}};
}

// Adds one page of an endpoint's jobs, or the reason why there is none. Returns the cursor of the
// next page. None: this was the last one.
std::optional<std::string> take_page(const ControlOptions& options, const ControlEndpoint& place,
                                     const Result<Answer>& answer, FoundJobs& jobs) {
  std::string why;
  std::optional<std::string> next;
  if (!answer) {
    why = answer.error().reason;
  } else if (answer->status != status_ok) {
    why = fmt::format("{} rejected the request: {}", place.text(), error_in(answer->body));
  } else if (auto seen = jobs_view(answer->body); !seen) {
    why = fmt::format("{}: {}", place.text(), seen.error().reason);
  } else {
    if (!seen->jobs.empty()) next = std::move(seen->next);
    for (auto& job : seen->jobs) {
      // The coordinator's own address is not for other machines.
      if (place.address) job.page.clear();
      jobs.jobs.push_back({std::move(job), place});
    }
  }
  const bool has_answered = why.empty();
  if (!has_answered && !options.as_json) report_error("warning: " + why);
  jobs.answers.push_back({.place = place.text(),
                          .text = has_answered ? answer->body : why,
                          .has_answered = has_answered});
  return next;
}

FoundJobs find_jobs_there(const ControlOptions& options, const Environment& environment) {
  const auto looked = places_of(options, environment);
  if (!looked) {
    const std::string& why = looked.error().reason;
    if (!options.as_json) report_error("warning: " + why);
    const ControlEndpoint place{.door = {}, .address = options.address};
    return {.jobs = {}, .answers = {{place.text(), why, false}}, .places = {place}};
  }
  const Found& found = *looked;
  const auto deadline = std::chrono::steady_clock::now() + pages_timeout;
  const auto answers = ask_all(found.places, {.target = jobs_target}, bounds::ask_timeout);
  FoundJobs jobs{.jobs = {}, .answers = {}, .places = found.places};
  for (std::size_t at = 0; at < answers.size(); ++at) {
    const ControlEndpoint& place = found.places[at];
    auto next = take_page(options, place, answers[at], jobs);
    while (next) {
      if (std::chrono::steady_clock::now() >= deadline) {
        const auto why = fmt::format("{}: incomplete list of jobs after {} s", place.text(),
                                     in_seconds(pages_timeout));
        if (!options.as_json) report_error("warning: " + why);
        jobs.answers.push_back({.place = place.text(), .text = why, .has_answered = false});
        break;
      }
      const auto target = fmt::format("{}?after={}", jobs_target, escaped(*next));
      auto behind = take_page(options, place, ask(place, {.target = target}), jobs);
      // Cursors must increase, so that the loop ends whatever the peer sends.
      next = behind > next ? std::move(behind) : std::nullopt;
    }
  }
  return jobs;
}

// The leaders of the standbys found that were not queried.
std::vector<Endpoint> leaders_of(const FoundJobs& found) {
  std::vector<Endpoint> leaders;
  const auto daemons = find_daemons(found);
  for (const FoundDaemon& each : daemons) {
    const auto leader = parse_endpoint(each.view.leader_address, 0);
    if (each.view.leads || !leader || leader->port == 0) continue;
    const bool was_asked = is_led_by_one_of(daemons, each) ||
                           std::ranges::any_of(found.places, [&](const ControlEndpoint& place) {
                             return place.address == *leader;
                           });
    if (!was_asked && std::ranges::find(leaders, *leader) == leaders.end()) {
      leaders.push_back(*leader);
    }
  }
  return leaders;
}

}  // namespace

int give_up(const Setback& setback) {
  report_error("error: " + setback.sentence, setback.hint);
  return setback.code;
}

std::string FoundJob::target() const {
  return fmt::format("{}/{}", jobs_target, escaped(job.id));
}

std::vector<std::string> silent_endpoints(const FoundJobs& found) {
  std::vector<std::string> silent;
  for (const auto& each : found.answers) {
    if (!each.has_answered) silent.push_back(each.place);
  }
  return silent;
}

std::vector<ControlEndpoint> answered_endpoints(const FoundJobs& found) {
  std::vector<ControlEndpoint> answered;
  std::ranges::copy_if(found.places, std::back_inserter(answered), [&](const auto& place) {
    return std::ranges::any_of(found.answers, [&](const SeenAnswer& answer) {
      return answer.has_answered && answer.place == place.text();
    });
  });
  return answered;
}

std::vector<SeenJob> seen_jobs(const FoundJobs& found) {
  std::vector<SeenJob> jobs;
  for (const auto& each : found.jobs) jobs.push_back({each.job, each.place.text()});
  return jobs;
}

FoundJobs find_jobs(const ControlOptions& options, const Environment& environment) {
  FoundJobs jobs = find_jobs_there(options, environment);
  const bool is_there = std::ranges::any_of(
      jobs.jobs, [&](const FoundJob& each) { return each.job.id == options.job; });
  if (options.job.empty() || is_there) return jobs;
  for (const Endpoint& leader : leaders_of(jobs)) {
    if (!options.as_json) {
      report_error(fmt::format("note: the cpprund here is a standby; asking the leader at {}",
                               to_string(leader)));
    }
    ControlOptions there = options;
    there.address = leader;
    FoundJobs its = find_jobs_there(there, environment);
    std::ranges::move(its.jobs, std::back_inserter(jobs.jobs));
    std::ranges::move(its.answers, std::back_inserter(jobs.answers));
    std::ranges::move(its.places, std::back_inserter(jobs.places));
  }
  return jobs;
}

Attempt<FoundJob> find_job(const ControlOptions& options, const Environment& environment) {
  return pick_job(find_jobs(options, environment), options, environment);
}

Attempt<FoundJob> pick_job(FoundJobs found, const ControlOptions& options,
                           const Environment& environment) {
  if (found.places.empty()) return tl::unexpected(none_found(environment));
  const bool has_answer = std::ranges::any_of(found.answers, &SeenAnswer::has_answered);
  if (!has_answer) {
    std::string why = "no cpprun or cpprund listed its jobs";
    // Without --json, a warning has told the reason.
    if (options.as_json && !found.answers.empty()) why += ": " + found.answers.front().text;
    return tl::unexpected(unreachable(why));
  }
  std::vector<KnownJob> known;
  for (const auto& each : found.jobs) known.push_back({each.job.id, each.place.text()});
  const auto silent = silent_endpoints(found);
  const bool is_beginning = reads_only(options.kind) && !options.whole_name;
  const auto match = is_beginning ? NameMatch::prefix : NameMatch::whole;
  const auto chosen = choose_job(known, options.job, match, silent);
  if (chosen) return std::move(found.jobs[*chosen]);
  const NoJob& none = chosen.error();
  return tl::unexpected(
      Setback{.sentence = none.sentence,
              .code = none.is_unknown ? control_code::unreachable : control_code::refused,
              .hint = none.hint});
}

std::vector<FoundDaemon> find_daemons(const FoundJobs& found) {
  const auto places = answered_endpoints(found);
  const auto answers = ask_all(places, {.target = "/api/v1/daemon"}, bounds::ask_timeout);
  std::vector<FoundDaemon> daemons;
  for (std::size_t at = 0; at < answers.size(); ++at) {
    // A cpprun replies that it is not a daemon.
    if (!answers[at] || answers[at]->status != status_ok) continue;
    auto view = daemon_view(answers[at]->body);
    if (view) daemons.push_back({*std::move(view), places[at], answers[at]->body});
  }
  return daemons;
}

bool is_led_by_one_of(const std::vector<FoundDaemon>& daemons, const FoundDaemon& standby) {
  const std::string& place = standby.view.leader_address;
  return !standby.view.leads && !place.empty() &&
         std::ranges::any_of(daemons, [&](const FoundDaemon& each) {
           return each.view.leads && each.view.place == place;
         });
}

Attempt<std::string> body_of(const ControlEndpoint& place, const http::Question& question) {
  auto answer = ask(place, question);
  if (!answer) return tl::unexpected(unreachable(answer.error().reason));
  if (answer->status != status_ok) return tl::unexpected(Setback{error_in(answer->body)});
  return std::move(answer->body);
}

Attempt<JobDetails> details_of(const FoundJob& found) {
  auto text = body_of(found.place, {.target = found.target()});
  if (!text) return tl::unexpected(text.error());
  auto job = job_view(*text);
  if (!job) return tl::unexpected(Setback{job.error().reason});
  // The coordinator's own address is not for other machines.
  if (found.place.address) job->page.clear();
  JobDetails details{.text = *std::move(text), .node_pages = {}, .job = *std::move(job)};
  std::string target = found.target() + "/nodes";
  while (true) {
    auto page = body_of(found.place, {.target = target});
    if (!page) return tl::unexpected(page.error());
    auto view = nodes_view(*page);
    if (!view) return tl::unexpected(Setback{view.error().reason});
    details.node_pages.push_back(*std::move(page));
    std::ranges::move(view->nodes, std::back_inserter(details.nodes));
    // An empty page is the last one, even if the peer sends a cursor.
    if (!view->next || view->nodes.empty()) return details;
    target = fmt::format("{}/nodes?after={}", found.target(), escaped(*view->next));
  }
}

}  // namespace cpprun::io

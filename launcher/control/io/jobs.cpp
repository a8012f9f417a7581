// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/io/jobs.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "launcher/control/daemon_view_json.h"
#include "launcher/control/io/console.h"
#include "launcher/control/job_choice.h"
#include "proto/bounds.h"
#include "rendezvous/client/io/link_security.h"
#include "rendezvous/io/secret_file.h"
#include "rendezvous/status/door_places.h"

namespace cpprun::io {

namespace {

constexpr const char* jobs_target = "/api/v1/jobs";
// For all pages of one list, from the first question on.
constexpr Duration pages_patience = 6 * bounds::ask_patience;

// Where nobody is found, where was looked.
std::string nobody_found(const Environment& environment) {
  std::string folders;
  for (const auto& each : searched_door_folders(environment, ::geteuid())) {
    folders += (folders.empty() ? "" : ", ") + each.path();
  }
  return fmt::format(
      "no cpprun or cpprund of uid {} runs on this machine (looked in {}); one that hosts its "
      "job's meeting elsewhere is asked there, or with --address HOST:PORT",
      ::geteuid(), folders);
}

Setback unreachable(const std::string& sentence) {
  return {.sentence = sentence, .code = control_code::unreachable};
}

// Of this machine's sockets the kernel says whose they are; at an address both sides prove that
// they hold the secret, where this user has one.
Result<Found> places_of(const Wish& wish, const Environment& environment) {
  if (!wish.address) return find_places(environment, wish.of_all_users);
  auto secrets = find_secrets(wish.secret_file, environment);
  if (!secrets) return tl::unexpected<Error>(secrets.error());
  // Nor has any other process of this user a look at it, or a core file.
  if (!secrets->empty()) (void)::prctl(PR_SET_DUMPABLE, 0);
  auto secure = LinkSecurity(*std::move(secrets)).for_dialing();
  if (!secure) return tl::unexpected<Error>(secure.error());
  return Found{.places = {{.door = {}, .address = wish.address, .secure = *std::move(secure)}},
               .troubles = {}};
}

// Takes in what that place has answered: some of its jobs, or why there are none. The job behind
// which there are more; nothing: these were the last.
std::optional<std::string> take_page(const Wish& wish, const Place& place,
                                     const Result<Answer>& answer, FoundJobs& jobs) {
  std::string why;
  std::optional<std::string> next;
  if (!answer) {
    why = answer.error().reason;
  } else if (answer->status != status_ok) {
    why = fmt::format("{} refuses: {}", place.text(), error_in(answer->body));
  } else if (auto seen = jobs_view(answer->body); !seen) {
    why = fmt::format("{}: {}", place.text(), seen.error().reason);
  } else {
    if (!seen->jobs.empty()) next = std::move(seen->next);
    for (auto& job : seen->jobs) jobs.jobs.push_back({std::move(job), place});
  }
  const bool has_answered = why.empty();
  if (!has_answered && !wish.as_json) complain("warning: " + why);
  jobs.answers.push_back({.place = place.text(),
                          .text = has_answered ? answer->body : why,
                          .has_answered = has_answered});
  return next;
}

FoundJobs find_jobs_there(const Wish& wish, const Environment& environment) {
  const auto looked = places_of(wish, environment);
  if (!looked) {
    const std::string& why = looked.error().reason;
    if (!wish.as_json) complain("warning: " + why);
    const Place place{.door = {}, .address = wish.address};
    return {.jobs = {}, .answers = {{place.text(), why, false}}, .places = {place}};
  }
  const Found& found = *looked;
  const auto deadline = std::chrono::steady_clock::now() + pages_patience;
  const auto answers = ask_all(found.places, {.target = jobs_target}, bounds::ask_patience);
  FoundJobs jobs{.jobs = {}, .answers = {}, .places = found.places};
  for (std::size_t at = 0; at < answers.size(); ++at) {
    const Place& place = found.places[at];
    auto next = take_page(wish, place, answers[at], jobs);
    while (next) {
      if (std::chrono::steady_clock::now() >= deadline) {
        const auto why = fmt::format("{}: not all jobs were listed within {} s", place.text(),
                                     in_seconds(pages_patience));
        if (!wish.as_json) complain("warning: " + why);
        jobs.answers.push_back({.place = place.text(), .text = why, .has_answered = false});
        break;
      }
      const auto target = fmt::format("{}?after={}", jobs_target, escaped(*next));
      auto behind = take_page(wish, place, ask(place, {.target = target}), jobs);
      // Pages come in the order of names; whatever else somebody says, this comes to its end.
      next = behind > next ? std::move(behind) : std::nullopt;
    }
  }
  return jobs;
}

// Where the cpprunds are that lead those that stand by there, and were not asked.
std::vector<Endpoint> leaders_of(const FoundJobs& found) {
  std::vector<Endpoint> leaders;
  const auto daemons = find_daemons(found);
  for (const FoundDaemon& each : daemons) {
    const auto leader = parse_endpoint(each.view.leader_place, 0);
    if (each.view.leads || !leader || leader->port == 0) continue;
    const bool was_asked = is_led_by_one_of(daemons, each) ||
                           std::ranges::any_of(found.places, [&](const Place& place) {
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
  complain("error: " + setback.sentence, setback.hint);
  return setback.code;
}

std::string FoundJob::target() const {
  return fmt::format("{}/{}", jobs_target, escaped(job.id));
}

std::vector<std::string> silent_places(const FoundJobs& found) {
  std::vector<std::string> silent;
  for (const auto& each : found.answers) {
    if (!each.has_answered) silent.push_back(each.place);
  }
  return silent;
}

FoundJobs find_jobs(const Wish& wish, const Environment& environment) {
  FoundJobs jobs = find_jobs_there(wish, environment);
  const bool is_there =
      std::ranges::any_of(jobs.jobs, [&](const FoundJob& each) { return each.job.id == wish.job; });
  if (wish.job.empty() || is_there) return jobs;
  for (const Endpoint& leader : leaders_of(jobs)) {
    if (!wish.as_json) {
      complain(fmt::format("note: the cpprund here is a standby; asking the leader at {}",
                           to_string(leader)));
    }
    Wish there = wish;
    there.address = leader;
    FoundJobs its = find_jobs_there(there, environment);
    std::ranges::move(its.jobs, std::back_inserter(jobs.jobs));
    std::ranges::move(its.answers, std::back_inserter(jobs.answers));
    std::ranges::move(its.places, std::back_inserter(jobs.places));
  }
  return jobs;
}

Attempt<FoundJob> find_job(const Wish& wish, const Environment& environment) {
  return pick_job(find_jobs(wish, environment), wish, environment);
}

Attempt<FoundJob> pick_job(FoundJobs found, const Wish& wish, const Environment& environment) {
  if (found.places.empty()) return tl::unexpected(unreachable(nobody_found(environment)));
  const bool has_answer = std::ranges::any_of(found.answers, &SeenAnswer::has_answered);
  if (!has_answer) return tl::unexpected(unreachable("nobody has shown a job"));
  std::vector<KnownJob> known;
  for (const auto& each : found.jobs) known.push_back({each.job.id, each.place.text()});
  const auto silent = silent_places(found);
  const bool is_beginning = reads_only(wish.verb) && !wish.whole_name;
  const auto match = is_beginning ? NameMatch::prefix : NameMatch::whole;
  const auto chosen = choose_job(known, wish.job, match, silent);
  if (chosen) return std::move(found.jobs[*chosen]);
  const NoJob& none = chosen.error();
  return tl::unexpected(
      Setback{.sentence = none.sentence,
              .code = none.is_unknown ? control_code::unreachable : control_code::refused,
              .hint = none.hint});
}

std::vector<FoundDaemon> find_daemons(const FoundJobs& found) {
  std::vector<Place> places;
  for (const Place& each : found.places) {
    const bool has_answered = std::ranges::any_of(found.answers, [&](const SeenAnswer& answer) {
      return answer.has_answered && answer.place == each.text();
    });
    if (has_answered) places.push_back(each);
  }
  const auto answers = ask_all(places, {.target = "/api/v1/daemon"}, bounds::ask_patience);
  std::vector<FoundDaemon> daemons;
  for (std::size_t at = 0; at < answers.size(); ++at) {
    // A cpprun says that it is none.
    if (!answers[at] || answers[at]->status != status_ok) continue;
    auto view = daemon_view(answers[at]->body);
    if (view) daemons.push_back({*std::move(view), places[at], answers[at]->body});
  }
  return daemons;
}

bool is_led_by_one_of(const std::vector<FoundDaemon>& daemons, const FoundDaemon& standby) {
  const std::string& place = standby.view.leader_place;
  return !standby.view.leads && !place.empty() &&
         std::ranges::any_of(daemons, [&](const FoundDaemon& each) {
           return each.view.leads && each.view.place == place;
         });
}

Attempt<std::string> body_of(const Place& place, const http::Question& question) {
  auto answer = ask(place, question);
  if (!answer) return tl::unexpected(unreachable(answer.error().reason));
  if (answer->status != status_ok) return tl::unexpected(Setback{error_in(answer->body)});
  return std::move(answer->body);
}

Attempt<std::vector<std::string>> node_pages(const FoundJob& job) {
  std::vector<std::string> pages;
  std::string target = job.target() + "/nodes";
  while (true) {
    auto page = body_of(job.place, {.target = target});
    if (!page) return tl::unexpected(page.error());
    const auto view = nodes_view(*page);
    if (!view) return tl::unexpected(Setback{view.error().reason});
    pages.push_back(std::move(*page));
    // A page that is empty has nothing behind it, whatever it says.
    if (!view->next || view->nodes.empty()) return pages;
    target = fmt::format("{}/nodes?after={}", job.target(), escaped(*view->next));
  }
}

}  // namespace cpprun::io

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/io/commands.h"

#include <algorithm>
#include <vector>

#include "launcher/cli/rules_file.h"
#include "launcher/control/failure_story.h"
#include "launcher/control/io/console.h"
#include "launcher/control/io/doctor_visit.h"
#include "launcher/control/io/jobs.h"
#include "launcher/control/io/live_view.h"
#include "launcher/control/io/orders.h"
#include "launcher/control/io/secrets.h"
#include "launcher/control/io/status.h"
#include "launcher/control/io/watch.h"
#include "launcher/control/overview.h"
#include "launcher/control/policy_replay.h"
#include "launcher/control/policy_trace_json.h"
#include "launcher/plan/io/host.h"
#include "proto/bounds.h"
#include "proto/text.h"

namespace cpprun::io {

namespace {

constexpr std::size_t trace_bytes_max = 256U << 20;  // some half a million events

int list(const Wish& wish, const Environment& environment) {
  const FoundJobs found = find_jobs(wish, environment);
  const bool is_silent =
      !found.places.empty() && std::ranges::none_of(found.answers, &SeenAnswer::has_answered);
  const int code = is_silent ? control_code::unreachable : control_code::done;
  if (wish.as_json) {
    print(list_json(found.answers));
    return code;
  }
  if (wish.names_alone) {
    for (const auto& each : found.jobs) print(plain_line(each.job.id) + "\n");
    return code;
  }
  if (found.jobs.empty()) {
    if (!is_silent) complain("no job runs here");
    return code;
  }
  std::vector<SeenJob> jobs;
  for (const auto& each : found.jobs) jobs.push_back({each.job, each.place.text()});
  print(list_text(jobs, canvas_of_stdout(environment)));
  return code;
}

int show_report(const Wish& wish, const Environment& environment) {
  const auto found = find_job(wish, environment);
  if (!found) return give_up(found.error());
  const auto details = body_of(found->place, {.target = found->target()});
  if (!details) return give_up(details.error());
  const auto job = job_view(*details);
  if (!job) return give_up({job.error().reason});
  print(wish.as_json ? *details : failure_story(*job, canvas_of_stdout(environment)));
  return control_code::done;
}

int simulate_policy(const Wish& wish, const Environment& environment) {
  const auto policy = read_text_file(wish.subject, bounds::config_file_bytes_max);
  if (!policy) return give_up({wish.subject + ": " + policy.error().reason, control_code::misuse});
  const auto trace = read_text_file(wish.trace, trace_bytes_max);
  if (!trace) return give_up({wish.trace + ": " + trace.error().reason, control_code::misuse});
  const auto file = read_rules_file(wish.subject, *policy);
  for (const std::string& mistake : file.mistakes) complain("error: " + mistake);
  if (!file.mistakes.empty()) return control_code::misuse;
  const auto history = read_policy_trace(*trace, wish.job);
  if (!history) return give_up({wish.trace + ": " + history.error().reason, control_code::misuse});
  const PolicyReplay played = replay(file.rules, *history);
  print(wish.as_json ? replay_json(played) : replay_text(played, canvas_of_stdout(environment)));
  return control_code::done;
}

}  // namespace

int run_control(const Wish& wish, const Environment& environment) {
  switch (wish.verb) {
    case Verb::list:
      return list(wish, environment);
    case Verb::top:
      if (!wish.as_json) return show_top(wish, environment);
      return show_status(wish, environment);
    case Verb::status:
      return show_status(wish, environment);
    case Verb::report:
      return show_report(wish, environment);
    case Verb::events:
      return show_events(wish, environment);
    case Verb::wait:
      return wait_for_end(wish, environment);
    case Verb::stop:
    case Verb::restart:
    case Verb::save:
    case Verb::drain:
    case Verb::exclude:
    case Verb::include:
    case Verb::forget:
    case Verb::handover:
      return give_order(wish, environment);
    case Verb::simulate:
      return simulate_policy(wish, environment);
    case Verb::keygen:
      return make_secret(wish, environment);
    case Verb::token:
      return print_token(wish, environment);
    case Verb::doctor:
      return examine(wish, environment);
  }
  return control_code::misuse;
}

}  // namespace cpprun::io

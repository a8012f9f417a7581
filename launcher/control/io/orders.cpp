// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/io/orders.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/control/io/console.h"
#include "launcher/control/io/jobs.h"
#include "launcher/control/job_choice.h"
#include "proto/text.h"

namespace cpprun::io {

namespace {

// As the address has it; only those that are orders have one.
std::string_view name_of(Verb verb) {
  switch (verb) {
    case Verb::stop:
      return "stop";
    case Verb::restart:
      return "restart";
    case Verb::save:
      return "save";
    case Verb::drain:
      return "drain";
    case Verb::exclude:
      return "exclude";
    case Verb::include:
      return "include";
    case Verb::forget:
      return "forget";
    case Verb::handover:
      return "handover";
    case Verb::list:
    case Verb::status:
    case Verb::top:
    case Verb::events:
    case Verb::report:
    case Verb::wait:
    case Verb::simulate:
    case Verb::keygen:
    case Verb::token:
    case Verb::doctor:
      break;
  }
  return "";
}

bool is_about_hosts(Verb verb) {
  return verb == Verb::exclude || verb == Verb::include;
}

Attempt<std::string> order(const Place& place, const std::string& target, const Wish& wish) {
  auto body =
      body_of(place, {.method = http::Method::post, .target = target, .body = order_json(wish)});
  if (!body) return tl::unexpected(body.error());
  return said_in(*body);
}

int tell(const Attempt<std::string>& said, const Wish& wish) {
  if (!said) return give_up(said.error());
  print(wish.as_json ? said_json(*said) : plain_line(*said) + "\n");
  return control_code::done;
}

// The program that is meant may be one of those that do not respond.
Setback cannot_tell_program(const std::vector<std::string>& silent) {
  return {.sentence = fmt::format("cannot tell which program is meant: no response from {}",
                                  plain_line(fmt::format("{}", fmt::join(silent, ", ")))),
          .code = control_code::unreachable,
          .hint = "choose where to ask with --address"};
}

// Whoever has answered, with what they host.
std::vector<KnownPlace> known_places(const FoundJobs& found) {
  std::vector<KnownPlace> known;
  for (const auto& each : found.places) {
    const auto has_answered = [&](const SeenAnswer& answer) {
      return answer.has_answered && answer.place == each.text();
    };
    if (std::ranges::none_of(found.answers, has_answered)) continue;
    known.push_back({.place = each.text(), .jobs = {}});
    for (const auto& job : found.jobs) {
      if (job.place.text() == each.text()) known.back().jobs.push_back(job.job.id);
    }
  }
  return known;
}

int order_everybody(const Wish& wish, const std::vector<Place>& places, const std::string& target) {
  int code = control_code::unreachable;
  for (const auto& place : places) {
    const int own = tell(order(place, target, wish), wish);
    // It is done where one of them has done it.
    if (own == control_code::done || code == control_code::unreachable) code = own;
  }
  return code;
}

// Those that stand by for one that is here do what that one does.
void leave_out_standbys(FoundJobs& found) {
  const auto daemons = find_daemons(found);
  for (const FoundDaemon& each : daemons) {
    if (!is_led_by_one_of(daemons, each)) continue;
    std::erase_if(found.places,
                  [&](const Place& place) { return place.text() == each.place.text(); });
  }
}

// A host is no job's own: where several programs host jobs here, it has to be said who is meant.
int order_about_host(const Wish& wish, const Environment& environment) {
  const auto target = fmt::format("/api/v1/hosts/{}/{}", escaped(wish.subject), name_of(wish.verb));
  if (!wish.job.empty()) {
    const auto chosen = find_job(wish, environment);
    if (!chosen) return tell(tl::unexpected(chosen.error()), wish);
    auto said = order(chosen->place, target, wish);
    if (!said && said.error().sentence.ends_with("takes no \"job\"")) {
      said.error().hint = fmt::format(
          "the program at {} is older and knows only all of its jobs: leave out --job and give "
          "--address",
          chosen->place.text());
    }
    return tell(said, wish);
  }
  FoundJobs found = find_jobs(wish, environment);
  leave_out_standbys(found);
  const auto known = known_places(found);
  const auto silent = silent_places(found);
  if (!known.empty() && !silent.empty() && !wish.to_all) {
    return tell(tl::unexpected(cannot_tell_program(silent)), wish);
  }
  if (known.empty()) {
    const auto nobody = find_job(wish, environment);
    return tell(tl::unexpected(nobody ? Setback{} : nobody.error()), wish);
  }
  if (known.size() > 1 && !wish.to_all) {
    return tell(tl::unexpected(Setback{which_place(known)}), wish);
  }
  return order_everybody(wish, found.places, target);
}

// The cpprund that is meant: the only one here, or the only one that leads.
Attempt<Place> daemon_to_hand_over(const Wish& wish, const Environment& environment) {
  const FoundJobs found = find_jobs(wish, environment);
  // Whoever has an address is asked there, and says itself what is wrong with it.
  if (wish.address) return found.places.front();
  const auto silent = silent_places(found);
  if (!found.places.empty() && !silent.empty()) return tl::unexpected(cannot_tell_program(silent));
  std::vector<FoundDaemon> daemons = find_daemons(found);
  if (daemons.size() > 1) {
    std::erase_if(daemons, [](const FoundDaemon& each) { return !each.view.leads; });
  }
  if (daemons.size() == 1) return daemons.front().place;
  if (daemons.empty()) {
    return tl::unexpected(Setback{
        found.places.empty()
            ? "no cpprund of this user runs on this machine: say with --address HOST:PORT where "
              "the one is met that leads"
            : "no cpprund that leads runs on this machine, and what a cpprun hosts is handed over "
              "to nobody: say with --address HOST:PORT where the one is met that leads"});
  }
  std::string places;
  for (const auto& each : daemons) {
    places += (places.empty() ? "" : ", ") + plain_line(each.place.text());
  }
  return tl::unexpected(Setback{fmt::format(
      "{} cpprunds lead here, say with --address which one is meant: {}", daemons.size(), places)});
}

}  // namespace

int give_order(const Wish& wish, const Environment& environment) {
  if (wish.verb == Verb::handover) {
    const auto place = daemon_to_hand_over(wish, environment);
    if (!place) return tell(tl::unexpected(place.error()), wish);
    return tell(order(*place, "/api/v1/daemon/handover", wish), wish);
  }
  if (is_about_hosts(wish.verb)) return order_about_host(wish, environment);
  const auto chosen = find_job(wish, environment);
  if (!chosen) return tell(tl::unexpected(chosen.error()), wish);
  const auto target = fmt::format("{}/{}", chosen->target(), name_of(wish.verb));
  return tell(order(chosen->place, target, wish), wish);
}

}  // namespace cpprun::io

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/control/io/orders.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "launcher/control/io/console.h"
#include "launcher/control/io/jobs.h"
#include "launcher/control/job_choice.h"
#include "proto/plain_text.h"

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
    case Verb::list:
    case Verb::status:
    case Verb::top:
    case Verb::events:
    case Verb::report:
    case Verb::wait:
    case Verb::simulate:
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
  if (!said) {
    complain(said.error().sentence);
    return said.error().code;
  }
  print(wish.as_json ? said_json(*said) : plain_line(*said) + "\n");
  return control_code::done;
}

// A host is nobody's alone: whoever hosts jobs here is told. It is done where one of them has
// done it.
int order_about_host(const Wish& wish, const Environment& environment) {
  const FoundJobs found = find_jobs(wish, environment);
  if (found.places.empty()) {
    const auto nobody = find_job(wish, environment);
    return tell(tl::unexpected(nobody ? Setback{} : nobody.error()), wish);
  }
  const auto target = fmt::format("/api/v1/hosts/{}/{}", escaped(wish.subject), name_of(wish.verb));
  int code = control_code::unreachable;
  for (const auto& place : found.places) {
    const auto said = order(place, target, wish);
    const int own = tell(said, wish);
    if (own == control_code::done || code == control_code::unreachable) code = own;
  }
  return code;
}

}  // namespace

int give_order(const Wish& wish, const Environment& environment) {
  if (is_about_hosts(wish.verb)) return order_about_host(wish, environment);
  const auto chosen = find_job(wish, environment);
  if (!chosen) return tell(tl::unexpected(chosen.error()), wish);
  const auto target = fmt::format("{}/{}", chosen->target(), name_of(wish.verb));
  return tell(order(chosen->place, target, wish), wish);
}

}  // namespace cpprun::io

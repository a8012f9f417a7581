// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/order_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "proto/bounds.h"
#include "proto/text.h"
#include "rendezvous/coordinator/order_json.h"
#include "rendezvous/status/status_json.h"

namespace cpprun {

namespace {

constexpr std::string_view orders_prefix = "/api/v1/jobs/";
constexpr std::string_view hosts_prefix = "/api/v1/hosts/";
constexpr std::string_view daemon_prefix = "/api/v1/daemon/";
constexpr std::string_view order_type = "application/json";
constexpr std::uint32_t root = 0;

http::Response order_refusal(unsigned status, const std::string& why) {
  return {.status = status, .type = std::string(order_type), .body = error_json(why)};
}

// What an address names: whom, as it was sent, and what is to become of them.
struct OrderAddress {
  std::string_view name;
  Order::Kind kind;
};

// Nothing where the address asks for nothing that is known here.
std::optional<OrderAddress> order_address(std::string_view target) {
  if (target.starts_with(daemon_prefix)) {
    const auto kind = order_kind(target.substr(daemon_prefix.size()));
    const bool is_known = kind && Order{.kind = *kind}.is_about_the_daemon();
    return is_known ? std::optional(OrderAddress{.name = {}, .kind = *kind}) : std::nullopt;
  }
  const bool is_of_job = target.starts_with(orders_prefix);
  if (!is_of_job && !target.starts_with(hosts_prefix)) return std::nullopt;
  target.remove_prefix(is_of_job ? orders_prefix.size() : hosts_prefix.size());
  const auto slash = target.find('/');
  if (slash == std::string_view::npos || slash == 0) return std::nullopt;
  const auto kind = order_kind(target.substr(slash + 1));
  if (!kind || Order{.kind = *kind}.is_about_the_daemon()) return std::nullopt;
  if (Order{.kind = *kind}.is_about_a_host() == is_of_job) return std::nullopt;
  return OrderAddress{.name = target.substr(0, slash), .kind = *kind};
}

// "application/json", perhaps with "; charset=utf-8" behind it.
bool is_json(std::string_view type) {
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  return is_alike(type, order_type);
}

std::string name_of(const Visitor& visitor) {
  if (visitor.credential) return visitor.credential->holder;
  return *visitor.user == root ? "uid 0 (root)" : fmt::format("uid {}", *visitor.user);
}

}  // namespace

bool is_order_path(std::string_view target) {
  return order_address(target).has_value();
}

std::variant<Order, http::Response> order_of(const http::Request& request, const Visitor& visitor,
                                             const OrderDesk& desk) {
  if (!request.host.empty() && !http::is_own_host(request.host, desk.names)) {
    return order_refusal(421,
                         fmt::format("this machine is not called \"{}\": ask for it by an address",
                                     plain_line(request.host, bounds::name_shown_bytes_max)));
  }
  if (request.has_origin) {
    return order_refusal(403, "a page in a browser may not ask for that: use a terminal");
  }
  const auto address = order_address(request.target);
  if (!address) {
    const bool is_near = request.target.starts_with(orders_prefix) ||
                         request.target.starts_with(hosts_prefix) ||
                         request.target.starts_with(daemon_prefix);
    if (is_near && !is_shown_path(request.target)) {
      return order_refusal(404,
                           "a job can be told to stop, restart, save, drain and forget, a host to "
                           "exclude and include, a daemon to handover: nothing else is known here");
    }
    return not_allowed(request);
  }
  if (const auto may = may_order(visitor, desk.own_user); !may) {
    return order_refusal(403, may.error().reason);
  }
  // Asked of an empty body as well: a page in a browser cannot say it unasked.
  if (!is_json(request.content_type)) {
    return order_refusal(415, "say Content-Type: application/json, with an empty body as well");
  }
  const auto name = unescaped(address->name);
  if (!name) return order_refusal(400, "a percent sign in the address is no escape");
  const auto plain = plain_line(*name, bounds::job_id_bytes_max + bounds::host_bytes_max);
  Order order{.kind = address->kind, .by = name_of(visitor)};
  (order.is_about_a_host() ? order.whom : order.job) = plain;
  if (const auto read = read_order(request.body, order); !read) {
    return order_refusal(400, read.error().reason);
  }
  return order;
}

std::optional<http::Response> objection_of_owners(const Order& order, const Visitor& visitor,
                                                  const Coordinator& coordinator) {
  if (!visitor.credential || !visitor.credential->owner) return std::nullopt;
  if (order.is_about_a_host() && order.job.empty()) {
    return order_refusal(403, "hosts are everybody's: the secret of \"admin\" is asked for");
  }
  if (order.is_about_the_daemon()) {
    return order_refusal(403,
                         "who leads everybody's jobs is for whoever holds the secret of \"admin\"");
  }
  if (coordinator.owner_of(order.job) == visitor.credential->owner) return std::nullopt;
  return order_refusal(404, fmt::format("no job \"{}\" is known here",
                                        plain_line(order.job, bounds::name_shown_bytes_max)));
}

http::Response answer_to(const OrderOutcome& outcome) {
  http::Response response{.type = std::string(order_type), .body = outcome_json(outcome)};
  switch (outcome.kind) {
    case OrderOutcome::Kind::done:
      break;
    case OrderOutcome::Kind::malformed:
      response.status = 400;
      break;
    case OrderOutcome::Kind::unknown:
      response.status = 404;
      break;
    case OrderOutcome::Kind::not_now:
      response.status = 409;
      break;
  }
  return response;
}

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Which POST asks a coordinator for what (docs/operating.md). Pure: a request and who makes it go
// in; an order comes out, or the refusal.

#include <cstdint>
#include <string_view>
#include <variant>

#include "proto/http/session.h"
#include "rendezvous/coordinator/coordinator.h"
#include "rendezvous/coordinator/status_routes.h"
#include "rendezvous/job/order.h"
#include "rendezvous/status/status_access.h"

namespace cpprun {

// Whether something is asked for there, which a GET does not show.
bool is_order_path(std::string_view target);

// Who asks, and by which names this machine may be asked for; `own_user` runs this program.
struct OrderDesk {
  const HostNames& names;
  std::uint32_t own_user = 0;
};
std::variant<Order, http::Response> order_of(const http::Request& request, const Visitor& visitor,
                                             const OrderDesk& desk);

// Whoever holds the secret of one owner among several has no say in others' jobs, nor learns
// whether there are any, nor about hosts; nothing: it may.
std::optional<http::Response> objection_of_owners(const Order& order, const Visitor& visitor,
                                                  const Coordinator& coordinator);

http::Response answer_to(const OrderOutcome& outcome);

}  // namespace cpprun

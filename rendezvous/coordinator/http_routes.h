// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What an HTTP request means to a coordinator (docs/operating.md): which address shows what, which
// POST asks for what, and what its token is good for.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proto/clock.h"
#include "proto/http/session.h"
#include "proto/result.h"
#include "proto/secure/tls.h"
#include "proto/secure/token.h"
#include "rendezvous/coordinator/coordinator.h"
#include "rendezvous/job/order.h"
#include "rendezvous/status/snapshot.h"
#include "rendezvous/status/status_access.h"

namespace cpprun {

// Which address shows what of a coordinator (docs/operating.md). Pure: a request and the time go
// in, an answer comes out, and nothing is remembered.

// Whether it was asked for by a name of this machine, and not by that of a stranger's page.
bool is_for_us(const HostNames& names, const http::Request& request);

// With an owner, of whom others' jobs are hidden. `daemon`: which this is; nothing: it is a cpprun.
http::Response answer(const Coordinator& coordinator, const HostNames& names, const Moment& moment,
                      const http::Request& request, const std::optional<std::string>& owner = {},
                      const std::optional<DaemonSnapshot>& daemon = {});

// 405, with the methods that are known at that address.
http::Response not_allowed(const http::Request& request);
// Whether a GET shows something there, where that exists.
bool is_shown_path(std::string_view target);

// All addresses that show something, as docs/openapi.json names them: "/api/v1/jobs/{id}".
std::vector<std::string_view> status_routes();

// Whose figures are looked at by asking for that address; nothing: nobody's.
std::optional<Coordinator::LookedAt> looked_at(const http::Request& request);

// "a/b" of "a%2Fb"; nothing where a percent sign is no escape.
std::optional<std::string> unescaped(std::string_view text);

// Which POST asks a coordinator for what (docs/operating.md). Pure: a request and who makes it go
// in; an order comes out, or the refusal.

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

// What a request shows of a secret: "Authorization: Bearer" and a token (proto/secure/token.h).

// What a token has to be good for so that its holder may ask that. A path of one job is about that
// job; all others are about all jobs.
struct WantedToken {
  TokenPurpose purpose = TokenPurpose::read;
  std::string job = {};
  friend bool operator==(const WantedToken&, const WantedToken&) = default;
};
WantedToken token_wanted_for(const http::Request& request);

// Whose a secret is, by its id.
struct Holder {
  std::string owner = {};
  bool sees_all = true;  // everybody's jobs, and not only that owner's
  friend bool operator==(const Holder&, const Holder&) = default;
};
// Where that is null, all secrets are one owner's.
using HolderOf = std::function<Holder(const std::string& secret_id)>;
Holder holder_of(const HolderOf& holder_of, const std::string& secret_id);

// Or why it is not good for that; a clause for whoever has shown it.
Result<Credential> credential_of(const http::Request& request, const SecureContext& secure,
                                 WallTime now, const HolderOf& whose = nullptr);
// Of somebody who holds the secret itself, from that address.
Credential credential_of(const std::string& secret_id, const std::string& address,
                         const HolderOf& whose);

}  // namespace cpprun

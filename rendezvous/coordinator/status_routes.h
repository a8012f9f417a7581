// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Which address shows what of a coordinator (docs/operating.md). Pure: a request and the time go
// in, an answer comes out, and nothing is remembered.

#include <string>
#include <string_view>
#include <vector>

#include "proto/http/session.h"
#include "rendezvous/coordinator/coordinator.h"
#include "rendezvous/status/snapshot.h"
#include "rendezvous/status/status_access.h"

namespace cpprun {

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

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The HTTP interface of a coordinator (docs/http-api.md): which paths show what, which POST
// requests are commands, and what a token permits. All functions here are pure: they depend only on
// their arguments and keep no state.

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
#include "rendezvous/job/operator_command.h"
#include "rendezvous/status/snapshot.h"
#include "rendezvous/status/status_access.h"
#include "rendezvous/status/status_json.h"

namespace cpprun {

// Whether the request's Host is a name of this machine. If not, another site's page may have sent
// it.
bool is_for_us(const HostNames& names, const http::Request& request);

// With `owner`, the jobs of other owners are hidden. `daemon` describes this daemon; nothing in a
// cpprun.
http::Response answer(const Coordinator& coordinator, const HostNames& names,
                      const ClockPair& moment, const http::Request& request,
                      const std::optional<std::string>& owner = {},
                      const std::optional<DaemonSnapshot>& daemon = {}, const Viewer& viewer = {});

// 405, with the methods that the path supports.
http::Response not_allowed(const http::Request& request);
// Whether a GET is defined for that path. The job in it may not exist.
bool is_shown_path(std::string_view target);

// All paths that a GET is defined for, as docs/openapi.json lists them: "/api/v1/jobs/{id}".
std::vector<std::string_view> status_routes();

// The jobs whose worker statistics this request reads. Nothing if it reads none.
std::optional<Coordinator::LookedAt> looked_at(const http::Request& request);

// "a/b" for "a%2Fb". Nothing if a percent sign does not start a valid escape.
std::optional<std::string> unescaped(std::string_view text);

// Whether the path takes commands, that is, POST.
bool is_command_path(std::string_view target);

// What is needed to check a command: the names of this machine, and the user who runs this program.
struct CommandDesk {
  const HostNames& names;
  std::uint32_t own_user = 0;
};
std::variant<OperatorCommand, http::Response> order_of(const http::Request& request,
                                                       const StatusClient& client,
                                                       const CommandDesk& desk);

// Checks whether a client that holds the secret of one owner among several may give this command.
// It may not control other owners' jobs, or learn whether they exist, and it may not control hosts
// or the daemon. Nothing: the command is allowed.
std::optional<http::Response> objection_of_owners(const OperatorCommand& command,
                                                  const StatusClient& client,
                                                  const Coordinator& coordinator);

http::Response answer_to(const CommandResult& outcome);

// The JSON body of a command's request, and of its reply. read_command() fills in `command`, whose
// kind is set, from the body, which may be empty. Fails with a sentence that names the error.
Result<void> read_command(const std::string& body, OperatorCommand& command);
// {"said": …} if the command succeeded, {"error": …} if not.
std::string outcome_json(const CommandResult& outcome);

// What a token must permit for this request. A path that names one job requires a token for that
// job, all others a token for all jobs.
struct WantedToken {
  TokenPurpose purpose = TokenPurpose::read;
  std::string job = {};
  friend bool operator==(const WantedToken&, const WantedToken&) = default;
};
WantedToken token_wanted_for(const http::Request& request);

// The owner of a secret, looked up by the secret's id.
struct Holder {
  std::string owner = {};
  bool sees_all = true;  // has access to all owners' jobs
  friend bool operator==(const Holder&, const Holder&) = default;
};
// If null, all secrets belong to the same owner.
using HolderOf = std::function<Holder(const std::string& secret_id)>;
Holder holder_of(const HolderOf& holder_of, const std::string& secret_id);

// Checks the bearer token of a request (proto/secure/token.h). If it does not permit the request,
// returns the reason, as a clause for the client.
Result<Credential> credential_of(const http::Request& request, const SecureContext& secure,
                                 WallTime now, const HolderOf& whose = nullptr);
// For a client at `address` that holds the secret itself.
Credential credential_of(const std::string& secret_id, const std::string& address,
                         const HolderOf& whose);

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fuzz/etcd_targets.h"

#include <algorithm>
#include <array>
#include <string>

#include "proto/http/client.h"
#include "rendezvous/etcd/bounds.h"
#include "rendezvous/etcd/codec.h"
#include "rendezvous/etcd/election_view.h"
#include "rendezvous/etcd/etcd_request.h"
#include "tests/fuzz/targets.h"

namespace cpprun::fuzz {

namespace {

constexpr std::size_t small_body = 64 * 1024;

// The whole answer, or nothing; read in pieces of that size.
std::optional<std::pair<unsigned, std::string>> reply_of(std::string_view bytes,
                                                         std::size_t piece) {
  http::ReplyReader reader(small_body);
  while (!bytes.empty() && !reader.is_whole()) {
    const auto some = bytes.substr(0, piece);
    bytes.remove_prefix(some.size());
    if (const auto heard = reader.hear(some); !heard) {
      promise(!heard.error().reason.empty(), "a refusal without a reason");
      return std::nullopt;
    }
  }
  if (!reader.is_whole()) {
    if (const auto ended = reader.end(); !ended) {
      promise(!ended.error().reason.empty(), "an end without a reason");
      return std::nullopt;
    }
  }
  if (!bytes.empty()) return std::nullopt;  // There was no request for these bytes.
  std::string body = reader.take_body();
  promise(body.size() <= small_body, "a body over its bound");
  return std::pair{reader.status(), std::move(body)};
}

void look_at(const ElectionKeys& keys, const etcd::Decided& decided) {
  promise(decided.outcomes.size() == 3, "another number of outcomes than was asked for");
  const auto view = read_view(keys, decided.header, decided.outcomes);
  if (!view) return promise(!view.error().reason.empty(), "a view without a reason");
  if (view->leader) promise(!view->leader->card.name.empty(), "a leader without a name");
  if (!view->synced) return;
  promise(view->synced->names.size() <= bounds::election_synced_max, "more synced than may be");
  promise(wait_to_run(*view, "me", std::chrono::seconds(2)) <=
              Duration{bounds::election_ttl_max} + std::chrono::seconds(2),
          "a wait without an end");
}

}  // namespace

// The first byte selects the request.
void etcd_answers(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto keys = *ElectionKeys::make("test");
  const std::array<etcd::Request, 6> requests = {etcd::Transaction{.success = view_reads(keys)},
                                                 etcd::Grant{7, 2},
                                                 etcd::KeepAlive{7},
                                                 etcd::Revoke{7},
                                                 etcd::Authenticate{"me", "x"},
                                                 etcd::GetAlarms{}};
  const auto& request = requests[static_cast<unsigned char>(bytes.front()) % requests.size()];
  bytes.remove_prefix(1);
  const auto reply = reply_of(bytes, bytes.size());
  const auto again = reply_of(bytes, 3);
  promise(reply.has_value() == again.has_value() && (!reply || reply->second == again->second),
          "how bytes are cut makes a difference");
  if (!reply) return;
  const auto heard = etcd::read_answer(request, reply->first, reply->second);
  if (!heard) {
    promise(!heard.error().said.empty(), "a failure without a text");
    promise(!etcd::describe(heard.error(), {}).empty(), "a failure without a message");
    return;
  }
  if (const auto* const decided = std::get_if<etcd::Decided>(&*heard)) look_at(keys, *decided);
  if (const auto* const granted = std::get_if<etcd::Granted>(&*heard)) {
    promise(granted->lease == 7 && granted->ttl_seconds > 0, "a lease that was not asked for");
  }
}

void etcd_endpoints(std::string_view bytes) {
  const auto endpoints = parse_etcd_endpoints(bytes);
  if (!endpoints) return promise(!endpoints.error().reason.empty(), "an error without a reason");
  promise(!endpoints->empty(), "no endpoint, and no error");
  for (const EtcdEndpoint& each : *endpoints) {
    const auto again = parse_etcd_endpoints(to_string(each));
    promise(again && again->size() == 1 && again->front() == each, "it is not read as written");
  }
}

}  // namespace cpprun::fuzz

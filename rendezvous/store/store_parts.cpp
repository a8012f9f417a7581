// SPDX-License-Identifier: BSD-3-Clause
// A request of very many keys, carried out in parts.

#include <algorithm>
#include <utility>

#include "proto/bounds.h"
#include "proto/c10d/encoder.h"
#include "rendezvous/store/store.h"

namespace cpprun {

std::string Store::begin_parts(ConnectionId from, const c10d::Request& request,
                               const Origin& origin, Actions& actions) {
  abandon_wait(from, actions);
  origin_ = origin;
  std::string objection = objection_to(request);
  origin_ = {};
  return objection;
}

bool Store::has_all(std::span<const c10d::Bytes> keys) const {
  return std::ranges::all_of(keys, [this](c10d::Bytes key) { return exists(key); });
}

void Store::show_part(std::span<const c10d::Bytes> keys, Pieces& reply) const {
  for (const c10d::Bytes key : keys) {
    if (reply.size() > bounds::store_reply_bytes_max) return;
    if (const StoredValue* value = value_of(key)) {
      value->show(reply);
    } else {
      c10d::encode(c10d::Value{}, reply.copied);
    }
  }
}

void Store::wait_for_part(ConnectionId from, std::span<const c10d::Bytes> keys,
                          const Origin& origin) {
  origin_ = origin;
  for (const c10d::Bytes key : keys) {
    if (!exists(key)) park(from, key, false);
  }
  origin_ = {};
}

}  // namespace cpprun

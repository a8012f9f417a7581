// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A store and three clients, for tests.

#include <string>
#include <vector>

#include "rendezvous/store/store.h"

namespace cpprun {

inline constexpr ConnectionId alice{1};
inline constexpr ConnectionId bob{2};
inline constexpr ConnectionId carol{3};

// Applies a request and copies its results, so that a test can examine them later.
class StoreWorld {
 public:
  Actions apply(ConnectionId from, const c10d::Request& request) {
    Actions actions;
    store.apply(from, request, actions);
    return actions;
  }
  std::string get(const std::string& key) {
    const Actions actions = apply(alice, c10d::Get{key});
    return std::string(std::get<c10d::Value>(std::get<Answer>(actions.at(0)).reply).value);
  }
  std::int64_t key_count() {
    const Actions actions = apply(alice, c10d::GetNumKeys{});
    return std::get<c10d::Number>(std::get<Answer>(actions.at(0)).reply).number;
  }
  Actions wait(ConnectionId from, std::vector<c10d::Bytes> keys) {
    return apply(from, c10d::Wait{keys});
  }
  Actions forget(ConnectionId connection) {
    Actions actions;
    store.forget(connection, actions);
    return actions;
  }
  Store store;
};

inline Actions only(ConnectionId to, const c10d::Reply& reply) {
  return {Answer{to, reply}};
}
inline const Actions nothing;

}  // namespace cpprun

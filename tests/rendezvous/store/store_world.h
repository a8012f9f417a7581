#pragma once
// A store and three who use it, for tests.

#include <string>
#include <vector>

#include "rendezvous/store/store.h"

namespace cpprun {

inline constexpr ConnectionId alice{1};
inline constexpr ConnectionId bob{2};
inline constexpr ConnectionId carol{3};

// Applies a request and copies what comes out, so that a test can look at it at leisure.
class StoreWorld {
 public:
  Effects apply(ConnectionId from, const c10d::Request& request) {
    Effects effects;
    store.apply(from, request, effects);
    return effects;
  }
  std::string get(const std::string& key) {
    const Effects effects = apply(alice, c10d::Get{key});
    return std::string(std::get<c10d::Value>(std::get<Answer>(effects.at(0)).reply).value);
  }
  std::int64_t key_count() {
    const Effects effects = apply(alice, c10d::GetNumKeys{});
    return std::get<c10d::Number>(std::get<Answer>(effects.at(0)).reply).number;
  }
  Effects wait(ConnectionId from, std::vector<c10d::Bytes> keys) {
    return apply(from, c10d::Wait{keys});
  }
  Effects forget(ConnectionId connection) {
    Effects effects;
    store.forget(connection, effects);
    return effects;
  }
  Store store;
};

inline Effects only(ConnectionId to, const c10d::Reply& reply) {
  return {Answer{to, reply}};
}
inline const Effects nothing;

}  // namespace cpprun

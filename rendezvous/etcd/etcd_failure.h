// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What can go wrong when etcd is asked, told apart by what follows from it.

#include <string>
#include <string_view>

#include "rendezvous/etcd/etcd_endpoint.h"

namespace cpprun::etcd {

struct Failure {
  enum class Kind {
    unreachable,      // nothing was asked: no connection, or no TLS
    silent,           // it was asked, and has not answered: what was asked for may happen still
    unavailable,      // it says that it cannot, or not now; that may happen still as well
    no_space,         // it takes nothing more before somebody has made room
    unauthenticated,  // the token is old, or there is none
    forbidden,        // the user may not, or is not who he says
    no_such_lease,
    lease_exists,
    no_authentication,  // it was asked for a token and gives none out
    rejected,           // it does not want to, and would not the next time
    nonsense            // what answers is no etcd
  };
  Kind kind = Kind::unreachable;
  std::string said = {};  // a clause: its words, or what we have seen of it
  friend bool operator==(const Failure&, const Failure&) = default;
};

// Whether another member may do better.
bool is_of_this_member(Failure::Kind kind);
// Whether what was asked for may have been done, or may be done yet.
bool may_have_happened(Failure::Kind kind);

// What gRPC's code and etcd's words for it mean.
Failure::Kind kind_of(int code, std::string_view words);

// "etcd at http://a:2379 has no room left (…): compact …". A sentence for people: who was asked,
// what was answered, and what would help.
std::string describe(const Failure& failure, const EtcdEndpoint& endpoint);

}  // namespace cpprun::etcd

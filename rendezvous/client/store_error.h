// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Why a call of a store client or an embedded store failed, as a code and as a clause.

#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "proto/result.h"

namespace cpprun {

// The numbers are part of the C interface (CPPRUN_STORE_TIMEOUT, …): they never change.
enum class StoreErrorCode : int {
  timeout = 1,       // the call's time is over
  refused = 2,       // nothing listens there, or the server rejected the client
  closed = 3,        // the connection has ended
  interrupted = 4,   // by StoreClient::interrupt()
  bad_argument = 5,  // the caller's mistake
  too_large = 6,     // a key, value or request beyond the protocol's limits
  version = 7,       // of a later header
  protocol = 8,      // the peer is not a store, or its reply is invalid
  unreachable = 9,   // the name or address leads nowhere
  no_memory = 10,
  forked = 11,       // belongs to the parent process
  system = 12,       // the operating system rejected a call
  unsupported = 13,  // needs something that this build or this machine lacks
};

struct StoreError : Error {
  StoreErrorCode code = StoreErrorCode::system;
  friend bool operator==(const StoreError&, const StoreError&) = default;
};

template <class T>
using StoreResult = tl::expected<T, StoreError>;

inline tl::unexpected<StoreError> failure(StoreErrorCode code, std::string reason) {
  return tl::unexpected<StoreError>(StoreError{{std::move(reason)}, code});
}

}  // namespace cpprun

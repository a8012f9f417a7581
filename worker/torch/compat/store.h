// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// LibTorch 2.6 cannot create a second client of a store; there the client is shared.

#include <c10/util/intrusive_ptr.h>

namespace cpprun::compat {

template <class Store>
c10::intrusive_ptr<Store> own_client(const c10::intrusive_ptr<Store>& store) {
  if constexpr (requires { store->clone(); }) {
    return store->clone();
  } else {
    return store;
  }
}

}  // namespace cpprun::compat

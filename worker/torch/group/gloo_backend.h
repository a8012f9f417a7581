// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The only way to create a gloo backend. In its own file because only it may include the gloo shim.

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <string>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace cpprun {

struct GlooTimeouts {
  std::chrono::milliseconds join;        // until every other rank of the group is connected
  std::chrono::milliseconds collective;  // for each operation afterwards
};

// Connects to every other rank of the group. Throws LibTorch's exception on failure. `interfaces`
// is the value of GLOO_SOCKET_IFNAME: the network interface to use, as in Python.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int size,
                                                    const GlooTimeouts& timeouts,
                                                    const std::string& interfaces = {});

}  // namespace cpprun

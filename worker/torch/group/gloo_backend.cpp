// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/gloo_backend.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>

#include "worker/torch/compat/versions.h"

namespace cpprun {

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int size,
                                                    const GlooTimeouts& timeouts,
                                                    const std::string& interfaces) {
  // The constructor throws if its options hold no devices.
  auto options = compat::gloo_options<c10d::ProcessGroupGloo>(timeouts.join, interfaces);
  auto backend = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, std::move(options));
  backend->setTimeout(timeouts.collective);
  return backend;
}

}  // namespace cpprun

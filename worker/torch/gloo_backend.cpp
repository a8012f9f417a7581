#include "worker/torch/gloo_backend.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace cpprun {

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int size,
                                                    const GlooTimeouts& timeouts) {
  // create() would leave the devices empty and the constructor would refuse that.
  auto options = c10d::ProcessGroupGloo::Options::create_default(timeouts.join);
  auto backend = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, std::move(options));
  backend->setTimeout(timeouts.collective);
  return backend;
}

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/gloo_backend.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

using namespace std::chrono_literals;

TEST_CASE("a gloo backend is created without gloo's headers") {
  const auto backend = cpprun::make_gloo_backend(c10::make_intrusive<c10d::HashStore>(), 0, 1,
                                                 {.join = 1min, .collective = 1min});
  CHECK(backend->getSize() == 1);
  CHECK(backend->getBackendName() == "gloo");
}

TEST_CASE("a missing interface is an error at once") {
  REQUIRE(::setenv("GLOO_SOCKET_IFNAME", "nope0", 1) == 0);
  std::string reason;
  try {
    cpprun::make_gloo_backend(c10::make_intrusive<c10d::HashStore>(), 0, 1,
                              {.join = 1min, .collective = 1min});
  } catch (const std::exception& error) {
    reason = error.what();
  }
  REQUIRE(::unsetenv("GLOO_SOCKET_IFNAME") == 0);
  CHECK(reason.find("nope0") != std::string::npos);
}

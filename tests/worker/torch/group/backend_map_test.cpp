// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/backend_map.h"

#include <doctest/doctest.h>

using namespace cpprun;

namespace {

std::string reason_of(const std::string& text,
                      const CarriersBuilt& built = {.nccl = true, .mpi = true}) {
  const auto map = parse_backend(text, built);
  return map ? "accepted" : map.error().reason;
}

}  // namespace

TEST_CASE("one name serves the same devices as in Python") {
  CHECK(to_text(*parse_backend("gloo", {})) == "cpu:gloo,cuda:gloo");
  CHECK(to_text(*parse_backend("nccl", {.nccl = true})) == "cuda:nccl");
  CHECK(to_text(*parse_backend("cpu:gloo,cuda:nccl", {.nccl = true})) == "cpu:gloo,cuda:nccl");
}

TEST_CASE("mpi carries the CPU's tensors, beside nccl for a GPU's if requested") {
  CHECK(to_text(*parse_backend("mpi", {.mpi = true})) == "cpu:mpi");
  const auto both = parse_backend("cpu:mpi,cuda:nccl", {.nccl = true, .mpi = true});
  CHECK(to_text(*both) == "cpu:mpi,cuda:nccl");
  CHECK(main_carrier(*both) == Carrier::nccl);
  CHECK(main_carrier(*parse_backend("mpi", {.mpi = true})) == Carrier::mpi);
  CHECK(main_carrier(*parse_backend("", {})) == Carrier::gloo);
  CHECK(reason_of("cuda:mpi").find("mpi cannot use GPU tensors") != std::string::npos);
  CHECK(reason_of("mpi", {}) ==
        "backend mpi needs MPI, but cpprun was built without it: install an MPI with its headers "
        "(Debian: libopenmpi-dev) and build cpprun again, or use gloo");
}

TEST_CASE("joining over gloo and mpi means that all ranks have joined, over nccl it does not") {
  CHECK(meets_by_joining(*parse_backend("gloo", {}), /*gloo_lazy=*/false));
  CHECK(!meets_by_joining(*parse_backend("gloo", {}), /*gloo_lazy=*/true));
  CHECK(meets_by_joining(*parse_backend("mpi", {.mpi = true}), /*gloo_lazy=*/true));
  CHECK(!meets_by_joining(*parse_backend("nccl", {.nccl = true}), /*gloo_lazy=*/false));
}

TEST_CASE("by default a GPU's tensors use nccl if LibTorch has it") {
  CHECK(to_text(*parse_backend("", {.nccl = true})) == "cpu:gloo,cuda:nccl");
  CHECK(to_text(*parse_backend("", {})) == "cpu:gloo,cuda:gloo");
}

TEST_CASE("a backend is created once, under the name of its first device") {
  CHECK(plan_backends(*parse_backend("gloo", {.nccl = true})) ==
        std::vector<BackendPlan>{{Carrier::gloo, {"cpu", "cuda"}}});
  CHECK(plan_backends(*parse_backend("cpu:gloo,cuda:nccl", {.nccl = true})) ==
        std::vector<BackendPlan>{{Carrier::gloo, {"cpu"}}, {Carrier::nccl, {"cuda"}}});
}

TEST_CASE("an unavailable backend is rejected with the valid ones") {
  CHECK(reason_of("ucc") == "unknown backend ucc: use gloo, nccl, mpi or cpu:gloo,cuda:nccl");
  CHECK(reason_of("nccl", {}) ==
        "backend nccl needs nccl, and this LibTorch was built without CUDA: use gloo, or build "
        "against a LibTorch for CUDA");
  CHECK(reason_of("cpu:nccl").find("nccl cannot use CPU tensors") != std::string::npos);
  CHECK(reason_of("cpu:gloo,cpu:gloo").find("lists cpu twice") != std::string::npos);
  CHECK(reason_of("cpu:gloo,nccl").find("mixes the two forms") != std::string::npos);
  CHECK(reason_of("tpu:gloo").find("neither cpu nor cuda") != std::string::npos);
  CHECK(reason_of("cpu:").find("unknown backend") != std::string::npos);
}

// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/backend_map.h"

#include <doctest/doctest.h>

using namespace cpprun;

namespace {

std::string reason_of(const std::string& text, bool nccl_built = true) {
  const auto map = parse_backend(text, nccl_built);
  return map ? "accepted" : map.error().reason;
}

}  // namespace

TEST_CASE("one name serves the devices that Python gives it") {
  CHECK(to_text(*parse_backend("gloo", false)) == "cpu:gloo,cuda:gloo");
  CHECK(to_text(*parse_backend("nccl", true)) == "cuda:nccl");
  CHECK(to_text(*parse_backend("cpu:gloo,cuda:nccl", true)) == "cpu:gloo,cuda:nccl");
}

TEST_CASE("by default a GPU's tensors go over nccl where LibTorch has it") {
  CHECK(to_text(*parse_backend("", true)) == "cpu:gloo,cuda:nccl");
  CHECK(to_text(*parse_backend("", false)) == "cpu:gloo,cuda:gloo");
}

TEST_CASE("a carrier is made once, under the name of its first device") {
  CHECK(plan_backends(*parse_backend("gloo", true)) ==
        std::vector<BackendPlan>{{Carrier::gloo, {"cpu", "cuda"}}});
  CHECK(plan_backends(*parse_backend("cpu:gloo,cuda:nccl", true)) ==
        std::vector<BackendPlan>{{Carrier::gloo, {"cpu"}}, {Carrier::nccl, {"cuda"}}});
}

TEST_CASE("a backend that cannot be had is refused with what would be right") {
  CHECK(reason_of("mpi") ==
        "backend mpi is none of gloo and nccl: write gloo, nccl or cpu:gloo,cuda:nccl");
  CHECK(reason_of("nccl", false) ==
        "backend nccl needs nccl, and this LibTorch was built without CUDA: use gloo, or build "
        "against a LibTorch for CUDA");
  CHECK(reason_of("cpu:nccl").find("nccl carries no tensors of the CPU") != std::string::npos);
  CHECK(reason_of("cpu:gloo,cpu:gloo").find("names cpu twice") != std::string::npos);
  CHECK(reason_of("cpu:gloo,nccl").find("mixes both forms") != std::string::npos);
  CHECK(reason_of("tpu:gloo").find("neither cpu nor cuda") != std::string::npos);
  CHECK(reason_of("cpu:").find("none of gloo and nccl") != std::string::npos);
}

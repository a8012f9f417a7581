// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/ddp/ddp_core.h"

// Before doctest, because LibTorch has a CHECK of its own.
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>

#include <doctest/doctest.h>

using namespace cpprun;

TEST_CASE("each tensor of a module is listed once, in order, sparse ones marked") {
  torch::nn::Sequential net;
  const torch::nn::Embedding table(torch::nn::EmbeddingOptions(4, 2).sparse(true));
  const torch::nn::BatchNorm1d norm(2);
  for (int i = 0; i < 2; ++i) {
    net->push_back(table);
    net->push_back(norm);
  }
  norm->weight.set_requires_grad(false);
  CHECK(describe_model(parameters_of(*net), buffers_of(*net)) ==
        std::vector<std::string>{
            "parameter 0.weight, Float [4, 2] on cpu, with sparse gradients",
            "parameter 1.weight, Float [2] on cpu, frozen", "parameter 1.bias, Float [2] on cpu",
            "buffer 1.running_mean, Float [2] on cpu", "buffer 1.running_var, Float [2] on cpu",
            "buffer 1.num_batches_tracked, Long [] on cpu"});
}

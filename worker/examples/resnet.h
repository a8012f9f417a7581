// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// ResNet-18 (He et al., "Deep Residual Learning for Image Recognition", 2015), with torchvision's
// module names, so that weight files are interchangeable. The batch normalisations are plain until
// convert_sync_batchnorm sets their group.

#include "worker/torch/ddp/sync_batch_norm.h"

#include <torch/torch.h>

#include <cstdint>

namespace cpprun::examples {

struct ResNetOptions {
  int classes = 10;
  int width = 64;           // channels of the first stage; the others have 2, 4 and 8 times as many
  bool small_stem = false;  // 3 x 3 without pooling, to keep detail in images of 32 x 32
};

inline torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out, int kernel, int stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

// Two convolutions with a shortcut.
struct BasicBlockImpl : torch::nn::Cloneable<BasicBlockImpl> {
  BasicBlockImpl(std::int64_t channels_in, std::int64_t channels_out, int first_stride)
      : in(channels_in), out(channels_out), stride(first_stride) {
    reset();
  }

  // Cloneable copies a module by a reset() and then a copy of the values.
  void reset() override {
    conv1 = register_module("conv1", convolution(in, out, 3, stride));
    bn1 = register_module("bn1", SyncBatchNorm(out));
    conv2 = register_module("conv2", convolution(out, out, 3, 1));
    bn2 = register_module("bn2", SyncBatchNorm(out));
    downsample = torch::nn::Sequential();
    if (stride == 1 && in == out) return;
    downsample->push_back(convolution(in, out, 1, stride));
    downsample->push_back(SyncBatchNorm(out));
    register_module("downsample", downsample);
  }

  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor shortcut = downsample->is_empty() ? x : downsample->forward(x);
    const torch::Tensor inner = torch::relu(bn1->forward(conv1->forward(x)));
    return torch::relu(bn2->forward(conv2->forward(inner)) + shortcut);
  }

  std::int64_t in, out;
  int stride;
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  SyncBatchNorm bn1{nullptr}, bn2{nullptr};
  torch::nn::Sequential downsample;
};
TORCH_MODULE(BasicBlock);

struct ResNet18Impl : torch::nn::Cloneable<ResNet18Impl> {
  explicit ResNet18Impl(const ResNetOptions& wanted = {}) : options(wanted) { reset(); }

  void reset() override {
    const std::int64_t width = options.width;
    conv1 = register_module(
        "conv1", options.small_stem ? convolution(3, width, 3, 1) : convolution(3, width, 7, 2));
    bn1 = register_module("bn1", SyncBatchNorm(width));
    add_stage("layer1", layer1, width, width, 1);
    add_stage("layer2", layer2, width, 2 * width, 2);
    add_stage("layer3", layer3, 2 * width, 4 * width, 2);
    add_stage("layer4", layer4, 4 * width, 8 * width, 2);
    fc = register_module("fc", torch::nn::Linear(8 * width, options.classes));
    // Like torchvision's initialisation: He's normal distribution by fan out.
    for (const auto& module : modules(/*include_self=*/false)) {
      if (auto* each = module->as<torch::nn::Conv2d>()) {
        torch::nn::init::kaiming_normal_(each->weight, 0.0, torch::kFanOut, torch::kReLU);
      }
    }
  }

  torch::Tensor forward(const torch::Tensor& images) {
    torch::Tensor x = torch::relu(bn1->forward(conv1->forward(images)));
    if (!options.small_stem) x = torch::max_pool2d(x, 3, 2, 1);
    x = layer4->forward(layer3->forward(layer2->forward(layer1->forward(x))));
    return fc->forward(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

  ResNetOptions options;
  torch::nn::Conv2d conv1{nullptr};
  SyncBatchNorm bn1{nullptr};
  torch::nn::Sequential layer1, layer2, layer3, layer4;
  torch::nn::Linear fc{nullptr};

 private:
  void add_stage(const char* name, torch::nn::Sequential& stage, std::int64_t in, std::int64_t out,
                 int stride) {
    stage = torch::nn::Sequential();
    stage->push_back(BasicBlock(in, out, stride));
    stage->push_back(BasicBlock(out, out, 1));
    register_module(name, stage);
  }
};
TORCH_MODULE(ResNet18);

}  // namespace cpprun::examples

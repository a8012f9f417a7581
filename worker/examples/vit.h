// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A vision transformer (Dosovitskiy et al., 2020): pre-norm blocks, a class token, learned
// positions. The defaults are ViT-Base/16 on images of 224 x 224.

#include <torch/torch.h>

#include <string>

namespace cpprun::examples {

struct VitOptions {
  int image_size = 224;
  int patch = 16;
  int dim = 768;
  int depth = 12;
  int heads = 12;
  int classes = 1000;
};

struct VitBlockImpl : torch::nn::Module {
  VitBlockImpl(int dim, int heads_) : heads(heads_) {
    norm1 = register_module("norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({dim})));
    qkv = register_module("qkv", torch::nn::Linear(dim, 3 * dim));
    proj = register_module("proj", torch::nn::Linear(dim, dim));
    norm2 = register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({dim})));
    up = register_module("up", torch::nn::Linear(dim, 4 * dim));
    down = register_module("down", torch::nn::Linear(4 * dim, dim));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = x + attention(norm1->forward(x));
    return x + apply(down, torch::gelu(apply(up, norm2->forward(x))));
  }

  // Like Python's Linear. The frontend's version adds the bias in a separate pass if the input has
  // more than two dimensions.
  static torch::Tensor apply(const torch::nn::Linear& layer, const torch::Tensor& x) {
    return at::linear(x, layer->weight, layer->bias);
  }

  torch::Tensor attention(const torch::Tensor& x) {
    const auto batch = x.size(0);
    const auto tokens = x.size(1);
    const auto dim = x.size(2);
    // [3, batch, heads, tokens, dim of a head]
    const auto split =
        apply(qkv, x).view({batch, tokens, 3, heads, dim / heads}).permute({2, 0, 3, 1, 4});
    // One unbind: three selections would have three gradients of the size of the whole.
    const auto parts = split.unbind();
    const auto mixed = at::scaled_dot_product_attention(parts[0], parts[1], parts[2]);
    return apply(proj, mixed.transpose(1, 2).reshape({batch, tokens, dim}));
  }

  int heads;
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear qkv{nullptr}, proj{nullptr}, up{nullptr}, down{nullptr};
};
TORCH_MODULE(VitBlock);

struct VitImpl : torch::nn::Module {
  explicit VitImpl(const VitOptions& options) {
    const int side = options.image_size / options.patch;
    embed = register_module(
        "embed",
        torch::nn::Conv2d(
            torch::nn::Conv2dOptions(3, options.dim, options.patch).stride(options.patch)));
    token = register_parameter("token", torch::zeros({1, 1, options.dim}));
    position =
        register_parameter("position", 0.02 * torch::randn({1, side * side + 1, options.dim}));
    for (int i = 0; i < options.depth; ++i) {
      blocks->push_back(VitBlock(options.dim, options.heads));
    }
    register_module("blocks", blocks);
    norm =
        register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({options.dim})));
    head = register_module("head", torch::nn::Linear(options.dim, options.classes));
  }

  torch::Tensor forward(const torch::Tensor& images) {
    auto x = embed->forward(images).flatten(2).transpose(1, 2);
    x = torch::cat({token.expand({x.size(0), -1, -1}), x}, 1) + position;
    x = blocks->forward(x);
    return head->forward(norm->forward(x).select(1, 0));
  }

  torch::Tensor token, position;
  torch::nn::Conv2d embed{nullptr};
  torch::nn::Sequential blocks;
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Vit);

}  // namespace cpprun::examples

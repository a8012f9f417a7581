// Trains a small convolutional network to read handwritten digits, on as many ranks as there are:
//
//   cpprun --standalone --nproc-per-node=2 ./digits
//
// The whole of distributed training in C++ is in train(): a process group, a wrapped model, a
// sampler that deals out the images, and a loop that looks like anybody's.

#include <fmt/format.h>
#include <torch/torch.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <numbers>

#include "worker/env/io/record.h"
#include "worker/env/io/stop_signal.h"
#include "worker/examples/digits_file.h"
#include "worker/examples/options.h"
#include "worker/torch/collectives.h"
#include "worker/torch/ddp.h"
#include "worker/torch/optim.h"
#include "worker/torch/sampler.h"

namespace {

using cpprun::examples::CommandLine;
using cpprun::examples::Digits;
using Clock = std::chrono::steady_clock;

struct Settings {
  int epochs = 20;
  int batch_size = 32;
  double lr = 0.05;
  int seed = 42;
  std::string data;
  int fail_at_epoch = 0;
  int fail_rank = 0;
};

struct ReaderImpl : torch::nn::Module {
  explicit ReaderImpl(int classes) {
    // One by one: C++ may construct the arguments of one call in any order, and with them the
    // random numbers they draw.
    body->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 3).padding(1).bias(false)));
    body->push_back(torch::nn::BatchNorm2d(16));
    body->push_back(torch::nn::ReLU());
    body->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 3).padding(1).bias(false)));
    body->push_back(torch::nn::BatchNorm2d(32));
    body->push_back(torch::nn::ReLU());
    body->push_back(torch::nn::MaxPool2d(2));
    body->push_back(torch::nn::Flatten());
    body->push_back(torch::nn::Linear(32 * 4 * 4, 64));
    body->push_back(torch::nn::ReLU());
    body->push_back(torch::nn::Linear(64, classes));
    register_module("body", body);
  }

  torch::Tensor forward(const torch::Tensor& images) { return body->forward(images); }

  torch::nn::Sequential body;
};
TORCH_MODULE(Reader);

struct Set {
  torch::Tensor images;
  torch::Tensor labels;
  std::int64_t size() const { return labels.size(0); }
};

// Every fifth image is held out.
constexpr std::int64_t held_out_every = 5;

Set select(const Digits& digits, bool held_out) {
  const torch::Tensor all = torch::arange(digits.count);
  const torch::Tensor is_held_out = all % held_out_every == held_out_every - 1;
  const torch::Tensor chosen =
      all.masked_select(held_out ? is_held_out : is_held_out.logical_not());
  const torch::Tensor pixels = torch::tensor(at::ArrayRef<std::uint8_t>(digits.pixels))
                                   .view({digits.count, 1, digits.rows, digits.columns});
  const torch::Tensor labels = torch::tensor(at::ArrayRef<std::uint8_t>(digits.labels));
  return {.images = pixels.index_select(0, chosen).to(torch::kFloat) / 8 - 1,
          .labels = labels.index_select(0, chosen).to(torch::kLong)};
}

struct EpochResult {
  double loss = 0;
  double images_per_second = 0;
};

using Model = cpprun::DistributedDataParallel<Reader>;

EpochResult train_epoch(Model& model, cpprun::FusedSgd& sgd, const Set& set,
                        const std::vector<std::int64_t>& indices, const Settings& settings,
                        const cpprun::ProcessGroup& group) {
  const auto start = Clock::now();
  model.module()->train();
  const torch::Tensor order = torch::tensor(indices, torch::kLong);
  double loss_sum = 0;
  for (const torch::Tensor& batch : order.split(settings.batch_size)) {
    const torch::Tensor output = model.forward(set.images.index_select(0, batch));
    const torch::Tensor loss =
        torch::nn::functional::cross_entropy(output, set.labels.index_select(0, batch));
    model.zero_grad();
    loss.backward();
    sgd.step();
    loss_sum += loss.item<double>() * static_cast<double>(batch.size(0));
  }
  const torch::Tensor totals =
      torch::tensor({loss_sum, static_cast<double>(indices.size())}, torch::kDouble);
  cpprun::all_reduce(totals, group);
  const std::chrono::duration<double> seconds = Clock::now() - start;
  const double images = totals[1].item<double>();
  return {.loss = totals[0].item<double>() / images, .images_per_second = images / seconds.count()};
}

// The share of held-out images that are read right. Every rank reads its part of them.
double accuracy(Model& model, const Set& set, const cpprun::ProcessGroup& group) {
  const torch::NoGradGuard no_grad;
  model.module()->eval();
  const torch::Tensor mine = torch::arange(group.rank(), set.size(), group.size());
  const torch::Tensor read = model.forward(set.images.index_select(0, mine)).argmax(1);
  const torch::Tensor right =
      read.eq(set.labels.index_select(0, mine)).sum().to(torch::kDouble).reshape({1});
  cpprun::all_reduce(right, group);
  return right.item<double>() / static_cast<double>(set.size());
}

// Half a cosine from the given rate to zero.
double rate_of(const Settings& settings, int epoch) {
  const double progress = static_cast<double>(epoch) / settings.epochs;
  return settings.lr * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

void fail_if_asked(const Settings& settings, const cpprun::Context& context, int epoch) {
  // Once only: after a restart the job is meant to come through.
  if (settings.fail_at_epoch != epoch || context.restart_count > 0) return;
  if (settings.fail_rank != context.rank.value) return;
  throw std::runtime_error(fmt::format("failing on purpose in epoch {} (--fail-at-epoch)", epoch));
}

// SIGTERM reaches the ranks at different moments; they have to stop at the same one.
bool anybody_stops(const cpprun::StopSignal& stop, const cpprun::ProcessGroup& group) {
  const torch::Tensor asked = torch::full({1}, stop.requested() ? 1 : 0, torch::kInt);
  cpprun::all_reduce(asked, group, cpprun::ReduceOp::max);
  return asked.item<int>() != 0;
}

int train(const cpprun::Context& context, const Settings& settings, const Digits& digits) {
  torch::manual_seed(static_cast<std::uint64_t>(settings.seed));
  const auto group = cpprun::init_process_group(context);
  // Only now: while it still waits for others, SIGTERM should simply end this rank.
  const cpprun::StopSignal stop;
  const Set training = select(digits, /*held_out=*/false);
  const Set held_out = select(digits, /*held_out=*/true);
  Model model(Reader(digits.classes), group);
  cpprun::FusedSgd sgd(
      model.parameters(),
      {.lr = settings.lr, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true});
  const cpprun::DistributedSampler sampler({.dataset_size = training.size(),
                                            .replicas = group.size(),
                                            .rank = group.rank(),
                                            .seed = static_cast<std::uint64_t>(settings.seed)});
  if (context.leads()) {
    fmt::print("digits: {} images to learn, {} held out, world size {}, seed {}\n", training.size(),
               held_out.size(), group.size(), settings.seed);
  }
  const auto start = Clock::now();
  double right = 0;
  for (int epoch = 1; epoch <= settings.epochs; ++epoch) {
    if (anybody_stops(stop, group)) {
      if (context.leads()) fmt::print("digits: asked to stop before epoch {}\n", epoch);
      return 0;
    }
    fail_if_asked(settings, context, epoch);
    sgd.set_lr(rate_of(settings, epoch - 1));
    const EpochResult result =
        train_epoch(model, sgd, training, sampler.indices(epoch), settings, group);
    right = accuracy(model, held_out, group);
    if (context.leads()) {
      fmt::print(
          "epoch {:2}/{}  loss {:.4f}  accuracy {:5.2f} %  {:6.0f} images/s  world size {}\n",
          epoch, settings.epochs, result.loss, 100 * right, result.images_per_second, group.size());
      std::fflush(stdout);
    }
  }
  const std::chrono::duration<double> seconds = Clock::now() - start;
  if (context.leads()) {
    fmt::print("digits: {:.2f} % of {} held-out images read right after {} epochs, {:.1f} s\n",
               100 * right, held_out.size(), settings.epochs, seconds.count());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  settings.data = cpprun::examples::find_digits();
  cpprun::examples::Options options(
      "digits: learns to read handwritten digits, alone or on many ranks (cpprun … ./digits).");
  options.number("epochs", settings.epochs, 1, 10000, "passes over the images");
  options.number("batch-size", settings.batch_size, 1, 100000, "images per step and rank");
  options.real("lr", settings.lr, 0, "learning rate at the start");
  options.number("seed", settings.seed, 0, 1 << 30, "of weights and order: same seed, same result");
  options.text("data", settings.data, "the file with the digits");
  options.number("fail-at-epoch", settings.fail_at_epoch, 0, 10000,
                 "throw in this epoch of the first attempt; 0: never");
  options.number("fail-rank", settings.fail_rank, 0, 1 << 30, "which rank does so");
  const auto command = options.parse(argc, argv);
  if (!command) {
    fmt::print(stderr, "digits: {}\n", command.error().reason);
    return 2;
  }
  if (*command == CommandLine::help) {
    fmt::print("{}", options.help());
    return 0;
  }
  return cpprun::run([&settings](const cpprun::Context& context) {
    if (settings.data.empty()) throw std::runtime_error("digits.bin was not found: give --data");
    const auto digits = cpprun::examples::read_digits(settings.data);
    if (!digits) throw std::runtime_error(digits.error().reason);
    return train(context, settings, *digits);
  });
}

// SPDX-License-Identifier: BSD-3-Clause
// ResNet-18 on CIFAR-10 with DistributedDataParallel, with the options of its Python original:
//
//   cpprun --nnodes=2 --node_rank=0 --master_addr=… --nproc_per_node=2 --max-restarts=3
//          ./resnet_cifar --data cifar-10-batches-bin --model_dir saved_models --resume
//
// Rank 0 evaluates and saves. If a rank dies, the steps since the last checkpoint are lost.

#include <fmt/format.h>
#include <torch/torch.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "worker/env/io/worker.h"
#include "worker/examples/command_line.h"
#include "worker/examples/resnet.h"
#include "worker/torch/collectives/collectives.h"
#include "worker/torch/data/image_files.h"
#include "worker/torch/data/sampler.h"
#include "worker/torch/ddp/ddp.h"
#include "worker/torch/ddp/sync_batch_norm.h"
#include "worker/torch/files/checkpoint.h"
#include "worker/torch/files/pth_file.h"
#include "worker/torch/group/device.h"
#include "worker/torch/optim/sgd.h"
#include "worker/torch/optim/training.h"

namespace {

using cpprun::examples::ResNet18;
using Clock = std::chrono::steady_clock;
using Model = cpprun::DistributedDataParallel<ResNet18>;

struct Settings {
  int num_epochs = 100;
  int batch_size = 256;
  double learning_rate = 0.1;
  int random_seed = 0;
  std::string model_dir = "saved_models";
  std::string model_filename = "resnet_distributed.pth";
  bool resume = false;
  std::string data = "cifar-10-batches-bin";
  int make_synthetic = 0;
  int width = 64;
  std::string augment = "on";
  bool sync_bn = false;
  bool save_each_rank = false;
  std::string initial;
  std::string device = "auto";
  std::string dtype = "fp32";
  int eval_every = 1;
  int save_every = 100;
  int threads = 1;
  int fail_at_step = 0;
  int fail_rank = 0;
  std::string init_method = "env://";
  std::string backend;
};

// State for the whole training.
struct Run {
  const Settings& settings;
  const cpprun::Context& context;
  const cpprun::ProcessGroup& group;
  const cpprun::StopSignal& stop;
  torch::Device device;
  cpprun::ImageSet training;
  cpprun::ImageSet held_out;
  Model& model;
  cpprun::FusedSgd& sgd;
  cpprun::Checkpoints checkpoints;
};

// The progress of the training, and the losses of the current epoch so far.
struct Course {
  cpprun::Progress progress{.epoch = 1};
  double loss_sum = 0;  // of this rank
  double images = 0;
};

// Normalises by the usual mean and deviation of each channel over CIFAR-10.
torch::Tensor normalised(const torch::Tensor& bytes, const torch::Device& device) {
  const auto mean = torch::tensor({0.4914F, 0.4822F, 0.4465F}).view({1, 3, 1, 1});
  const auto deviation = torch::tensor({0.2023F, 0.1994F, 0.2010F}).view({1, 3, 1, 1});
  return ((bytes.to(torch::kFloat) / 255 - mean) / deviation).to(device);
}

// A random crop of the image with a margin of four black pixels, mirrored half of the time. Uses
// the default random generator, which a checkpoint contains.
torch::Tensor augmented(const torch::Tensor& images) {
  constexpr int margin = 4;
  const std::int64_t side = images.size(2);
  const torch::Tensor padded = torch::constant_pad_nd(images, {margin, margin, margin, margin});
  const torch::Tensor shifts = torch::randint(2 * margin + 1, {images.size(0), 2}, torch::kLong);
  const torch::Tensor mirrored = torch::rand({images.size(0)}).lt(0.5);
  std::vector<torch::Tensor> cropped;
  for (std::int64_t i = 0; i < images.size(0); ++i) {
    const auto top = shifts[i][0].item<std::int64_t>();
    const auto left = shifts[i][1].item<std::int64_t>();
    const torch::Tensor crop = padded[i].narrow(1, top, side).narrow(2, left, side);
    cropped.push_back(mirrored[i].item<bool>() ? crop.flip(2) : crop);
  }
  return torch::stack(cropped);
}

// --- saving and resuming -------------------------------------------------------------------------

std::string model_path(const Settings& settings) {
  return (std::filesystem::path(settings.model_dir) / settings.model_filename).string();
}

void save(const Run& run, const Course& course) {
  cpprun::StateDict state;
  state.put("model", cpprun::state_of(*run.model.module()));
  state.put("optimizer", run.sgd.state());
  const torch::Tensor sums = torch::tensor({course.loss_sum, course.images}, torch::kDouble);
  cpprun::all_reduce(sums, run.group);
  state.set("loss_sum", sums[0].item<double>());
  state.set("images", sums[1].item<double>());
  run.checkpoints.save(course.progress, state, run.group);
}

// Saves the model alone, for evaluation in C++ or with torch.load.
void save_model(const Run& run) {
  const auto state = cpprun::state_of(*run.model.module());
  if (run.context.leads()) cpprun::save_pth(model_path(run.settings), state);
  if (!run.settings.save_each_rank) return;
  const auto name = fmt::format("rank{}-{}", run.context.rank.value, run.settings.model_filename);
  cpprun::save_pth((std::filesystem::path(run.settings.model_dir) / name).string(), state);
}

// Like the original: --resume starts from the newest checkpoint, and an empty directory is no
// error. So the first attempt and a restarted one have the same command line.
void load(Run& run, Course& course) {
  if (!run.settings.resume) {
    if (run.context.max_restarts > 0) {
      throw std::runtime_error(
          "the launcher restarts failed jobs (--max-restarts), so use --resume: without it, the "
          "next attempt could not load the checkpoints; --resume also works with an empty "
          "directory");
    }
    if (!run.checkpoints.any(run.group)) return;
    throw std::runtime_error(fmt::format(
        "\"{}\" contains checkpoints of an earlier run: use --resume to continue that run, or "
        "another --model_dir",
        run.settings.model_dir));
  }
  const auto found = run.checkpoints.load_newest(run.group);
  if (!found) return;
  cpprun::load_state(*run.model.module(), found->state.part("model"));
  run.sgd.load(found->state.part("optimizer"));
  course.progress = found->progress;
  // Sums over all ranks; only one rank may continue them.
  if (run.context.leads()) {
    course.loss_sum = found->state.real("loss_sum");
    course.images = found->state.real("images");
    for (const std::string& reason : found->passed_over) {
      fmt::print("resnet_cifar: skipped {}\n", reason);
    }
    fmt::print("resnet_cifar: resuming at step {}, epoch {}, after {} images of that epoch\n",
               course.progress.step, course.progress.epoch, course.progress.samples);
    std::fflush(stdout);
  }
}

// --- training ------------------------------------------------------------------------------------

// Only in the first attempt: the job should succeed after a restart.
void die_if_asked(const Run& run, std::int64_t step) {
  const Settings& settings = run.settings;
  if (settings.fail_at_step == step && run.context.restart_count == 0 &&
      settings.fail_rank == run.context.rank.value) {
    ::raise(SIGKILL);
  }
}

// SIGTERM reaches the ranks at different times, but they must stop at the same step.
bool any_stops(const Run& run) {
  const torch::Tensor asked = torch::full({1}, run.stop.requested() ? 1 : 0, torch::kInt);
  cpprun::all_reduce(asked, run.group, cpprun::ReduceOp::max);
  return asked.item<int>() != 0;
}

torch::Tensor loss_of(const Run& run, const torch::Tensor& images, const torch::Tensor& labels) {
  const cpprun::Autocast autocast(run.device.type(), torch::kBFloat16,
                                  run.settings.dtype == "bf16");
  return torch::nn::functional::cross_entropy(run.model.forward(images), labels);
}

void step(const Run& run, Course& course, const torch::Tensor& batch) {
  die_if_asked(run, course.progress.step + 1);
  const torch::Tensor bytes = run.training.images.index_select(0, batch);
  const torch::Tensor images =
      normalised(run.settings.augment == "on" ? augmented(bytes) : bytes, run.device);
  const torch::Tensor labels = run.training.labels.index_select(0, batch).to(run.device);
  const torch::Tensor loss = loss_of(run, images, labels);
  run.model.zero_grad();
  loss.backward();
  run.sgd.step();
  const auto count = static_cast<double>(batch.size(0));
  course.loss_sum += loss.item<double>() * count;
  course.images += count;
  ++course.progress.step;
  course.progress.samples += batch.size(0) * run.group.size();
}

// Trains the rest of the current epoch. Returns false if it stops early.
bool train_epoch(const Run& run, const cpprun::DistributedSampler& sampler, Course& course) {
  constexpr std::int64_t steps_between_questions = 5;
  run.model.module()->train();
  // Epochs count from 1 in output, and from 0 for the permutation, as in Python.
  const auto indices = sampler.indices(course.progress.epoch - 1, course.progress.samples);
  if (indices.empty()) return true;
  for (const torch::Tensor& batch :
       torch::tensor(indices, torch::kLong).split(run.settings.batch_size)) {
    step(run, course, batch);
    if (course.progress.step % run.settings.save_every == 0) save(run, course);
    if (course.progress.step % steps_between_questions == 0 && any_stops(run)) return false;
  }
  return true;
}

// On rank 0 only, with the unwrapped module: DDP's forward would wait for the other ranks.
double accuracy(const Run& run) {
  const torch::NoGradGuard no_grad;
  run.model.module()->eval();
  constexpr std::int64_t batch_size = 256;
  std::int64_t right = 0;
  for (std::int64_t at = 0; at < run.held_out.size(); at += batch_size) {
    const std::int64_t count = std::min(batch_size, run.held_out.size() - at);
    const torch::Tensor images = normalised(run.held_out.images.narrow(0, at, count), run.device);
    const torch::Tensor read = run.model.module()->forward(images).argmax(1).to(torch::kCPU);
    right += read.eq(run.held_out.labels.narrow(0, at, count)).sum().item<std::int64_t>();
  }
  return static_cast<double>(right) / static_cast<double>(run.held_out.size());
}

void end_epoch(const Run& run, Course& course) {
  const torch::Tensor sums = torch::tensor({course.loss_sum, course.images}, torch::kDouble);
  cpprun::all_reduce(sums, run.group);
  const std::int64_t epoch = course.progress.epoch;
  const bool last = epoch == run.settings.num_epochs;
  std::string words;
  if (last || epoch % run.settings.eval_every == 0) {
    if (run.context.leads()) words = fmt::format("  accuracy {:.2f} %", 100 * accuracy(run));
    save_model(run);
  }
  if (run.context.leads()) {
    fmt::print("epoch {}/{}  loss {:.6f}{}\n", epoch, run.settings.num_epochs,
               sums[0].item<double>() / sums[1].item<double>(), words);
    std::fflush(stdout);
  }
  course = {.progress = {.epoch = epoch + 1, .step = course.progress.step}};
}

torch::Device device_of(const Settings& settings, const cpprun::Context& context) {
  if (settings.device == "cpu") return {torch::kCPU};
  if (settings.device == "cuda") return cpprun::bind_cuda_device(context);
  return cpprun::default_device(context);
}

ResNet18 make_model(const Settings& settings, const cpprun::ProcessGroup& group,
                    const torch::Device& device) {
  torch::manual_seed(static_cast<std::uint64_t>(settings.random_seed));
  ResNet18 model(cpprun::examples::ResNetOptions{.width = settings.width});
  if (!settings.initial.empty()) {
    cpprun::load_state(*model, cpprun::state_dict_from(cpprun::load_pth(settings.initial)));
  }
  if (settings.sync_bn) cpprun::convert_sync_batchnorm(*model, group);
  model->to(device);
  return model;
}

// For machines that cannot download the original.
int make_data(const Settings& settings) {
  const int held_out = std::max(10, settings.make_synthetic / 5);
  cpprun::make_synthetic_cifar10(settings.data,
                                 {.training_images = settings.make_synthetic,
                                  .test_images = held_out,
                                  .seed = static_cast<std::uint64_t>(settings.random_seed)});
  fmt::print("resnet_cifar: wrote {} training images and {} held-out images to {}\n",
             settings.make_synthetic, held_out, settings.data);
  return 0;
}

int train(const cpprun::Context& context, const Settings& settings) {
  at::set_num_threads(settings.threads);
  const torch::Device device = device_of(settings, context);
  const auto group = cpprun::init_process_group(
      context, {.backend = settings.backend, .init_method = settings.init_method});
  // Only now: while this rank waits for the others, SIGTERM should just end it.
  const cpprun::StopSignal stop;
  // Without a shared directory, each machine has its own.
  if (context.leads() || settings.save_each_rank) {
    std::filesystem::create_directories(settings.model_dir);
  }
  Model model(make_model(settings, group, device), group);
  cpprun::FusedSgd sgd(model.parameters(),
                       {.lr = settings.learning_rate, .momentum = 0.9, .weight_decay = 1e-5});
  Run run{settings,
          context,
          group,
          stop,
          device,
          cpprun::read_cifar10(settings.data, cpprun::Part::training),
          cpprun::read_cifar10(settings.data, cpprun::Part::test),
          model,
          sgd,
          cpprun::Checkpoints(settings.model_dir)};
  const cpprun::DistributedSampler sampler(
      {.dataset_size = run.training.size(),
       .replicas = group.size(),
       .rank = group.rank(),
       .seed = static_cast<std::uint64_t>(settings.random_seed)});
  // Each rank augments differently.
  torch::manual_seed(static_cast<std::uint64_t>(settings.random_seed + group.rank()));
  if (context.leads()) {
    fmt::print("resnet_cifar: {} training images, {} held out, world size {}, on {}\n",
               run.training.size(), run.held_out.size(), group.size(), device.str());
  }
  Course course;
  load(run, course);
  while (course.progress.epoch <= settings.num_epochs) {
    if (!train_epoch(run, sampler, course)) {
      save(run, course);
      if (context.leads()) {
        fmt::print("resnet_cifar: stopped by a signal after step {} (saved)\n",
                   course.progress.step);
      }
      return 0;
    }
    end_epoch(run, course);
  }
  save_model(run);
  save(run, course);
  // The others stay until rank 0 has written everything.
  cpprun::barrier(group);
  return 0;
}

void declare(Settings& settings, cpprun::examples::CommandLine& app) {
  app.add("--num-epochs", settings.num_epochs, "number of epochs", {{0, 1 << 20}});
  app.add("--batch-size", settings.batch_size, "images per step and rank", {{1, 1 << 20}});
  app.add("--learning-rate", settings.learning_rate, "learning rate of SGD with momentum 0.9",
          {{0.0, 1e6}});
  app.add("--random-seed", settings.random_seed, "random seed of weights and image order",
          {{0, 1 << 30}});
  app.add("--model-dir", settings.model_dir, "directory for the model and the checkpoints");
  app.add("--model-filename", settings.model_filename,
          "file name of the model in --model-dir, for torch.load");
  app.add_flag("--resume", settings.resume, "resume from the newest checkpoint, if any");
  app.add("--data", settings.data, "directory with data_batch_1.bin … and test_batch.bin");
  app.add("--make-synthetic", settings.make_synthetic,
          "write this many synthetic images to --data, and exit", {{0, 50000}});
  app.add("--initial", settings.initial, "start with the weights in this .pth file");
  app.add("--width", settings.width, "channels of the first stage", {{1, 4096}});
  app.add("--augment", settings.augment, "augment with random crops and flips", {"on", "off"});
  app.add_flag("--sync-bn", settings.sync_bn, "compute batch statistics over all ranks");
  app.add_flag("--save-each-rank", settings.save_each_rank, "save the model of every rank too");
  app.add("--device", settings.device, "device to compute on", {"auto", "cpu", "cuda"});
  app.add("--dtype", settings.dtype, "type to compute in; bf16: automatic mixed precision",
          {"fp32", "bf16"});
  app.add("--eval-every", settings.eval_every, "epochs between evaluations", {{1, 1 << 20}});
  app.add("--save-every", settings.save_every, "steps between checkpoints", {{1, 1 << 20}});
  app.add("--threads", settings.threads, "CPU threads per rank", {{1, 4096}});
  app.add("--fail-at-step", settings.fail_at_step,
          "kill this process at this step of the first attempt; 0: never", {{0, 1 << 30}});
  app.add("--fail-rank", settings.fail_rank, "the rank that fails", {{0, 1 << 30}});
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  cpprun::examples::CommandLine app(
      "resnet_cifar: ResNet-18 on CIFAR-10 with DDP (cpprun … ./resnet_cifar).");
  declare(settings, app);
  app.add_meeting(settings.init_method);
  app.add_backend(settings.backend);
  if (const auto code = app.parse_or_exit(argc, argv)) return *code;
  return cpprun::run([&settings](const cpprun::Context& context) {
    return settings.make_synthetic > 0 ? make_data(settings) : train(context, settings);
  });
}

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/settings.h"

#include <doctest/doctest.h>

#include "tests/launcher/cli/cli_probe.h"

namespace worker_settings_test {

using namespace cpprun;
using namespace cpprun::probe;

TEST_CASE("workers are counted by number, processors or devices") {
  CHECK(good({"--nproc-per-node=cpu", "x"}).local_world_size == 12);
  CHECK(good({"--nproc-per-node=auto", "x"}).local_world_size == 12);
  CHECK(diagnostics({"--nproc-per-node=gpu", "x"})
            .front()
            .starts_with("--nproc-per-node=gpu: no GPU on this machine"));
  CHECK(diagnostics({"--nproc-per-node=0", "x"}).size() == 1);
}

TEST_CASE("flags without effect are accepted, checked, and noted") {
  CHECK(good({"--monitor-interval=5", "--start-method=fork", "x"}).notes.size() == 2);
  CHECK(diagnostics({"--monitor-interval=0", "--start-method=magic", "x"}).size() == 2);
  CHECK(good({"--exit-barrier-timeout=60", "x"}).notes ==
        Words{"--exit-barrier-timeout has no effect: cpprun jobs end without a barrier"});
  CHECK(diagnostics({"--exit_barrier_timeout=-1", "x"}).size() == 1);
}

TEST_CASE("a run path is a file for Python, and wins over --no-python") {
  const auto config = good({"--run-path", "--no-python", "/a/script"});
  CHECK(config.program.kind == ProgramKind::python);
  CHECK(config.notes ==
        Words{"--run-path: every worker runs the script in its own Python process"});
}

TEST_CASE("a virtual local rank needs a device for every worker, if devices are listed") {
  CHECK(good({"--virtual-local-rank", "--nproc-per-node=2", "x"}, {{"CUDA_VISIBLE_DEVICES", "5,7"}})
            .virtual_local_rank);
  CHECK(good({"--virtual-local-rank", "--nproc-per-node=9", "x"}).virtual_local_rank);
  CHECK(diagnostics({"--virtual-local-rank", "--nproc-per-node=3", "x"},
                    {{"CUDA_VISIBLE_DEVICES", "5,7"}}) ==
        Words{"--virtual-local-rank gives each of 3 workers its own device, but "
              "CUDA_VISIBLE_DEVICES=5,7 lists only 2"});
  CHECK(diagnostics({"--virtual-local-rank", "--nproc-per-node=3", "x"},
                    {{"CUDA_VISIBLE_DEVICES", "5,7,8"}, {"HIP_VISIBLE_DEVICES", "1,2"}}) ==
        Words{"--virtual-local-rank gives each of 3 workers its own device, but "
              "HIP_VISIBLE_DEVICES=1,2 lists only 2"});
}

TEST_CASE("a script of torch.distributed.launch gets its option, under the name it reads") {
  CHECK(good({"--pass-local-rank=local_rank", "x"}).local_rank_flag == "local_rank");
  CHECK(good({"--use-env", "x"}).local_rank_flag == std::nullopt);
  CHECK(diagnostics({"--pass-local-rank=--local-rank", "--use-env", "x"}) ==
        Words{"--pass-local-rank and --use-env exclude each other\n  hint: use only one",
              "--pass-local-rank=--local-rank is not an option name without dashes, such as "
              "local-rank or local_rank"});
}

TEST_CASE("devices that cpprun cannot count are rejected") {
  CHECK(diagnostics({"--nproc-per-node=xpu", "x"}) ==
        Words{"--nproc-per-node=xpu: cpprun counts NVIDIA devices only\n  hint: use a number"});
}

TEST_CASE("processors are bound in one of torchrun's four ways") {
  CHECK(good({"--numa-binding=core-complex", "x"}).numa_binding == NumaBinding::core_complex);
  CHECK(good({"x"}).numa_binding == std::nullopt);
  CHECK(diagnostics({"--numa-binding=galaxy", "x"}) ==
        Words{"--numa-binding=galaxy is not one of node, socket, exclusive, core-complex"});
}

TEST_CASE("--warm takes modules, on or off, and never the script") {
  CHECK(good({"x"}).warm_modules.empty());
  CHECK(good({"--warm", "x"}).warm_modules == Words{"torch"});
  CHECK(good({"--warm", "x"}).program.script == "x");
  CHECK(good({"--warm=torch, numpy.random", "x"}).warm_modules == Words{"torch", "numpy.random"});
  CHECK(good({"x"}, {{"PET_WARM", "1"}}).warm_modules == Words{"torch"});
  CHECK(good({"--warm=off", "x"}, {{"PET_WARM", "torch"}}).warm_modules.empty());
  CHECK(diagnostics({"--warm=torch,train.py/", "x"}) ==
        Words{"--warm=torch,train.py/: \"train.py/\" is not the name of a Python module\n  hint: "
              "use on, off or a list such as torch,transformers"});
  CHECK(diagnostics({"--warm=torch,", "x"}).size() == 1);
  CHECK(diagnostics({"--warm=", "x"}).size() == 1);
}

}  // namespace worker_settings_test

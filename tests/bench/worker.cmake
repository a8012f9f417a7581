# SPDX-License-Identifier: BSD-3-Clause
# The worker library beside PyTorch; run worker_bench.py. Only where there is a LibTorch.
if(TARGET cpprun_worker)
  add_executable(worker_load worker_load.cpp)
  cpprun_torch_target(worker_load)
  target_link_libraries(worker_load PRIVATE cpprun_worker)
endif()

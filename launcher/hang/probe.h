// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The probe: how a worker serves its stacks on a private Unix socket. In a Python worker, a
// `sitecustomize` of ours starts PyTorch's own server as soon as torch.distributed was imported,
// and then runs the user's sitecustomize, if there is one. In a C++ worker, cpprun::run() does it.
// The training script does not change.
//
// No server: Python with -I, -E or -S, a process that does not import PyTorch, a PyTorch without
// torch.distributed or older than 2.4.

#include <string>
#include <string_view>

#include "proto/environment.h"
#include "proto/rank.h"
#include "proto/result.h"

namespace cpprun::hang {

// On this signal, a Python with the probe writes the stacks of all its threads to stderr, by
// faulthandler, and goes on. It is a real-time signal that no library is known to use.
inline constexpr int stack_dump_signal = 60;

// Of the file in the directory that add_probe() puts into PYTHONPATH.
inline constexpr std::string_view probe_file = "sitecustomize.py";
extern const std::string_view probe_source;

// The socket of a worker in `directory`, which must be private: the server has no authentication.
// Fails if the kernel has no room for such a path.
Result<std::string> probe_socket(const std::string& directory, LocalRank local_rank);

// Changes the variables of a worker, which override those in `inherited`, so that it serves on
// `socket`. `directory` has the probe's file. Leaves TORCH_WORKER_SERVER_SOCKET alone: a script
// that starts a server by itself has two.
void add_probe(Environment& variables, const Environment& inherited, const std::string& directory,
               const std::string& socket);

}  // namespace cpprun::hang

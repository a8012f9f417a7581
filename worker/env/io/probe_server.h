// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Serves the stacks of this process on the Unix socket CPPRUN_PROBE_SOCKET, for a launcher that
// wants to know why a worker hangs. It speaks as much HTTP as PyTorch's WorkerServer, with the same
// handlers: POST /handler/ping, /handler/dump_traceback, and those that `set_probe_handlers` adds.
//
// It needs threads of its own: the others may hang. They block all signals, sleep until a client
// connects, and nothing waits for them at exit.

#include <optional>
#include <string>
#include <string_view>

namespace cpprun {

// Starts the server; once per process. Failures are ignored: the socket is for diagnosis only.
void start_probe_server(const std::string& path);

// The answer of a handler, or nullopt if its name is unknown. Runs on a thread of the server.
using ProbeHandlers = std::optional<std::string> (*)(std::string_view name);
void set_probe_handlers(ProbeHandlers handlers);

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// All that a worker needs from cpprun without LibTorch: its ranks and meeting point (Context),
// error reports (run), heartbeats (Heartbeat), and SIGTERM as a flag (StopSignal). A public header.
//
//   int main() {
//     return cpprun::run([](const cpprun::Context& context) {
//       cpprun::Heartbeat heartbeat(context);
//       for (…) { …; heartbeat.beat(); }
//       return 0;
//     });
//   }

#include "worker/env/context.h"
#include "worker/env/io/heartbeat.h"
#include "worker/env/io/record.h"
#include "worker/env/io/stop_signal.h"

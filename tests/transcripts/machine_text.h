// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Shared by the players of the machines: messages, processes and signals as text.

#include <optional>
#include <string>
#include <vector>

#include "launcher/workers/supervisor.h"
#include "proto/link/message.h"
#include "tests/transcripts/transcript.h"

namespace cpprun::transcripts {

// The JSON of a frame, without the length before it; and back, by the real decoder.
std::string json_of(const link::Message& message);
link::Message message_of(const std::string& json);

// "TERM"
std::string signal_text(int signal);
int signal_of(const std::string& name);

// "0 exits 1" and its like; nothing if the line is something else.
std::optional<supervisor::ProcessEvent> process_event_of(const Words& said);
std::string to_text(const supervisor::ProcessAction& action);

// Workers of ranks 0, 1, …
std::vector<WorkerSpec> workers(int count);

// Calls the machine at every deadline until then, as a driver that is awake.
template <class Machine>
typename Machine::Actions live_until(Machine& machine, TimePoint until) {
  typename Machine::Actions all;
  for (auto due = machine.next_deadline(); due && *due <= until; due = machine.next_deadline()) {
    for (auto& action : machine.advance(*due)) all.push_back(std::move(action));
  }
  return all;
}

}  // namespace cpprun::transcripts

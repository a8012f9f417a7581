// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The limits of a coordinator: its jobs, links and handshakes.

#include <chrono>
#include <cstddef>

namespace cpprun::bounds {

using namespace std::chrono_literals;

// Concurrent jobs of one daemon: each needs a port, and a machine has a few ten thousand.
inline constexpr std::size_t jobs_max = 1024;
// Unfinished jobs started from one address. A whole cluster behind one translated address has
// fewer.
inline constexpr std::size_t jobs_per_source_max = 256;
// The last quarter of the job slots is reserved for addresses with fewer jobs than this. Keeping
// others out takes three addresses at their limit and thirty-two more.
inline constexpr std::size_t jobs_few = 8;
// Names kept for the nodes of jobs whose slots were given to others, two minutes each.
inline constexpr std::size_t job_names_kept_max = 4096;
// Links from one address. A machine has one per job; containers behind one translated address may
// have thousands.
inline constexpr std::size_t links_per_source_max = 4096;
// The longest lease that a daemon grants a job: the job keeps its slot for this long after its last
// node is gone. torchrun's own lease is 15 s.
inline constexpr std::chrono::nanoseconds daemon_lease_max = 2min;
// first_message_timeout while more than newcomers_max links have not identified themselves. Each
// holds one of the descriptors reserved for agents, and half of those may go to silent connections.
inline constexpr std::chrono::nanoseconds first_message_timeout_in_crowd = 500ms;
inline constexpr std::size_t newcomers_max = 2048;

// One page of a status reply: some hundred kilobytes, a few milliseconds of work.
inline constexpr std::size_t status_jobs_shown_max = 200;
inline constexpr std::size_t status_nodes_shown_max = 500;
// Jobs in one reply to Prometheus, which has no pagination: a megabyte.
inline constexpr std::size_t status_jobs_measured_max = 1024;

// Concurrent unauthenticated connections: 16 MiB. A handshake takes one round trip, so ten thousand
// agents that connect at once are admitted a few hundred at a time.
inline constexpr std::size_t handshakes_max = 1024;
// Timeout of the handshake; as long as an agent's own for a connection attempt.
inline constexpr std::chrono::nanoseconds handshake_timeout = 5s;

// Messages of a node that follow its Join before the job can process them: those that it repeats
// when it reconnects, and a few more.
inline constexpr std::size_t early_words_max = 32;
// The same for all agents together, in bytes: 20,000 agents with a few small messages each.
inline constexpr std::size_t early_bytes_max = 8 * 1024 * 1024;

// What a link may always hold, whatever else its address holds, as long as the reserve for links
// lasts: TLS and a few queued frames. A peer that sends too much loses the stream, not the link.
inline constexpr std::size_t link_bytes_always = 192 * 1024;
// Memory of an idle link: its channel, callbacks and table entries in the coordinator.
inline constexpr std::size_t link_idle_bytes = 2 * 1024;
// Messages to the workers of one node that are held until a standby has the state, too.
inline constexpr std::size_t held_link_bytes_max = 256 * 1024;

}  // namespace cpprun::bounds

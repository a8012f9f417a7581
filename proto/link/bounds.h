// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The limits of the messages between agent and coordinator.

#include <chrono>
#include <cstddef>

namespace cpprun::bounds {

// One JSON message. The design allows 512 bytes per agent, round and direction; the margin above
// that is for a failure's last lines and for refusals, which are sentences.
inline constexpr std::size_t link_frame_bytes_max = 32 * 1024;
// One message of a round, for any number of nodes: Join, Sealed, and Finish as sent to remote
// nodes. (A job id of more than 40 bytes, or a role of more than 24, adds the excess.)
inline constexpr std::size_t round_frame_bytes_max = 512;
// A host name: the DNS maximum.
inline constexpr std::size_t host_bytes_max = 255;
// A numeric IPv6 address with an embedded IPv4 address, as inet_ntop writes it.
inline constexpr std::size_t address_bytes_max = 45;
// The id of a cause; the longest one has half of it.
inline constexpr std::size_t cause_bytes_max = 64;
// Nodes of one job. A hundred times the largest known; even with local_world_size_max workers each,
// ranks still fit an int.
inline constexpr int nodes_max = 1'000'000;
// Consequences named to remote nodes and to the coordinator's own agent; further ones are counted.
inline constexpr std::size_t consequences_brief_max = 8;
inline constexpr std::size_t consequences_max = 64;
// Codes in --no-restart-codes; each is part of every Join.
inline constexpr std::size_t no_restart_codes_max = 8;
// The maximum of an agent's clock; three times this in nanoseconds still fits the counter.
inline constexpr auto agent_time_max = std::chrono::hours{24 * 365 * 90};
// One text in a message (a reason, a failure's message). Two of them fit a frame even if every byte
// has to be escaped.
inline constexpr std::size_t link_text_bytes_max = 2 * 1024;
// Additional addresses that a node reports; a Join has to stay within 512 bytes.
inline constexpr std::size_t node_addresses_max = 4;
// An untrusted name quoted in a log line; long enough to recognize it.
inline constexpr std::size_t name_shown_bytes_max = 80;

// Workers on one node; a larger number is a mistaken flag.
inline constexpr int local_world_size_max = 2048;
// CPU numbers of one machine; Linux itself supports at most 8192.
inline constexpr int cpus_max = 8192;

// Causes counted by id: twice as many as exist.
inline constexpr std::size_t causes_counted_max = 64;

// The coordinator's record of a job is sent in parts, so that heartbeats pass between them. In
// hexadecimal a part is twice as long, and still fits a link frame.
inline constexpr std::size_t record_part_bytes_max = 12 * 1024;
// Half a kilobyte per node, for twice ten thousand nodes.
inline constexpr int record_parts_max = 1024;
// Members of a cpprund cluster: more do not make it safer, and each has to be waited for.
inline constexpr std::size_t members_max = 7;
// "host.example.com:29400".
inline constexpr std::size_t place_bytes_max = 253 + 6;

}  // namespace cpprun::bounds

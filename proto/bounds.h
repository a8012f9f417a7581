#pragma once
// Every limit of the house, each with its unit and its reason. What exceeds a limit is refused
// aloud: the refusal names the limit.

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace cpprun::bounds {

using namespace std::chrono_literals;

// --- the link between agent and keeper ---------------------------------------------------------
// One JSON message. Agreed with the design: 512 bytes per agent per round each way; the margin
// above it is for a failure's last lines and for refusals, which are sentences.
inline constexpr std::size_t link_frame_bytes_max = 32 * 1024;
// One text inside a message (a reason, a failure's sentence). Two of them fit a frame even when
// every byte has to be escaped.
inline constexpr std::size_t link_text_bytes_max = 2 * 1024;
// Bytes that may wait for an agent that does not read before its link is cut.
inline constexpr std::size_t link_outbox_bytes_max = 256 * 1024;

}  // namespace cpprun::bounds

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The messages between the console and a host, through the host's remote shell, as values and as
// bytes: down to the host, and up to the console.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proto/environment.h"
#include "proto/result.h"

namespace cpprun::fanout {

// A host of the job. Its number is its position among all hosts given, from 0.
struct Member {
  int number = 0;
  std::string name;
  int slots = 0;  // number of workers; 0: as the flags say
  friend bool operator==(const Member&, const Member&) = default;
};

// The settings common to all hosts.
struct JobTerms {
  std::vector<std::string> flags;    // flags of cpprun, by full name
  std::vector<std::string> program;  // the script and its arguments
  Environment environment;           // added to the host's own
  std::string directory;             // working directory
  std::string secrets;               // in the format of a secret file; empty: none
  std::string nodes;  // --nnodes of the agents; empty: a single node, as the flags say
  bool elastic = false;
  std::string conf;  // --rdzv-conf as given
  std::uint32_t grace_milliseconds = 0;
  bool is_rehearsal = false;  // --dry-run: no free port is chosen
  friend bool operator==(const JobTerms&, const JobTerms&) = default;
};

// --- down
struct Terms {
  Member host;  // the receiver
  JobTerms job;
  friend bool operator==(const Terms&, const Terms&) = default;
};
struct Begin {
  int master = 0;  // the number of the host
  std::string address;
  int port = 0;
  friend bool operator==(const Begin&, const Begin&) = default;
};
struct Stop {
  int signal = 0;
  friend bool operator==(const Stop&, const Stop&) = default;
};
// A question that the program at the other end answers itself, without a job.
struct Ask {
  std::string text;
  friend bool operator==(const Ask&, const Ask&) = default;
};
struct Ping {
  friend bool operator==(const Ping&, const Ping&) = default;
};
using Down = std::variant<Terms, Begin, Stop, Ping, Ask>;

// --- up
struct Here {
  std::string address;  // where others may reach it, as far as it knows
  int port = 0;         // a free port there
  friend bool operator==(const Here&, const Here&) = default;
};
struct Gone {
  std::string reason;  // a clause
  friend bool operator==(const Gone&, const Gone&) = default;
};
struct Words {
  bool is_error = false;  // from stderr
  std::string text;       // unchanged
  friend bool operator==(const Words&, const Words&) = default;
};
struct Ended {
  int code = 0;      // as a shell reports it
  bool ran = false;  // it started to run the job
  friend bool operator==(const Ended&, const Ended&) = default;
};
struct Answer {
  std::string text;
  friend bool operator==(const Answer&, const Answer&) = default;
};
struct Pong {
  friend bool operator==(const Pong&, const Pong&) = default;
};
using Up = std::variant<Here, Gone, Words, Ended, Pong, Answer>;

// Encodes a message as a length, a kind (its index in the variant), and the members in CBOR, whose
// strings may hold any bytes, as arguments and variables do.

// Enough for a megabyte of environment, and for the answers of `cpprunctl doctor`.
inline constexpr std::size_t message_bytes_max = 16 * 1024 * 1024;

std::string encode(const Down& message);
std::string encode(const Up& message);

// Removes the first complete message from `bytes`; nullopt if it has not fully arrived. Fails for
// invalid data, after which the stream cannot be used.
Result<std::optional<Down>> take_down(std::string& bytes);
Result<std::optional<Up>> take_up(std::string& bytes);

}  // namespace cpprun::fanout

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the ends of a remote shell say to each other, as values and as bytes: down the tree from the
// console, and up to it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "proto/environment.h"
#include "proto/result.h"

namespace cpprun::fanout {

// A host of the job; its number is its place among all that were named, from 0.
struct Member {
  int number = 0;
  std::string name;
  int slots = 0;  // workers there; 0: the flags say
  friend bool operator==(const Member&, const Member&) = default;
};

// What is the same for every host.
struct JobTerms {
  std::vector<std::string> flags;    // of cpprun, by full name
  std::vector<std::string> program;  // the script and its arguments
  Environment environment;           // laid over the host's own
  std::string folder;                // to work in
  std::string secrets;               // as a file of secrets says them; empty: none
  std::vector<std::string> shell;    // the remote shell's words, with {host} in one of them
  std::string nodes;                 // --nnodes of the agents; empty: of one node, as the flags say
  bool elastic = false;
  std::string conf;  // --rdzv-conf as it was given
  bool ship = false;
  std::uint32_t grace_milliseconds = 0;
  bool is_rehearsal = false;  // --dry-run: no port is looked for
  friend bool operator==(const JobTerms&, const JobTerms&) = default;
};

// --- down
struct Terms {
  std::vector<Member> members;  // the first is who reads this, the others are its subtree
  JobTerms job;
  friend bool operator==(const Terms&, const Terms&) = default;
};
struct Begin {
  int only = -1;  // one host that came late; -1: all that are there
  int master = 0;
  std::string address;
  int port = 0;
  friend bool operator==(const Begin&, const Begin&) = default;
};
struct Stop {
  int signal = 0;
  friend bool operator==(const Stop&, const Stop&) = default;
};
// Something that the program at the other end answers by itself; no job has begun.
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
  int number = 0;
  std::string address;  // at which others may reach it, as far as it knows
  int port = 0;         // that is free there
  friend bool operator==(const Here&, const Here&) = default;
};
struct Gone {
  int number = 0;
  std::string reason;  // a clause
  friend bool operator==(const Gone&, const Gone&) = default;
};
struct Words {
  int number = 0;
  bool is_error = false;  // of stderr
  std::string text;       // as it came
  friend bool operator==(const Words&, const Words&) = default;
};
struct Ended {
  int number = 0;
  int code = 0;      // as a shell shows it
  bool ran = false;  // it came as far as to run the job
  friend bool operator==(const Ended&, const Ended&) = default;
};
struct Answer {
  int number = 0;
  std::string text;
  friend bool operator==(const Answer&, const Answer&) = default;
};
struct Pong {
  friend bool operator==(const Pong&, const Pong&) = default;
};
using Up = std::variant<Here, Gone, Words, Ended, Pong, Answer>;

// Messages as bytes: a length, a kind, and the members in order. Texts are bytes of any kind, as
// arguments and variables are, so nothing is quoted and nothing can be torn.

// A megabyte of environment, and a hundred thousand hosts.
inline constexpr std::size_t message_bytes_max = 16 * 1024 * 1024;

std::string encode(const Down& message);
std::string encode(const Up& message);

// Takes the first whole message off `bytes`; nothing while it has not all arrived. Fails for what
// is no message: then nothing that follows is one.
Result<std::optional<Down>> take_down(std::string& bytes);
Result<std::optional<Up>> take_up(std::string& bytes);

}  // namespace cpprun::fanout

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the workers of a job do at one moment, as evidence about a hang. Each agent gathers it from
// its own workers (launcher/hang) and sends only the clusters of equal stacks and the positions in
// process groups. The coordinator merges the evidence of all nodes, and `verdict.h` draws the
// conclusion.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/rank.h"
#include "proto/result.h"

namespace cpprun::hang {

// A set of ranks. A job may have ten thousand, and process groups often have every n-th, so equal
// ranges at equal distances are one run.
class RankSet {
 public:
  RankSet() = default;
  explicit RankSet(Rank rank) { append({rank.value, rank.value}); }
  // All ranks below `world_size`.
  static RankSet all(int world_size);

  void add(Rank rank);
  void add(const RankSet& other);
  void remove(const RankSet& other);
  RankSet common_with(const RankSet& other) const;
  bool has(Rank rank) const;
  bool empty() const { return runs_.empty(); }
  std::size_t count() const;
  // Of a set that is not empty.
  Rank first() const { return Rank{runs_.front().first}; }
  Rank last() const { return Rank{static_cast<int>(runs_.back().end() - 1)}; }
  // Whether no rank between the first and the last is missing.
  bool is_one_range() const { return runs_.size() == 1 && runs_.front().count == 1; }
  // "0-30,32", as many as fit in about 60 characters, then " and 12 more".
  std::string to_text() const;
  // All ranges, "0-30,32", and back. Many equal ranges have the form of Linux's CPU lists:
  // "0-9998:2/8" has the first 2 of every 8 ranks.
  std::string ranges_text() const;
  static Result<RankSet> parse(std::string_view text);
  // Calls `use` with the first and the last rank of each range.
  void each_range(const auto& use) const {
    for (const Run& run : runs_) {
      for (std::int64_t at = 0; at < run.count; ++at) {
        const Range range = run.range(at);
        use(range.first, range.last);
      }
    }
  }
  // The length of their text, at most.
  std::size_t text_bytes_max() const;
  // Any order, for sorting.
  friend auto operator<=>(const RankSet&, const RankSet&) = default;
  friend bool operator==(const RankSet&, const RankSet&) = default;

 private:
  struct Range {
    int first = 0;
    int last = 0;
  };
  // `count` ranges of `size` ranks, one every `step` ranks. The ranges do not touch.
  struct Run {
    int first = 0;
    std::int64_t size = 0;
    int step = 0;  // 0 if there is one range
    int count = 0;
    Range range(std::int64_t at) const {
      const std::int64_t begin = first + at * step;
      return {static_cast<int>(begin), static_cast<int>(begin + size - 1)};
    }
    std::int64_t end() const { return std::int64_t{range(count - 1).last} + 1; }
    friend auto operator<=>(const Run&, const Run&) = default;
    friend bool operator==(const Run&, const Run&) = default;
  };
  class Cursor;

  static std::string text_of(const Run& run);
  // A range that starts at or behind the start of the last one. All changes add ranges in order, so
  // that equal sets have equal runs.
  void append(Range range);
  void append_run(const Run& run);

  std::vector<Run> runs_;  // in order; they neither overlap nor touch
};

// What a worker does. Values with more weight in a verdict come first.
enum class Activity {
  stopped,     // by SIGSTOP or a debugger
  disk,        // in uninterruptible sleep in the kernel
  gil,         // Python is in C code that holds the GIL
  busy,        // uses its CPU
  child,       // waits for a process that it started
  lock,        // waits for a lock or a condition
  reading,     // waits for a file, a pipe or a socket
  sleeping,    // waits for a time
  blocked,     // waits for something else
  collective,  // waits inside a collective operation, for other ranks
  exited,      // has ended
  unknown,     // nothing could be read
};
std::string_view name_of(Activity activity);  // "stopped", for JSON

struct Frame {
  std::string function;
  std::string file;  // as the runtime has it; empty: unknown
  int line = 0;      // 0: unknown
  friend bool operator==(const Frame&, const Frame&) = default;
};

// Where a rank is in a process group, by PyTorch's flight recorder: its oldest operation that has
// not completed, or the last one if all have completed.
struct Position {
  std::string group;           // as people call it: "default_pg", "group 2", "mesh_tp (group 3)"
  std::int64_t sequence = 0;   // the number of that operation; 0: nothing was enqueued
  std::string operation = {};  // "all_reduce"; with the peer for point to point: "recv 0<-1"
  std::string shape = {};      // of its input: "[4, 1024] Float"; empty: unknown
  bool is_pending = false;     // it has not completed
  std::int64_t queued = 0;     // further operations that were enqueued after it
  RankSet members = {};        // all ranks of the group; empty: unknown, as with gloo
  // The number of the last enqueued operation.
  std::int64_t last() const { return sequence + queued; }
  friend bool operator==(const Position&, const Position&) = default;
};

// The peer of a point-to-point operation, as a rank of its group.
struct Peer {
  Rank self{};
  Rank other{};
  bool receives = false;
};
// Of "recv 0<-1" or "send 1->0". Empty: another operation.
std::optional<Peer> peer_of(std::string_view operation);

// What is known about one worker.
struct WorkerEvidence {
  Rank rank{};
  int pid = 0;
  Activity activity = Activity::unknown;
  // "in the kernel function nfs_wait_on_request", "by a signal", or the child that it waits for:
  // "812 (python3, sleeping)". May be empty.
  std::string detail = {};
  std::vector<Frame> stack = {};  // of its main thread, innermost first
  bool is_native = false;         // those are frames of C or C++
  // Frames of C and C++ as well, if they were requested.
  std::vector<Frame> native_stack = {};
  // One for each process group, and one for each pending point-to-point operation.
  std::vector<Position> positions;
  std::string unread = {};  // what could not be read, and why; empty: everything could be read
  friend bool operator==(const WorkerEvidence&, const WorkerEvidence&) = default;
};

// Ranks with the same activity and the same stack. A detail in which they differ is dropped.
struct Cluster {
  RankSet ranks;
  Activity activity = Activity::unknown;
  std::string detail = {};
  std::vector<Frame> stack = {};
  bool is_native = false;
  std::vector<Frame> native_stack = {};  // of the first of those ranks
  friend bool operator==(const Cluster&, const Cluster&) = default;
};

// Ranks at the same position.
struct GroupPosition {
  Position at;
  RankSet ranks;
  friend bool operator==(const GroupPosition&, const GroupPosition&) = default;
};

// A reason that ends in this: the worker was started without the probe.
inline constexpr std::string_view no_debug_server = "this worker has no debug server";

struct Unread {
  std::string reason;
  RankSet ranks;
  friend bool operator==(const Unread&, const Unread&) = default;
};

// The evidence of a node, or of several nodes together.
struct Evidence {
  std::vector<Cluster> clusters = {};
  std::vector<GroupPosition> positions = {};
  std::vector<Unread> unread = {};
  friend bool operator==(const Evidence&, const Evidence&) = default;
};

// The smallest clusters come first, then those with the lowest rank.
Evidence cluster(const std::vector<WorkerEvidence>& workers);
// The evidence of several nodes together, in the same order. Their own order makes no difference.
Evidence merged(const std::vector<Evidence>& nodes);

// The frame that tells a reader most: the innermost one of the user's own code, else of an
// installed package other than PyTorch, else the innermost one. Null: no frame is known.
const Frame* user_frame(const std::vector<Frame>& stack);
// That frame, as "train_step train.py:88". Empty: no frame is known.
std::string place_of(const std::vector<Frame>& stack);
// The same behind the name of an operation: " (train_step, train.py:88)", or empty.
std::string call_site(const std::vector<Frame>& stack);
// Whether that is a function of PyTorch, gloo or NCCL in which ranks wait for each other.
bool is_communication(const Frame& frame);
// What ranks do, to follow their name: "is busy in train_step (train.py:88)".
std::string clause_of(const Cluster& cluster, bool is_plural);
// "31 ranks (0-30): wait in all_reduce (train_step, train.py:88)".
std::string text_of(const Cluster& cluster);

// Limits of what one node sends. An Evidence beyond them is cut: the smallest clusters stay, and
// `unread` says what is missing. Pending positions stay before others. The JSON of the rest fits a
// frame of the link.
inline constexpr std::size_t clusters_max = 64;
inline constexpr std::size_t positions_max = 256;
inline constexpr std::size_t frames_max = 24;
inline constexpr std::size_t name_bytes_max = 160;  // of a function, an operation, a group
inline constexpr std::size_t text_bytes_max = 400;  // of a detail, a file, a shape, a reason
inline constexpr std::size_t unread_max = 8;
void limit(Evidence& evidence);

}  // namespace cpprun::hang

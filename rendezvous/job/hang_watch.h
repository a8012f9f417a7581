// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Notices that a whole job makes no progress, and gathers from all its nodes what their workers do
// (HangWatch).

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/link/message.h"
#include "proto/rank.h"
#include "rendezvous/hang/evidence.h"
#include "rendezvous/hang/verdict.h"
#include "rendezvous/job/coordinator_actions.h"
#include "rendezvous/job/round.h"

namespace cpprun {

// What all workers of a round were doing at one moment.
struct JobCapture {
  std::uint64_t number = 0;
  RoundNumber round{};
  TimePoint at{};
  int world_size = 0;
  bool is_hang = false;  // the workers are ended for it
  hang::Evidence evidence;
  hang::Verdict verdict;
  std::vector<std::string> silent_nodes;  // nodes that did not answer in time, or cannot
};

// A job hangs if every node with running workers has reported for the whole timeout that none of
// its workers shows any progress. A single rank that computes, writes a checkpoint or validates is
// progress of the job, because the others may only be waiting for it.
//
// When the timeout is over, all nodes are asked for evidence. If one of them has seen progress
// meanwhile, the job does not hang. Otherwise every node gets the verdict, and the node of the rank
// to blame ends that worker. What follows is the same as after any other failure.
//
// If PyTorch's own timeout strikes first, nodes say so in their heartbeats. Then all nodes are
// asked for evidence at once, and get the verdict. The round may end meanwhile.
class HangWatch {
 public:
  using Actions = coordinator::Actions;

  // A node's heartbeat, or its reply to a Capture, in the round that runs.
  void heard(TimePoint now, LinkId link, const link::Heartbeat& beat, const Round& round,
             Actions& actions);
  void heard(TimePoint now, LinkId link, const link::Captured& captured, const Round& round,
             Actions& actions);
  // The node uses another link from now on, and may have missed what was sent on the old one.
  void moved(LinkId from, LinkId to, const Round& round, Actions& actions);
  // The node's workers have exited with 0: only the others have to be quiet.
  void succeeded(TimePoint now, const Round& round);
  // The node is lost or has no workers left, so it does not reply.
  void left(TimePoint now, LinkId link, const Round& round, Actions& actions);
  // Asks all nodes for evidence, for an operator; the round is sealed. Returns the number of the
  // capture. One at a time: a request while another is under way joins it. `native`: with frames of
  // C and C++.
  std::uint64_t capture(TimePoint now, const Round& round, bool native, Actions& actions);
  void advance(TimePoint now, const Round& round, Actions& actions);
  // `is_sealed`: otherwise no worker can hang, and nothing is due.
  std::optional<TimePoint> next_deadline(bool is_sealed) const;
  // The last completed one; nothing before the first.
  const std::optional<JobCapture>& last() const { return last_; }
  bool is_gathering() const { return gathering_.has_value(); }

 private:
  struct Quiet {
    TimePoint since{};
    Duration timeout{};
    TimePoint heard{};  // when the node last said so
  };
  // Evidence that arrives from the nodes.
  struct Gathering {
    link::Capture request;
    TimePoint begun{};
    TimePoint until{};
    bool is_for_hang = false;
    std::map<LinkId, std::string> parts;  // of the nodes that have not replied completely
    std::vector<hang::Evidence> evidence;
    std::vector<std::string> silent_nodes;
  };

  void follow(const Round& round);
  void consider(TimePoint now, const Round& round);
  // Since when no node has made progress; nothing if one does, is not checked, or may have done so
  // without being heard since `confirmed`.
  std::optional<Quiet> quiet(const Round& round, TimePoint confirmed = TimePoint::min()) const;
  void begin(TimePoint now, const Round& round, link::Capture request, Actions& actions);
  void timed_out(TimePoint now, const Round& round, Actions& actions);
  void conclude(TimePoint now, const Round& round, Actions& actions);
  // No `quiet`: a process group timed out.
  void tell(const JobCapture& capture, std::optional<Duration> quiet, const Round& round,
            Actions& actions) const;

  RoundNumber round_{};  // to which the following members belong
  std::map<LinkId, Quiet> quiet_;
  std::optional<TimePoint> due_;  // when to compute whether the job hangs
  TimePoint next_look_{};         // not earlier than that
  bool is_noted_ = false;         // the note at half of the timeout was written
  // When a verdict was sent: if the round has not ended by then, it may have been lost.
  std::optional<TimePoint> told_until_;
  std::optional<TimePoint> timed_out_at_;  // when a capture began for that
  std::optional<Gathering> gathering_;
  std::uint64_t captures_ = 0;
  std::optional<JobCapture> last_;
};

}  // namespace cpprun

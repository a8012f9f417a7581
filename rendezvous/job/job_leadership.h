// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Who leads a job (JobLeadership).

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/clock.h"
#include "proto/link/message.h"
#include "proto/rank.h"
#include "rendezvous/job/coordinator_actions.h"
#include "rendezvous/job/job_terms.h"
#include "rendezvous/job/leases.h"
#include "rendezvous/job/round.h"
#include "rendezvous/job/round_outcome.h"

namespace cpprun {

// Who leads a job: this coordinator, or the standby, the node of the round that takes over if this
// coordinator is lost. Appoints the standby, knows until when this coordinator may decide, and
// transfers leadership to the standby when the coordinator's own node has to end. docs/states.md,
// "Who leads", has the rules.
//
//   leads ──too few nodes answer──► deposed ──no standby can have a majority──► leads
//     └──its own node has to end──► transfer ──the standby leads──► deposed
//                                      └──declined, or too late──► leads, and the job ends
//
// It only reads the round. The caller breaks, drains and ends it.
class JobLeadership {
 public:
  using Actions = coordinator::Actions;

  JobLeadership(const JobTerms& terms, const JobOptions& options);

  // --- the standby of the round that runs or drains

  // A round was sealed. Picks its standby, the first capable node, so that it is mostly the same in
  // each round, and sends it the record.
  void begin(const Round& round, Actions& actions);
  // From here on no node can take over from this coordinator.
  void end();
  // The node that must have the record of the current step.
  std::optional<LinkId> standby() const {
    return standby_ ? std::optional(standby_->link) : std::nullopt;
  }
  // Where the other nodes reach the standby; nothing if no node can take over.
  std::optional<link::Standby> standby_place() const;
  std::optional<GroupRank> standby_node(const Round& round) const;
  std::string standby_address() const { return standby_ ? standby_->address : "?"; }
  // The votes that the standby needs; 0: there is none.
  std::size_t votes_needed() const { return standby_ ? votes_.votes_needed() : 0; }
  // A sentence for people about what happens if the coordinator is lost; empty unless a round of
  // several nodes runs.
  std::string cover_text(const Round& round) const;
  // That sentence with a hint, if a node hosts the job and there is no standby although there
  // should be one; otherwise empty.
  std::string exposure_text(const Round& round) const;

  // Nodes leave the round while it drains. If the coordinator is lost before the next round, a
  // standby must be among the remaining nodes, and they must be enough for its majority. Returns
  // true if the standby is sent the record.
  bool replace_standby(const Round& round, const RoundEnd& round_end, Actions& actions);
  // The standby has reconnected. It may have received nothing or only part of the record.
  void show_record_again(LinkId link, const Round& round, const RoundEnd& round_end,
                         Actions& actions) const;
  // The node has opened a port as the standby. Returns false if it is not the standby, or had
  // reported that before.
  bool stands(TimePoint now, LinkId link, const link::Stands& stands, const Round& round,
              const RoundEnd& round_end, Actions& actions);
  // Sends the node the standby's address, if it may need it.
  void announce(TimePoint now, LinkId link, const Round& round, const RoundEnd& round_end,
                Actions& actions);

  // --- the votes of the round's nodes

  bool may_be_lost() const { return votes_.may_be_lost(); }
  // No standby can lead in this round any longer.
  bool is_decided() const { return votes_.is_decided(); }
  bool has_vote(LinkId link) const { return votes_.has_vote(link); }
  void heard(LinkId link, TimePoint moment) { votes_.heard(link, moment); }
  void released(LinkId link) { votes_.released(link); }
  void moved(LinkId from, LinkId to);
  // A node may vote until its round has drained, so that the job continues if this coordinator is
  // lost meanwhile. Not if the job is being stopped, or that node leaves.
  link::Drain drain(const Member& member, const Round& round, const RoundEnd& round_end) const;
  void send_drain(const Round& round, const RoundEnd& round_end, Actions& actions) const;
  // Asks all nodes to give up their votes. Each answers with Drained as soon as it has drained.
  void recall_votes(const Round& round, const RoundEnd& round_end, Actions& actions);
  // For a deposed coordinator: a node of its round asks for a seat. That node no longer has a vote
  // in the round. Returns true if no standby can have a majority.
  bool takes_back_vote(LinkId link, const link::Join& join, RoundNumber round);

  // --- the leader's lease

  // Until when this coordinator may decide, as far as is known; nothing: without limit.
  std::optional<TimePoint> leads_until() const { return leads_until_; }
  // Computes that again. Returns true if it has passed.
  bool is_lost(TimePoint now);
  // This coordinator may not decide: another one leads, or may lead.
  bool is_deposed() const { return is_deposed_; }
  void depose();
  void lead_again() { is_deposed_ = false; }

  // --- the transfer to the standby

  // The job must continue without this node. Ctrl-C is excluded: it means that the job is to end.
  bool may_transfer(const Member& member, const link::Leave& leave, const Round& round,
                    const RoundEnd& round_end) const;
  void request_transfer(link::Leave leave) { own_leave_ = std::move(leave); }
  bool is_transfer_requested() const { return own_leave_.has_value(); }
  // The round has drained, and all votes in it are given up. The standby leads with the record of
  // this moment and reports that (follow()); before that, no other node is sent to it. Returns
  // false if no node can lead.
  bool offer(TimePoint now, const Round& round, Actions& actions);
  // Until when an offered transfer may take; nothing: none was offered.
  std::optional<TimePoint> transfer_until() const { return transfer_until_; }
  bool is_offered_to(LinkId link) const { return transfer_until_ && link == transfer_link_; }
  // The standby has received a reply newer than the offer, on the link on which the offer was made,
  // and is still connected: it does not support transfers.
  bool is_declined(LinkId link, const link::Heartbeat& beat) const;
  // Returns why the coordinator's own node has to end.
  link::Leave abort_transfer();
  // Another coordinator leads from here on.
  void follow(const link::Led& led);
  // Where to redirect nodes that connect after a transfer; nothing if there was none.
  const std::optional<link::Led>& transferred_to() const { return transferred_to_; }

  // When is_lost() is to be called.
  std::optional<TimePoint> look_due() const { return look_due_; }

 private:
  struct Standby {
    LinkId link;
    std::string address;  // at which the other nodes reach it
    int port = 0;         // 0: not reported yet
  };
  const char* why_no_standby(std::size_t seated) const;
  bool may_appoint(const Round& round, const RoundEnd& round_end) const;
  std::vector<LinkId> voters_left(const Round& round) const;
  bool choose_successor(const Round& round);
  void update_lease(TimePoint now);

  std::string job_;
  std::size_t nodes_min_;
  bool is_elastic_;
  bool is_wanted_;      // there should be a standby
  bool keeps_workers_;  // --on-failure=reconfigure
  Duration lease_;

  RoundNumber round_{};
  std::optional<Standby> standby_;
  RoundVotes votes_;
  bool recalls_votes_ = false;  // all nodes of the round were asked to give up their votes in it
  std::optional<TimePoint> leads_until_;
  std::optional<TimePoint> look_due_;  // when to compute leads_until_ again
  bool is_deposed_ = false;            // Invariant: then nothing is due.

  // The coordinator's own node has to end, and the standby is to lead: why, and the deadline. The
  // standby has been offered the job or, if it has no port yet, still has to become the standby.
  // Invariant: transfer_until_ is set only if own_leave_ is.
  std::optional<link::Leave> own_leave_;
  std::optional<TimePoint> transfer_until_;
  LinkId transfer_link_{};  // on which the job was offered to the standby
  std::optional<link::Led> transferred_to_;
};

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/replica_controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "proto/state_machine.h"
#include "rendezvous/daemon/bounds.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/etcd/bounds.h"
#include "rendezvous/job/bounds.h"
#include "rendezvous/job/job_record_json.h"

namespace cpprun {

ReplicaController::ReplicaController(SetPorts ports, ReplicatedCoordinator& server,
                                     ReplicaControllerOptions options, Callbacks callbacks)
    : ports_(std::move(ports)),
      server_(server),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      standbys_(ports_.loop, server,
                {.standbys_max = options_.standbys_max,
                 .say = callbacks_.say,
                 .replicated = [this] { go_on_with_hand_over(); },
                 .make_known = [this](const auto& names) { make_known(names); },
                 .changed = [this](const auto& places) { tell_addresses(places); }}),
      follower_(
          ports_.loop, server,
          {.say = callbacks_.say,
           .link_to = ports_.link_to,
           .heard = [this](const auto& leads, const auto& there) { heard_leader(leads, there); },
           .caught_up = [this] { caught_up(); },
           .take_over = [this] { take_over(); },
           .lost = [this](const std::string& reason,
                          Duration silence) { lost_leader(reason, silence); }}),
      alarm_(ports_.loop.make_alarm()),
      asked_alarm_(ports_.loop.make_alarm()),
      silence_alarm_(ports_.loop.make_alarm()) {}

ReplicaController::~ReplicaController() = default;

Result<void> ReplicaController::start() {
  auto keys = ElectionKeys::make(options_.cluster);
  if (!keys) return failure("--cluster: " + keys.error().reason);
  ElectionOptions options{.name = options_.name,
                          .card = options_.place,
                          .keys = *std::move(keys),
                          .endpoints = options_.etcd.endpoints,
                          .ttl = options_.etcd_lease,
                          .leaves_nothing = options_.leaves_nothing};
  if (const auto why = impossible(options)) {
    const bool is_of_name = options.name.size() > bounds::election_name_bytes_max;
    return failure(fmt::format("{}: {}", is_of_name ? "--name" : "--etcd", *why));
  }
  auto election = ports_.election(std::move(options), options_.etcd,
                                  [this](const election::Action& action) { hear(action); });
  if (!election) return failure("--etcd: " + election.error().reason);
  election_ = *std::move(election);
  election_->start();
  election_->tell(election::Enter{});
  return {};
}

ClockPair ReplicaController::moment() const {
  return {.now = ports_.loop.now(), .wall = ports_.wall_now()};
}

link::Follow ReplicaController::own_follow() const {
  return {.name = options_.name,
          .cluster = options_.cluster,
          .version = options_.version,
          .features = link::standby_features,
          .epoch = epoch_max_,
          .address = options_.place,
          .has_etcd = true};
}

link::Leads ReplicaController::own_leads() const {
  return {.name = options_.name,
          .cluster = options_.cluster,
          .version = options_.version,
          .features = link::standby_features,
          .epoch = epoch_,
          .has_etcd = true};
}

// --- records -------------------------------------------------------------------------------------

std::uint64_t ReplicaController::keep(const std::string& job, const std::string& record) {
  if (!leads_) return 0;
  // A successor receives the logs of stores until it takes over, so it needs the records of their
  // jobs as well.
  standbys_.keep(job, record);
  if (is_resigning_) return 0;
  election_->tell(election::Keep{job, record, ++last_number_});
  return waits_for_etcd() ? last_number_ : 0;
}

// A job that ends while this member steps down keeps its record for the successor: the job's nodes
// will ask there for the result.
std::uint64_t ReplicaController::forget(const std::string& job) {
  if (!leads_ || is_resigning_) return 0;
  standbys_.forget(job);
  election_->tell(election::Drop{job, ++last_number_});
  return waits_for_etcd() ? last_number_ : 0;
}

// --- as the leader -------------------------------------------------------------------------------

void ReplicaController::lead(std::uint64_t epoch) {
  leads_ = true;
  epoch_ = epoch;
  epoch_max_ = std::max(epoch_max_, epoch);
  leader_ = options_.name;
  leader_address_ = options_.place;
  server_.lead({epoch, {options_.place}, takeover_window()});
  recover_all();
  follower_.leave();
  follower_.release();
  own_records_.clear();
  found_ = {};
  expects_lead_ = false;
  standbys_.begin(own_leads());
  server_.let_in();
  note_leader(true);
  // A shutdown was requested while the transfer to this member was in progress.
  if (left_) leave(std::exchange(left_, {}));
}

void ReplicaController::stop_leading(const std::string& reason, bool is_planned) {
  if (!std::exchange(leads_, false)) return;
  watch_.lost(ports_.loop.now(), reason);
  // This may run in the middle of a decision. The rest of its messages must not be sent.
  server_.leader_until(ports_.loop.now());
  ports_.loop.soon([this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired() && !leads_) server_.leader_until({});
  });
  own_records_ = server_.follow({.reason = reason,
                                 .address = host_of_member(successor_address_),
                                 .port = port_of_member(successor_address_),
                                 .is_planned = is_planned});
  has_led_ = true;
  server_.kept(CommitSource::record, last_number_);
  standbys_.end(reason);
  published_.clear();
  leader_.clear();
  leader_address_.clear();
  successor_.clear();
  successor_address_.clear();
  successor_is_told_ = is_paused_ = false;
  unknown_names_.clear();
}

void ReplicaController::tell_addresses(const std::vector<std::string>& standbys) {
  std::vector<std::string> places = {options_.place};
  places.insert(places.end(), standbys.begin(), standbys.end());
  server_.change_members(places);
}

// How long workers wait for a new leader.
Duration ReplicaController::takeover_window() const {
  return bounds::takeover_window + bounds::takeover_window_more(options_.etcd_lease);
}

void ReplicaController::adopt(const std::shared_ptr<LinkEnd>& channel, const link::Follow& follow,
                              const PeerAddress& peer, const std::string& owner) {
  std::string reason;
  // This member dialled its own address without knowing.
  if (follow.name == options_.name) {
    return channel->hang_up("connected to itself");
  }
  if (!callbacks_.sees_all(owner)) {
    reason = fmt::format(
        "the standby's secret of \"{}\" has no access to all users' jobs; use the secret of "
        "\"{}\", or of the only owner",
        owner, admin_name);
  } else if (follow.address == options_.place) {
    reason = fmt::format(
        "\"{}\" advertises {}, the address of another cpprund; give each cpprund its own "
        "--advertise",
        called(follow.name), follow.address);
  } else if (!leads_) {
    return channel->hang_up("not the leader");
  } else if (follow.has_etcd && follow.cluster == options_.cluster && follow.epoch > epoch_) {
    reason = fmt::format(
        "the standby knows epoch {}, newer than the leader's epoch {}: another cpprund has become "
        "the leader",
        follow.epoch, epoch_);
  }
  if (reason.empty()) return standbys_.adopt(channel, follow);
  callbacks_.say(LogLevel::warning,
                 fmt::format("rejected standby {}: {}", peer.host_text(), reason));
  channel->send(link::Refused{reason});
  channel->hang_up(reason);
}

// --- as a standby --------------------------------------------------------------------------------

void ReplicaController::follow_leader(const std::string& name, const std::string& place,
                                      std::uint64_t epoch) {
  const auto parsed = parse_member_address(place);
  if (!parsed) {
    callbacks_.say(LogLevel::error,
                   fmt::format("invalid address of the leader: {}", parsed.error().reason));
    return;
  }
  stop_leading(fmt::format("\"{}\" is the leader in epoch {}", called(name), epoch));
  leader_ = name;
  leader_address_ = place;
  (void)server_.follow(
      {fmt::format("the leader is \"{}\"", called(name)), parsed->host, parsed->port});
  follower_.follow(parsed->host, parsed->port, own_follow());
}

// The leader has confirmed that it leads. The state that this member had is now obsolete.
void ReplicaController::heard_leader(const link::Leads& leads, const Endpoint& there) {
  epoch_max_ = std::max(epoch_max_, leads.epoch);
  epoch_ = leads.epoch;
  leader_ = leads.name;
  (void)server_.follow(
      {fmt::format("the leader is \"{}\"", called(leader_)), there.host, there.port});
  own_records_.clear();
  has_led_ = false;
  note_leader(false);
}

// The leader may still lead, so clients are still redirected there.
void ReplicaController::lost_leader(const std::string& reason, Duration silence) {
  watch_.lost(ports_.loop.now() - silence, "lost contact with the previous leader: " + reason);
  callbacks_.say(LogLevel::warning,
                 fmt::format("lost contact with the leader \"{}\": {}", called(leader_), reason));
  // The leader may have been killed, in which case its guard resigns for it right now.
  if (silence == Duration{}) election_->tell(election::Attend{});
  if (leads_ || expects_lead_) return;
  (void)server_.follow({with_silence(fmt::format("lost contact with the leader \"{}\": {}",
                                                 called(leader_), reason)),
                        host_of_member(leader_address_), port_of_member(leader_address_)});
}

void ReplicaController::caught_up() {
  const auto& records = follower_.records();
  const std::size_t jobs = records.size() - records.count(hosts_record_name);
  callbacks_.say(LogLevel::info,
                 fmt::format("this cpprund is a standby of \"{}\" (epoch {}, {} job{})",
                             called(leader_), epoch_, jobs, jobs == 1 ? "" : "s"));
}

// --- status and events ---------------------------------------------------------------------------

void ReplicaController::note_leader(bool is_won) {
  const auto change = watch_.leads(moment(), {.name = std::string(called(leader_)),
                                              .place = leader_address_,
                                              .epoch = epoch_,
                                              .is_won = is_won});
  if (change) callbacks_.leader_changed(*change);
  if (!asked_) return;
  const auto waited =
      std::chrono::duration_cast<std::chrono::milliseconds>(ports_.loop.now() - asked_->paused);
  const bool is_successor = called(leader_) == called(asked_->successor);
  answer_asked(
      is_successor
          ? Result<std::string>(
                fmt::format("\"{}\" at {} is the leader (epoch {}); clients waited at most {} ms",
                            called(leader_), leader_address_, epoch_, waited.count() + 1))
          : failure(fmt::format("\"{}\" at {} became the leader instead of \"{}\"", called(leader_),
                                leader_address_, called(asked_->successor))));
}

DaemonSnapshot ReplicaController::seen() const {
  DaemonSnapshot seen{.name = std::string(called(options_.name)),
                      .place = options_.place,
                      .version = options_.version,
                      .has_etcd = true,
                      .leads = leads_,
                      .epoch = epoch_,
                      .since = watch_.since(),
                      .leader = std::string(called(leader_)),
                      .leader_address = leader_address_,
                      .is_in_sync = !leads_ && follower_.is_whole(),
                      .standbys = standbys_.seen(),
                      .trouble = trouble_.text(),
                      .changes = watch_.changes(),
                      .last_change = watch_.last()};
  for (StandbySnapshot& each : seen.standbys) each.name = called(each.name);
  return seen;
}

// --- etcd: the election, and the records kept there ----------------------------------------------

void ReplicaController::hear(const election::Action& action) {
  const auto no_trouble = [this](std::string& kind, const char* sentence) {
    kind.clear();
    callbacks_.say(LogLevel::info, sentence);
  };
  std::visit(
      Overloaded{
          [](const election::Ask&) {},   // handled by the election's host
          [](const election::Will&) {},  // likewise
          [this](const election::LeaderIs& leader) { on(leader); },
          [this](const election::NoLeader& left) { on(left); },
          [this](const election::Found& found) { found_ = found; },
          [this](const election::Leads& leads) {
            server_.leader_until(leads.until);
            lead(static_cast<std::uint64_t>(leads.epoch));
          },
          [this](const election::Renewed& renewed) {
            // Replies are paused during a transfer.
            if (is_paused_) {
              paused_until_ = renewed.until;
            } else {
              server_.leader_until(renewed.until);
            }
            // The lease was renewed, so it leads even if changes cannot be written.
            trouble_.is_silence = false;
            look_whether_etcd_is_waited_for();
          },
          [this](const election::Deposed& deposed) {
            // In a transfer, the successor is notified first, once it is recorded in etcd.
            is_resigning_ = deposed.is_orderly && successor_is_told_;
            if (!is_resigning_) stop_leading(deposed.reason, deposed.is_orderly);
          },
          [this](const election::NotHandedOver& it) { not_handed_over(it.reason); },
          [this](const election::Written& written) { heard_written(written.through); },
          [this](const election::NotWritten& refused) { heard_refused(refused); },
          [this](const election::Withdrawn&) {
            if (is_resigning_) transfer();
            if (left_) left();
          },
          [this](const election::Unreachable& it) { on(it); },
          [&](const election::Reachable&) {
            silence_alarm_->call_off();
            no_trouble(trouble_.unreachable, "etcd responds again");
          },
          [&](const election::Unwritable& it) {
            callbacks_.say(LogLevel::warning, it.reason);
            note_trouble(trouble_.unwritable, it.reason, !it.is_refused);
          },
          [&](const election::Writable&) {
            no_trouble(trouble_.unwritable, "etcd accepts writes again");
          },
          [&](const election::Inconsistent& it) {
            callbacks_.say(LogLevel::warning, it.reason);
            note_trouble(trouble_.barred, it.reason, false);
            if (!leads_) (void)server_.follow({it.reason});
          },
          [&](const election::Unbarred&) { no_trouble(trouble_.barred, "etcd data is restored"); },
      },
      action);
}

void ReplicaController::note_trouble(std::string& kind, const std::string& reason,
                                     bool is_silence) {
  kind = reason;
  trouble_.is_silence = is_silence;
  look_whether_etcd_is_waited_for();
  cannot_hand_over("no other cpprund can become the leader: " + reason);
}

// "etcd at http://a:2379 has not responded for 7.0 s".
std::string ReplicaController::silence_text() const {
  std::string members;
  for (const EtcdEndpoint& each : options_.etcd.endpoints) {
    members += (members.empty() ? "" : ", ") + to_string(each);
  }
  return fmt::format("etcd at {} has not responded for {:.1f} s", members,
                     in_seconds(ports_.loop.now() - trouble_.silent_since));
}

std::string ReplicaController::with_silence(const std::string& reason) const {
  return trouble_.unreachable.empty() ? reason : fmt::format("{}; {}", reason, silence_text());
}

// Logged when it begins, and once more before the lease of a leader ends.
void ReplicaController::on(const election::Unreachable& it) {
  trouble_.silent_since = ports_.loop.now() - it.silence;
  const auto tell = [this](const std::string& why) {
    std::string text = silence_text();
    const auto until = is_paused_ ? paused_until_ : server_.speaks_until();
    if (leads_ && until) {
      text += fmt::format("; jobs keep running, the leader's lease ends in {:.1f} s",
                          in_seconds(*until - ports_.loop.now()));
    }
    callbacks_.say(LogLevel::warning, why.empty() ? text : text + ": " + why);
  };
  tell(it.reason);
  note_trouble(trouble_.unreachable, it.reason, /*is_silence=*/true);
  const auto until = server_.speaks_until();
  if (!leads_ || !until) return;
  const Duration left = *until - ports_.loop.now();
  if (left > options_.etcd_lease / 4) {
    silence_alarm_->ring_in(left - options_.etcd_lease / 4, [this, tell] {
      if (leads_ && !trouble_.unreachable.empty()) tell("");
    });
  }
}

void ReplicaController::on(const election::NoLeader& left) {
  if (is_resigning_) return transfer();
  if (leads_ || expects_lead_) return;
  watch_.lost(ports_.loop.now(),
              left.successor.empty()
                  ? std::string("the leader's lease in etcd ended")
                  : fmt::format("leadership was transferred to \"{}\"", called(left.successor)));
  leader_.clear();
  leader_address_.clear();
  (void)server_.follow({"there is no leader"});
}

void ReplicaController::on(const election::LeaderIs& leader) {
  epoch_max_ = std::max(epoch_max_, static_cast<std::uint64_t>(leader.epoch));
  if (is_resigning_) transfer();
  if (std::exchange(expects_lead_, false) && left_) withdraw();
  // A member with the same name at another address may be a duplicate. Following it makes it report
  // the problem.
  const bool is_own =
      leader.name == options_.name ||
      (called(leader.name) == called(options_.name) && leader.card == options_.place);
  if (is_own) {
    (void)server_.follow({"the lease of its previous run has not ended yet"});
    return;
  }
  epoch_ = static_cast<std::uint64_t>(leader.epoch);
  follow_leader(leader.name, leader.card, epoch_);
  note_leader(false);
}

// Changes that cannot be written are not waited for: the problem is already reported (`trouble_`).
// There is one exception: if etcd does not respond and no standby is in sync, this member may soon
// lose its lease to a leader that has only what is in etcd.
bool ReplicaController::waits_for_etcd() const {
  if (trouble_.text().empty()) return true;
  return trouble_.is_silence &&
         std::ranges::none_of(standbys_.seen(), &StandbySnapshot::is_in_sync);
}

void ReplicaController::look_whether_etcd_is_waited_for() {
  if (!waits_for_etcd()) server_.kept(CommitSource::record, last_number_);
}

void ReplicaController::heard_written(std::uint64_t through) {
  written_ = through;
  server_.kept(CommitSource::record, through);
  while (!published_.empty() && published_.begin()->first <= through) {
    const auto names = published_.extract(published_.begin()).mapped();
    standbys_.known(names);
  }
  go_on_with_hand_over();
}

// A record was too large, or one too many. Its job continues without waiting for it. Each change of
// that job is rejected, so the reason is logged once.
void ReplicaController::heard_refused(const election::NotWritten& refused) {
  published_.erase(refused.number);
  if (std::exchange(refused_, refused.reason) == refused.reason) return;
  callbacks_.say(LogLevel::warning, "not saved in etcd for the next leader: " + refused.reason);
}

void ReplicaController::make_known(const std::vector<std::string>& names) {
  // The election accepts nothing more unless the transfer is aborted.
  if (successor_is_told_) {
    unknown_names_ = names;
    return;
  }
  std::vector<std::string> others = names;
  std::erase(others, options_.name);
  published_[++last_number_] = names;
  election_->tell(election::Publish{std::move(others), last_number_});
}

// --- transfer of leadership, on request or at shutdown -------------------------------------------

void ReplicaController::hand_over(HandedOver then) {
  const auto begun =
      asked_
          ? failure(fmt::format("a handover to \"{}\" is in progress", called(asked_->successor)))
          : begin_hand_over();
  if (!begun) return then(begun);
  asked_ = {successor_, ports_.loop.now(), std::move(then)};
  asked_alarm_->ring_in(bounds::hand_over_answer, [this] {
    if (!asked_) return;
    answer_asked(failure(fmt::format(
        "leadership was transferred to \"{}\", but it has not reported as the leader within {} s; "
        "see its log and cpprunctl status",
        called(asked_->successor),
        std::chrono::duration_cast<std::chrono::seconds>(bounds::hand_over_answer).count())));
  });
  // If etcd is already known to reject it, the answer comes at once.
  go_on_with_hand_over();
}

void ReplicaController::answer_asked(const Result<std::string>& said) {
  asked_alarm_->call_off();
  const auto asked = std::exchange(asked_, std::nullopt);
  if (asked) asked->then(said);
}

// Why there is no successor, with a hint.
Error ReplicaController::no_successor() const {
  const auto standbys = standbys_.seen();
  if (standbys.empty()) {
    return Error{
        "this cpprund has no standby; start another cpprund with the same --etcd and --cluster"};
  }
  return Error{fmt::format(
      "no standby is in sync: \"{}\" at {} is {} bytes behind; retry when cpprunctl status shows "
      "it as in sync",
      called(standbys.front().name), standbys.front().place, standbys.front().bytes_behind)};
}

Result<std::string> ReplicaController::begin_hand_over() {
  if (!leads_) return failure("this cpprund is not the leader");
  if (!successor_.empty())
    return failure(fmt::format("a handover to \"{}\" is in progress", called(successor_)));
  // The successor could not win, and the cluster would have no leader.
  if (!trouble_.text().empty()) {
    return failure(
        fmt::format("no other cpprund can become the leader while etcd accepts no writes: {}; this "
                    "cpprund stays the leader",
                    trouble_.text()));
  }
  std::string successor;
  for (const StandbySnapshot& each : standbys_.seen()) {
    if (!each.is_in_sync || !successor.empty()) continue;
    successor = each.name;
    successor_address_ = each.place;
  }
  if (successor.empty()) return tl::unexpected<Error>(no_successor());
  successor_ = successor;
  successor_is_told_ = false;
  callbacks_.say(LogLevel::info,
                 fmt::format("transferring leadership to \"{}\"", called(successor_)));
  alarm_->ring_in(bounds::hand_over_timeout, [this] { abort_transfer(); });
  // An etcd without space still renews leases, but no successor could win. A write tells whether it
  // has space.
  make_known(standbys_.names());
  successor_waits_for_ = last_number_;
  return fmt::format("transferring leadership to \"{}\" at {}", called(successor_),
                     successor_address_);
}

// Pauses all replies, so that the successor can catch up completely.
void ReplicaController::pause_replies() {
  if (std::exchange(is_paused_, true)) return;
  paused_until_ = server_.speaks_until();
  server_.leader_until(ports_.loop.now());
  watch_.lost(ports_.loop.now(),
              fmt::format("leadership was transferred to \"{}\"", called(successor_)));
  if (asked_) asked_->paused = ports_.loop.now();
}

void ReplicaController::go_on_with_hand_over() {
  if (successor_.empty() || successor_is_told_ || !leads_) return;
  if (written_ < successor_waits_for_) return;
  pause_replies();
  if (!standbys_.is_ready(successor_)) return;
  successor_is_told_ = true;
  election_->tell(election::HandOver{successor_});
}

void ReplicaController::transfer() {
  is_resigning_ = false;
  alarm_->call_off();
  const std::string successor = successor_;
  standbys_.hand_over(successor);
  stop_leading(fmt::format("leadership was transferred to \"{}\"", called(successor)),
               /*is_planned=*/true);
  if (left_) withdraw();
}

// The successor has not caught up in time.
void ReplicaController::abort_transfer() {
  if (successor_.empty() || !leads_) {
    // It lost leadership meanwhile; the shutdown continues.
    if (left_) withdraw();
    return;
  }
  if (is_resigning_) return transfer();
  if (left_) return withdraw();
  if (successor_is_told_) return;
  abort_transfer(
      is_paused_ ? fmt::format("\"{}\" has not confirmed that it is in sync", called(successor_))
                 : std::string("etcd has not confirmed a write"));
}

// Aborts a transfer before the successor has received the order to take over.
void ReplicaController::cannot_hand_over(const std::string& reason) {
  if (successor_.empty() || successor_is_told_ || !leads_) return;
  abort_transfer(reason);
  if (left_) withdraw();
}

// etcd could not record the successor.
void ReplicaController::not_handed_over(const std::string& reason) {
  if (!successor_is_told_) return;
  abort_transfer(reason);
  if (left_) withdraw();
}

// Aborts the transfer because of `reason`, and sends the replies that were paused.
void ReplicaController::abort_transfer(const std::string& reason) {
  callbacks_.say(LogLevel::warning, reason + "; this cpprund stays the leader");
  successor_.clear();
  successor_address_.clear();
  successor_is_told_ = false;
  alarm_->call_off();
  if (std::exchange(is_paused_, false)) server_.leader_until(paused_until_);
  if (asked_) answer_asked(failure(reason + "; this cpprund stays the leader; retry"));
  note_leader(false);
  if (const auto names = std::exchange(unknown_names_, {}); !names.empty()) make_known(names);
}

// The leader transfers leadership to this member.
void ReplicaController::take_over() {
  callbacks_.say(LogLevel::info,
                 fmt::format("\"{}\" transfers leadership to this cpprund", called(leader_)));
  watch_.lost(ports_.loop.now(),
              fmt::format("leadership was transferred to \"{}\"", called(options_.name)));
  expects_lead_ = true;
  follower_.leave();
  (void)server_.follow(
      {.reason = "this cpprund is about to become the leader", .is_about_to_lead = true});
  alarm_->ring_in(bounds::hand_over_timeout, [this] {
    if (leads_ || !std::exchange(expects_lead_, false)) return;
    (void)server_.follow({"there is no leader"});
    if (left_) withdraw();
  });
  election_->tell(election::Attend{});
}

void ReplicaController::leave(std::function<void()> done) {
  left_ = std::move(done);
  // A transfer under way completes first. Messages that have arrived are handled first as well,
  // since their senders may have exited.
  if (expects_lead_ || (leads_ && !successor_.empty())) return;
  alarm_->ring_in(bounds::last_words, [this] {
    if (left_ && !expects_lead_) end_leading();
  });
}

bool ReplicaController::knows_no_job() const {
  const auto records = server_.records();
  return records.size() == records.count(hosts_record_name);
}

void ReplicaController::end_leading() {
  const bool has_none = options_.leaves_nothing && knows_no_job();
  if (leads_ && !has_none && !trouble_.text().empty()) {
    callbacks_.say(LogLevel::warning,
                   fmt::format("exiting without a new leader, because etcd accepts no writes: {}; "
                               "the standby takes over when etcd accepts writes again",
                               trouble_.text()));
  }
  const bool hands_over =
      leads_ && !has_none && (!successor_.empty() || begin_hand_over().has_value());
  hands_over ? go_on_with_hand_over() : withdraw();
}

void ReplicaController::withdraw() {
  alarm_->ring_in(bounds::hand_over_timeout, [this] {
    if (left_) left();
  });
  if (options_.leaves_nothing) drop_what_is_over();
  election_->tell(election::Withdraw{});
}

// Removes the records of finished jobs, so that nothing stays in etcd. A node that has not received
// the result of its job then never will. The record of hosts goes too if no job continues.
void ReplicaController::drop_what_is_over() {
  bool goes_on = false;
  for (const auto& [job, bytes] : server_.records()) {
    if (job == hosts_record_name) continue;
    const auto record = read_job_record(bytes, ClockPair{});
    const bool is_over = record && record->finish;
    if (is_over) forget(job);
    goes_on = goes_on || !is_over;
  }
  if (!goes_on) forget(hosts_record_name);
}

// Gives clients time to receive the redirect before this process exits.
void ReplicaController::left() {
  constexpr auto glance = std::chrono::milliseconds(5);
  constexpr int glances_max = 100;
  alarm_->call_off();
  if (leads_ || server_.link_count() == 0 || ++glances_ > glances_max) {
    ports_.loop.soon(std::exchange(left_, nullptr));
    return;
  }
  alarm_->ring_in(glance, [this] { left(); });
}

// --- state that the previous leader left ---------------------------------------------------------

// Recovers from the best source of state. A standby in sync and the previous leader have
// everything. Otherwise etcd has the records, but the contents of the stores are lost.
void ReplicaController::recover_all() {
  const bool is_named = std::ranges::find(found_.synced, options_.name) != found_.synced.end();
  const bool is_synced = found_.synced.empty() || is_named;
  if (is_synced && follower_.is_whole()) return recover(follower_.records(), "its own replica");
  if (is_synced && has_led_) return recover(own_records_, "its state as the previous leader");
  server_.end_replicas({});
  return recover(found_.records, "etcd, without the contents of their stores");
}

void ReplicaController::recover(const std::map<std::string, std::string>& records,
                                const char* source) {
  // The previous leader may have begun a store without having sent the record of its round.
  server_.end_replicas(records);
  std::size_t count = 0;
  for (const auto& [job, bytes] : records) {
    if (job == hosts_record_name) {
      recover_hosts(bytes);
      continue;
    }
    auto record = read_job_record(bytes, moment());
    if (!record || record->job() != job) {
      callbacks_.say(LogLevel::error,
                     fmt::format("cannot resume job \"{}\": its record {}", job,
                                 record ? "belongs to another job" : record.error().reason));
      server_.end_replica(job);
      continue;
    }
    record->alive = watch_.lost_at();
    server_.recover_with_replica(*std::move(record));
    ++count;
  }
  // Records in etcd that are obsolete.
  for (const auto& [name, record] : found_.records) {
    if (!records.contains(name)) forget(name);
  }
  if (count == 0) return;
  callbacks_.say(LogLevel::info,
                 fmt::format("resuming {} job{} from {}", count, count == 1 ? "" : "s", source));
}

void ReplicaController::recover_hosts(const std::string& bytes) {
  auto hosts = read_hosts_record(bytes, moment());
  if (hosts) return server_.recover_hosts(*std::move(hosts));
  callbacks_.say(LogLevel::error, fmt::format("excluded hosts are admitted again: their record {}",
                                              hosts.error().reason));
}

}  // namespace cpprun

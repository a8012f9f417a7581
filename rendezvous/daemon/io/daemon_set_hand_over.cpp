// SPDX-License-Identifier: BSD-3-Clause
// The part of DaemonSet that hands the lead over, as it is asked to or on its way out.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "proto/bounds.h"
#include "proto/state_machine.h"
#include "rendezvous/daemon/io/daemon_set.h"
#include "rendezvous/daemon/member_name.h"
#include "rendezvous/job/exclusions_json.h"
#include "rendezvous/job/job_record_json.h"

namespace cpprun {

void DaemonSet::hand_over(HandedOver then) {
  const auto begun =
      asked_ ? failure(fmt::format("it is just being handed over to \"{}\"", called(asked_->heir)))
             : begin_hand_over();
  if (!begun) return then(begun);
  asked_ = {heir_, ports_.loop.now(), std::move(then)};
  asked_alarm_->ring_in(bounds::hand_over_answer, [this] {
    if (!asked_) return;
    answer_asked(failure(fmt::format(
        "it was handed over to \"{}\", which was not heard to lead within {} s: its log and "
        "cpprunctl status say what it does",
        called(asked_->heir),
        std::chrono::duration_cast<std::chrono::seconds>(bounds::hand_over_answer).count())));
  });
  // Etcd may be known to refuse it, which is heard at once.
  go_on_with_hand_over();
}

void DaemonSet::answer_asked(const Result<std::string>& said) {
  asked_alarm_->call_off();
  const auto asked = std::exchange(asked_, std::nullopt);
  if (asked) asked->then(said);
}

// Why not, and what helps.
Error DaemonSet::nobody_to_hand_over_to() const {
  const auto standbys = standbys_.seen();
  if (standbys.empty()) {
    return Error{
        fmt::format("nobody stands by for this cpprund: start another one with {}",
                    contest_ ? "the same --etcd and --cluster" : "--standby-of=" + options_.place)};
  }
  return Error{fmt::format(
      "nobody stands by for it that has everything: \"{}\" at {} is {} bytes behind; ask again "
      "when cpprunctl status says that it is in sync",
      called(standbys.front().name), standbys.front().place, standbys.front().bytes_behind)};
}

Result<std::string> DaemonSet::begin_hand_over() {
  if (!leads_) return failure("this cpprund does not lead");
  if (!heir_.empty())
    return failure(fmt::format("it is just being handed over to \"{}\"", called(heir_)));
  // The heir could not win, and nobody would lead.
  if (!trouble_.text().empty()) {
    return failure(
        fmt::format("nobody else can lead now, since etcd takes no changes: {}; this "
                    "one leads on until it does",
                    trouble_.text()));
  }
  std::string heir;
  for (const StandbySnapshot& each : standbys_.seen()) {
    if (!each.is_in_sync || !heir.empty()) continue;
    heir = each.name;
    heir_place_ = each.place;
  }
  if (heir.empty()) return tl::unexpected<Error>(nobody_to_hand_over_to());
  heir_ = heir;
  heir_is_told_ = false;
  callbacks_.say(LogLevel::info, fmt::format("hands over to \"{}\"", called(heir_)));
  alarm_->ring_in(bounds::hand_over_patience, [this] { give_up_hand_over(); });
  // An etcd that has no room renews leases all the same: nobody could win.
  if (contest_) make_known(standbys_.names());
  heir_waits_for_ = last_number_;
  return fmt::format("hands over to \"{}\" at {}", called(heir_), heir_place_);
}

// From here on nobody hears anything, so that the other one has everything in a moment.
void DaemonSet::fall_silent() {
  if (std::exchange(is_mute_, true)) return;
  muted_until_ = server_.speaks_until();
  server_.speak_until(ports_.loop.now());
  watch_.lost(ports_.loop.now(), fmt::format("it has handed over to \"{}\"", called(heir_)));
  if (asked_) asked_->muted = ports_.loop.now();
}

void DaemonSet::go_on_with_hand_over() {
  if (heir_.empty() || heir_is_told_ || !leads_) return;
  if (contest_ && written_ < heir_waits_for_) return;
  fall_silent();
  if (!standbys_.is_ready(heir_)) return;
  heir_is_told_ = true;
  if (contest_) return contest_->tell(contest::HandOver{heir_});
  ports_.loop.soon([this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired() && leads_) pass_on();
  });
}

void DaemonSet::pass_on() {
  is_resigning_ = false;
  alarm_->call_off();
  const std::string heir = heir_;
  const std::string place = heir_place_;
  standbys_.hand_over(heir);
  stop_leading(fmt::format("it has handed over to \"{}\"", called(heir)), /*is_planned=*/true);
  if (contest_) {
    if (left_) withdraw();
    return;
  }
  callbacks_.forget_own();
  epoch_max_ = std::max(epoch_max_, epoch_ + 1);
  if (options_.may_dial) {
    follow_place(heir, place, 0);
  } else {
    stay_behind(heir, place);
  }
  if (left_) left();
}

// It was started alone, and dials nobody: it says who leads to whoever asks, and is of no other
// use.
void DaemonSet::stay_behind(const std::string& heir, const std::string& place) {
  is_left_behind_ = true;
  has_led_ = false;
  own_records_.clear();
  ++epoch_;
  epoch_max_ = std::max(epoch_max_, epoch_);
  leader_ = heir;
  leader_place_ = place;
  answer_asked(fmt::format(
      "\"{}\" at {} was told to lead, in epoch {}; this cpprund was started alone and cannot stand "
      "by for it: end it",
      called(heir), place, epoch_));
  note_leader(false);
}

// The other one has not said in time that it has everything.
void DaemonSet::give_up_hand_over() {
  if (heir_.empty() || !leads_) {
    // It was deposed meanwhile, and is on its way out all the same.
    if (left_) withdraw();
    return;
  }
  if (is_resigning_) return pass_on();
  if (left_) return withdraw();
  if (heir_is_told_) return;
  lead_on(is_mute_ ? fmt::format("\"{}\" does not say that it has everything", called(heir_))
                   : std::string("etcd does not say that it takes changes"));
}

// Before anything was said to anybody.
void DaemonSet::cannot_hand_over(const std::string& reason) {
  if (heir_.empty() || heir_is_told_ || !leads_) return;
  lead_on(reason);
  if (left_) withdraw();
}

// Etcd could not name the heir.
void DaemonSet::not_handed_over(const std::string& reason) {
  if (!heir_is_told_) return;
  lead_on(reason);
  if (left_) withdraw();
}

// Nothing was handed over, for that reason: what nobody was told meanwhile they are told now.
void DaemonSet::lead_on(const std::string& reason) {
  callbacks_.say(LogLevel::warning, reason + ": this one leads on");
  heir_.clear();
  heir_place_.clear();
  heir_is_told_ = false;
  alarm_->call_off();
  if (std::exchange(is_mute_, false)) server_.speak_until(muted_until_);
  if (asked_) answer_asked(failure(reason + ": this one leads on; ask again"));
  note_leader(false);
  if (const auto names = std::exchange(unknown_names_, {}); !names.empty()) make_known(names);
}

// From the one that has led until now.
void DaemonSet::take_over(std::uint64_t epoch) {
  callbacks_.say(LogLevel::info, fmt::format("\"{}\" hands over", called(leader_)));
  watch_.lost(ports_.loop.now(),
              fmt::format("it has handed over to \"{}\"", called(options_.name)));
  if (!contest_) return lead(epoch + 1);
  expects_lead_ = true;
  follower_.leave();
  (void)server_.follow({.reason = "this cpprund is about to lead", .is_about_to_lead = true});
  alarm_->ring_in(bounds::hand_over_patience, [this] {
    if (leads_ || !std::exchange(expects_lead_, false)) return;
    (void)server_.follow({"nobody leads at the moment"});
    if (left_) withdraw();
  });
  contest_->tell(contest::Attend{.is_imminent = true});
}

// Without an etcd. Whoever it was to stand by for stands by for it, and so nobody leads: it did in
// its life before, or was told to in words that were lost. What one says that has not heard yet
// that this one has handed over is of an epoch before.
void DaemonSet::lead_again(std::uint64_t epoch) {
  if (leads_ || epoch < epoch_max_) return;
  callbacks_.say(
      LogLevel::info,
      fmt::format("the cpprund at {} stands by for this one, which leads again", leader_place_));
  lead(std::max(own_epoch(), epoch + 1));
}

void DaemonSet::leave(std::function<void()> done) {
  left_ = std::move(done);
  // What it has just been handed goes to the next one; and what has come by now is heard first, for
  // whoever has said it may have ended.
  if (expects_lead_ || (leads_ && !heir_.empty())) return;
  alarm_->ring_in(bounds::last_words, [this] {
    if (left_ && !expects_lead_) end_leading();
  });
}

bool DaemonSet::knows_no_job() const {
  const auto records = server_.records();
  return records.size() == records.count(hosts_record_name);
}

void DaemonSet::end_leading() {
  const bool has_none = options_.leaves_nothing && knows_no_job();
  if (leads_ && !has_none && !trouble_.text().empty()) {
    callbacks_.say(LogLevel::warning,
                   fmt::format("nobody else can lead now, and this one ends: whoever stands by "
                               "leads when etcd takes changes again: {}",
                               trouble_.text()));
  }
  const bool hands_over = leads_ && !has_none && (!heir_.empty() || begin_hand_over().has_value());
  hands_over ? go_on_with_hand_over() : withdraw();
}

void DaemonSet::withdraw() {
  if (!contest_) return left();
  alarm_->ring_in(bounds::hand_over_patience, [this] {
    if (left_) left();
  });
  if (options_.leaves_nothing) drop_what_is_over();
  contest_->tell(contest::Withdraw{});
}

// Whoever has not heard how a job has ended, and comes after the last of all, hears nothing. Where
// none goes on there are none to come.
void DaemonSet::drop_what_is_over() {
  bool goes_on = false;
  for (const auto& [job, bytes] : server_.records()) {
    if (job == hosts_record_name) continue;
    const auto record = read_job_record(bytes, Moment{});
    const bool is_over = record && record->finish;
    if (is_over) forget(job);
    goes_on = goes_on || !is_over;
  }
  if (!goes_on) forget(hosts_record_name);
}

// Whoever was told where to ask hears it before this process ends.
void DaemonSet::left() {
  constexpr auto glance = std::chrono::milliseconds(5);
  constexpr int glances_max = 100;
  alarm_->call_off();
  if (leads_ || server_.link_count() == 0 || ++glances_ > glances_max) {
    ports_.loop.soon(std::exchange(left_, nullptr));
    return;
  }
  alarm_->ring_in(glance, [this] { left(); });
}

}  // namespace cpprun

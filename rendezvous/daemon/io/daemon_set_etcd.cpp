// SPDX-License-Identifier: BSD-3-Clause
// The part of DaemonSet that hears who leads from etcd, and has written there what has to be.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "proto/bounds.h"
#include "proto/state_machine.h"
#include "rendezvous/daemon/io/daemon_set.h"
#include "rendezvous/daemon/member_name.h"

namespace cpprun {

void DaemonSet::hear(const contest::Action& action) {
  const auto no_trouble = [this](std::string& kind, const char* sentence) {
    kind.clear();
    callbacks_.say(LogLevel::info, sentence);
  };
  std::visit(
      Overloaded{
          [](const contest::Ask&) {},   // the host's own
          [](const contest::Will&) {},  // and this
          [this](const contest::LeaderIs& leader) { on(leader); },
          [this](const contest::NobodyLeads& left) { on(left); },
          [this](const contest::Found& found) { found_ = found; },
          [this](const contest::Leads& leads) {
            server_.speak_until(leads.until);
            memory_.epoch = std::max(memory_.epoch, leads.epoch);
            lead(static_cast<std::uint64_t>(leads.epoch));
          },
          [this](const contest::Renewed& renewed) {
            // Whoever hands over says nothing meanwhile.
            if (is_mute_) {
              muted_until_ = renewed.until;
            } else {
              server_.speak_until(renewed.until);
            }
            // It leads, be it that changes cannot be written.
            trouble_.is_silence = false;
            look_whether_etcd_is_waited_for();
            // By now everything that goes on is written.
            if (leads_) keep_self(true);
          },
          [this](const contest::Deposed& deposed) {
            // The other one comes first, as soon as that is in etcd.
            is_resigning_ = deposed.is_orderly && heir_is_told_;
            if (!is_resigning_) stop_leading(deposed.reason, deposed.is_orderly);
          },
          [this](const contest::NotHandedOver& it) { not_handed_over(it.reason); },
          [this](const contest::Written& written) { heard_written(written.through); },
          [this](const contest::NotWritten& refused) { heard_refused(refused); },
          [this](const contest::Withdrawn&) {
            if (is_resigning_) pass_on();
            if (left_) left();
          },
          [this](const contest::Unreachable& it) { on(it); },
          [&](const contest::Reachable&) {
            silence_alarm_->call_off();
            no_trouble(trouble_.unreachable, "etcd answers again");
          },
          [&](const contest::Unwritable& it) {
            callbacks_.say(LogLevel::warning, "etcd: " + it.reason);
            note_trouble(trouble_.unwritable, it.reason, !it.is_refused);
          },
          [&](const contest::Writable&) {
            no_trouble(trouble_.unwritable, "etcd takes changes again");
          },
          [&](const contest::Barred& it) {
            callbacks_.say(LogLevel::warning, "etcd: " + it.reason);
            note_trouble(trouble_.barred, it.reason, false);
            if (!leads_) (void)server_.follow({it.reason});
          },
          [&](const contest::Unbarred&) { no_trouble(trouble_.barred, "etcd is what it was"); },
          [this](const contest::ClusterIs& it) { memory_.cluster = it.id; },
      },
      action);
}

void DaemonSet::note_trouble(std::string& kind, const std::string& reason, bool is_silence) {
  kind = reason;
  trouble_.is_silence = is_silence;
  look_whether_etcd_is_waited_for();
  cannot_hand_over("nobody else can lead now: " + reason);
}

// "etcd at http://a:2379 not responding for 7.0 s".
std::string DaemonSet::silence_text() const {
  std::string members;
  for (const EtcdEndpoint& each : options_.etcd->endpoints) {
    members += (members.empty() ? "" : ", ") + to_string(each);
  }
  return fmt::format("etcd at {} not responding for {:.1f} s", members,
                     in_seconds(ports_.loop.now() - trouble_.silent_since));
}

std::string DaemonSet::with_silence(const std::string& reason) const {
  return trouble_.unreachable.empty() ? reason : fmt::format("{}; {}", reason, silence_text());
}

// Said when it begins, and where it leads once more before its lease ends.
void DaemonSet::on(const contest::Unreachable& it) {
  trouble_.silent_since = ports_.loop.now() - it.silence;
  const auto tell = [this](const std::string& why) {
    std::string text = silence_text();
    const auto until = is_mute_ ? muted_until_ : server_.speaks_until();
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

void DaemonSet::on(const contest::NobodyLeads& left) {
  if (is_resigning_) return pass_on();
  if (leads_ || expects_lead_) return;
  watch_.lost(ports_.loop.now(),
              left.heir.empty() ? std::string("its lease in etcd has ended")
                                : fmt::format("it has handed over to \"{}\"", called(left.heir)));
  leader_.clear();
  leader_place_.clear();
  (void)server_.follow({"nobody leads at the moment"});
}

void DaemonSet::on(const contest::LeaderIs& leader) {
  epoch_max_ = std::max(epoch_max_, static_cast<std::uint64_t>(leader.epoch));
  if (is_resigning_) pass_on();
  if (std::exchange(expects_lead_, false) && left_) withdraw();
  memory_.epoch = std::max(memory_.epoch, leader.epoch);
  // At another place one of that name may live, and says what is wrong with that when it is asked.
  const bool is_own =
      leader.name == options_.name ||
      (called(leader.name) == called(options_.name) && leader.card == options_.place);
  if (is_own) {
    (void)server_.follow({"the lease that it had in an earlier life has not ended yet"});
    return;
  }
  epoch_ = static_cast<std::uint64_t>(leader.epoch);
  follow_place(leader.name, leader.card, epoch_);
  note_leader(false);
}

// Nobody waits for what cannot be written now: that it is not is known (`trouble`). But one that
// hears nothing of etcd may lead no more in a moment, and then somebody else does who has only what
// etcd has.
bool DaemonSet::waits_for_etcd() const {
  if (trouble_.text().empty()) return true;
  return trouble_.is_silence &&
         std::ranges::none_of(standbys_.seen(), &StandbySnapshot::is_in_sync);
}

void DaemonSet::look_whether_etcd_is_waited_for() {
  if (!waits_for_etcd()) server_.kept(Keeping::etcd, last_number_);
}

void DaemonSet::heard_written(std::uint64_t through) {
  written_ = through;
  server_.kept(Keeping::etcd, through);
  while (!published_.empty() && published_.begin()->first <= through) {
    const auto names = published_.extract(published_.begin()).mapped();
    standbys_.known(names);
  }
  go_on_with_hand_over();
}

// Of a job that is too large, or one too many: it is not waited for, and goes on. Each step of it
// is refused, and said once.
void DaemonSet::heard_refused(const contest::NotWritten& refused) {
  published_.erase(refused.number);
  if (std::exchange(refused_, refused.reason) == refused.reason) return;
  callbacks_.say(LogLevel::warning, "etcd does not have it for the next leader: " + refused.reason);
}

void DaemonSet::make_known(const std::vector<std::string>& names) {
  if (!contest_) {
    ports_.loop.soon([this, names, alive = std::weak_ptr(alive_)] {
      if (!alive.expired()) standbys_.known(names);
    });
    return;
  }
  // The contest takes nothing more, unless it leads on.
  if (heir_is_told_) {
    unknown_names_ = names;
    return;
  }
  std::vector<std::string> others = names;
  std::erase(others, options_.name);
  published_[++last_number_] = names;
  contest_->tell(contest::Publish{std::move(others), last_number_});
}

}  // namespace cpprun

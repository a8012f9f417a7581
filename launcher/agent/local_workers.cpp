// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/local_workers.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "launcher/agent/agent_text.h"
#include "proto/signal_names.h"

namespace cpprun {

namespace {

// A script may handle a timeout and try again: not each one is captured.
constexpr Duration pause_between_timeouts = std::chrono::seconds(60);

// Thousandths of a step per second.
std::int64_t rate_of(std::int64_t steps, Duration took) {
  if (took <= Duration{}) return 0;
  return static_cast<std::int64_t>(1000.0 * static_cast<double>(steps) / in_seconds(took));
}

std::optional<std::int64_t> where_told(std::uint64_t figure) {
  return figure == 0 ? std::nullopt : std::optional(static_cast<std::int64_t>(figure));
}

// "1, 3, 5", plus how many more there are.
template <class T, class Text>
std::string listed(const std::vector<T>& all, Text text) {
  constexpr std::size_t shown_max = 8;
  std::string list;
  for (std::size_t i = 0; i < std::min(all.size(), shown_max); ++i) {
    list += (i == 0 ? "" : ", ") + text(all[i]);
  }
  if (all.size() > shown_max) list += fmt::format(" and {} more", all.size() - shown_max);
  return list;
}

// `signal`: the user's signal, if one caused the stop.
std::string still_ending_text(const supervisor::StillEnding& still, std::optional<int> signal) {
  std::string what;
  if (still.ranks.empty()) {
    what = fmt::format("{} process{} that workers started", still.others,
                       still.others == 1 ? "" : "es");
  } else {
    what =
        fmt::format("{} worker{} (rank {})", still.ranks.size(), still.ranks.size() == 1 ? "" : "s",
                    listed(still.ranks, [](Rank rank) { return fmt::format("{}", rank.value); }));
  }
  auto text = fmt::format("waiting up to {:.1f} s for {}", in_seconds(still.left), what);
  if (!signal) return text;
  const auto* const it =
      still.ranks.size() + static_cast<std::size_t>(still.others) == 1 ? "it" : "them";
  if (*signal == SIGINT) return text + fmt::format("; Ctrl-C again kills {}", it);
  return text + fmt::format("; a second {} kills {}", signal_name(*signal), it);
}

std::string leaving_text(const supervisor::Leaving& leaving) {
  const auto ranks = listed(leaving.ranks, [](Rank rank) { return fmt::format("{}", rank.value); });
  return fmt::format("{}; {} {} keep{} running, waiting for the next round", leaving.reason,
                     leaving.ranks.size() == 1 ? "rank" : "ranks", ranks,
                     leaving.ranks.size() == 1 ? "s" : "");
}

std::string leftover_text(const supervisor::Leftover& left, Duration grace) {
  using Fate = supervisor::Leftover::Fate;
  const auto processes = listed(left.processes, [](const TreeProcess& each) {
    return fmt::format("pid {} ({})", each.pid, each.command);
  });
  const bool is_one = left.processes.size() == 1;
  switch (left.fate) {
    case Fate::awaited:
      return fmt::format(
          "note: the workers exited, but {} that they started still run{}: {}; waiting up to "
          "{:.1f} s\n  hint: --stragglers=leave lets such processes continue, --stragglers=kill "
          "ends them at once",
          is_one ? "a process" : fmt::format("{} processes", left.processes.size()),
          is_one ? "s" : "", processes, in_seconds(grace));
    case Fate::released:
      return fmt::format("note: left running (--stragglers=leave): {}", processes);
    case Fate::ended:
      return fmt::format("warning: {} still running {:.1f} s after the workers; ending {}",
                         processes, in_seconds(grace), is_one ? "it" : "them");
    case Fate::killed:
      return fmt::format(
          "warning: {}, started by workers, did not exit within {:.1f} s (--shutdown-timeout); "
          "killing {}",
          processes, in_seconds(grace), is_one ? "it" : "them");
  }
  return "";
}

}  // namespace

bool WorkerStatsReporter::watch(TimePoint now, Duration length) {
  until_ = std::max(until_, now + length);
  return !std::exchange(is_looking_, true);
}

bool WorkerStatsReporter::changed(TimePoint now) {
  return now < until_ && !std::exchange(is_looking_, true);
}

link::Status WorkerStatsReporter::tell(TimePoint now, RoundNumber round,
                                       const std::vector<WorkerView>& workers,
                                       const std::vector<WorkerSight>& sights) {
  is_looking_ = false;
  std::vector<link::WorkerStats> all;
  for (const WorkerView& view : workers) {
    const auto seen = std::ranges::find(sights, view.local_rank, &WorkerSight::local_rank);
    const WorkerSight none{.local_rank = view.local_rank};
    all.push_back(figures_of(now, view, seen == sights.end() ? none : *seen));
  }
  // The total and metrics of the first worker that has any. They leave room for the other rows.
  auto at = std::ranges::find_if(all, [](const link::WorkerStats& each) {
    return each.total.has_value() || !each.metrics.empty();
  });
  while (at != all.end() && ++at != all.end()) {
    at->total.reset();
    at->metrics.clear();
  }
  const std::vector<std::size_t> order = in_turn(workers);
  // A frame always fits one worker, and at most this many of the smallest.
  constexpr std::size_t told_max = 24;
  link::Status status;
  for (std::size_t count = std::min(order.size(), told_max); count > 0;) {
    std::vector<std::size_t> chosen(order.begin(),
                                    order.begin() + static_cast<std::ptrdiff_t>(count));
    std::ranges::sort(chosen);
    status = {.round = round};
    for (const std::size_t index : chosen) status.workers.push_back(all[index]);
    const std::size_t fitting = link::brief(status).workers.size();
    if (fitting < count) {
      count = fitting;
      continue;
    }
    for (const std::size_t index : chosen) memories_[all[index].local_rank].told = all[index].state;
    next_ = (order[count - 1] + 1) % workers.size();
    break;
  }
  return status;
}

// First the workers with an unreported state change, then those after the last reported one.
std::vector<std::size_t> WorkerStatsReporter::in_turn(
    const std::vector<WorkerView>& workers) const {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < workers.size(); ++i) order.push_back((next_ + i) % workers.size());
  std::ranges::stable_partition(order, [&](std::size_t index) {
    const auto known = memories_.find(workers[index].local_rank);
    return known != memories_.end() && known->second.told != workers[index].state;
  });
  return order;
}

link::WorkerStats WorkerStatsReporter::figures_of(TimePoint now, const WorkerView& view,
                                                  const WorkerSight& sight) {
  link::WorkerStats figures{.local_rank = view.local_rank,
                            .pid = view.pid,
                            .state = view.state,
                            .since = now - view.since,
                            .resident_kib = sight.resident_kib,
                            .last_words = sight.last_words,
                            .last_line = sight.last_line,
                            .gpu = sight.gpu};
  const auto [at, is_first] = memories_.try_emplace(view.local_rank);
  Memory& memory = at->second;
  if (is_first) memory.looked = view.since;
  if (sight.cpu && now > memory.looked) {
    figures.cpu_percent = static_cast<std::int64_t>(100.0 * in_seconds(*sight.cpu - memory.cpu) /
                                                    in_seconds(now - memory.looked));
    memory.cpu = *sight.cpu;
  }
  memory.looked = now;
  if (!sight.beat) return figures;
  const HeartbeatReading& beat = *sight.beat;
  const std::int64_t step = where_told(beat.step).value_or(static_cast<std::int64_t>(beat.beats));
  const Duration silence = now - beat.last;
  if (memory.beat == TimePoint{} || step < memory.step) {
    memory.rate.reset();  // nothing to compare with
  } else if (step > memory.step) {
    memory.rate = rate_of(step - memory.step, beat.last - memory.beat);
  } else if (memory.rate) {
    memory.rate = std::min(*memory.rate, rate_of(1, std::max(silence, Duration{1})));
  }
  memory.step = step;
  memory.beat = beat.last;
  figures.step = step;
  figures.millisteps_per_second = memory.rate;
  figures.samples = where_told(beat.samples);
  figures.checkpoint_step = where_told(beat.checkpoint_step);
  figures.last_beat = silence;
  figures.total = where_told(beat.total);
  figures.metrics = beat.metrics;
  return figures;
}

void LocalWorkers::begin(TimePoint now, std::vector<WorkerSpec> specs,
                         PendingFailures::Attempt place, std::string unreachable_interface,
                         bool captures_timeouts, Actions& actions) {
  place_ = std::move(place);
  unreachable_interface_ = std::move(unreachable_interface);
  pending_failures_ = {};
  failed_.clear();
  attempts_.clear();
  finished_.reset();
  has_left_ = false;
  drained_ = {.round = place_.round};
  saving_.reset();
  are_paused_ = false;
  asleep_ = {};
  stats_.begin();
  progress_.stop();
  is_observing_ = false;
  is_ending_ = false;
  timed_out_at_.reset();
  waits_until_.reset();
  waiting_.clear();
  missed_heartbeats_ = false;
  captures_timeouts_ = captures_timeouts;
  is_reading_lines_ = false;
  stderr_targets_.clear();
  for (const WorkerSpec& spec : specs) stderr_targets_.push_back(spec.err.target);
  hang_reports_.begin_round();
  if (!wait()) {
    supervisor_.emplace(std::move(specs), policy_, beat_timeout_);
    return apply(now, supervisor_->start(now, place_.round), actions);
  }
  for (const LocalRank each : remaining()) {
    pending_failures_.started(now, each);
    progress_.started(now, each);
  }
  apply(now, supervisor_->resume(now, place_.round, std::move(specs)), actions);
}

std::vector<LocalRank> LocalWorkers::remaining() const {
  std::vector<LocalRank> remaining;
  if (!wait()) return remaining;
  for (const WorkerView& each : supervisor_->workers()) {
    if (each.state == WorkerState::running) remaining.push_back(each.local_rank);
  }
  return remaining;
}

void LocalWorkers::handle(TimePoint now, const supervisor::ProcessEvent& event, Actions& actions) {
  if (!supervisor_) return;
  std::visit(Overloaded{
                 [&](const supervisor::Started& m) {
                   failed_.erase(m.local_rank);  // restarted alone
                   pending_failures_.started(now, m.local_rank);
                   progress_.started(now, m.local_rank);
                 },
                 [&](const supervisor::Exited& m) {
                   pending_failures_.noticed(now, m.local_rank);
                   progress_.ended(m.local_rank);
                 },
                 [&](const supervisor::SpawnFailed& m) {
                   failed_.erase(m.local_rank);
                   pending_failures_.noticed(now, m.local_rank);
                 },
                 [&](const supervisor::HeartbeatsSeen& m) {
                   drained_.unsaved = unsaved_of(m.readings);
                   drained_.reached = reached_of(m.readings);
                 },
                 [](const auto&) {},
             },
             event);
  const auto told = std::visit([](const auto& each) { return supervisor::Event{each}; }, event);
  if (const auto* exited = std::get_if<supervisor::Exited>(&told)) {
    if (may_show_timeout(now, *exited)) {
      is_reading_lines_ = true;
      waits_until_ = now + last_lines_max;
      actions.emplace_back(agent::ReadLastLines{exited->local_rank});
    }
    return tell_after_capture(now, told, actions);
  }
  // A worker whose exit waits here sends no heartbeats: they are read again afterwards.
  if (waits_until_ && std::holds_alternative<supervisor::HeartbeatsSeen>(told)) {
    missed_heartbeats_ = true;
  } else {
    tell(now, told, actions);
  }
}

void LocalWorkers::advance(TimePoint now, Actions& actions) {
  if (waits_until_ && *waits_until_ <= now) release(now, actions);
  if (supervisor_) apply(now, supervisor_->advance(worker_time(now)), actions);
  if (progress_.take_due(now)) actions.emplace_back(agent::ReadProgress{});
  if (saving_ && saving_->at <= now) {
    deliver(now, std::exchange(saving_, std::nullopt)->signal, actions);
  }
}

std::optional<TimePoint> LocalWorkers::next_deadline() const {
  auto soonest = supervisor_ ? supervisor_->next_deadline() : std::nullopt;
  if (soonest) *soonest += asleep_;
  const auto progress = progress_.next_deadline();
  if (progress && (!soonest || *progress < *soonest)) soonest = progress;
  if (saving_ && (!soonest || saving_->at < *soonest)) soonest = saving_->at;
  if (waits_until_ && (!soonest || *waits_until_ < *soonest)) soonest = waits_until_;
  return soonest;
}

void LocalWorkers::tell(TimePoint now, const supervisor::Event& event, Actions& actions) {
  if (supervisor_) apply(now, supervisor_->handle(worker_time(now), event), actions);
}

void LocalWorkers::tell_after_capture(TimePoint now, supervisor::Event event, Actions& actions) {
  if (!waits_until_) return tell(now, event, actions);
  waiting_.push_back(std::move(event));
}

void LocalWorkers::release(TimePoint now, Actions& actions) {
  waits_until_.reset();
  is_reading_lines_ = false;
  for (const auto& event : std::exchange(waiting_, {})) tell(now, event, actions);
  if (std::exchange(missed_heartbeats_, false) && supervisor_) {
    actions.emplace_back(agent::Work{supervisor::ReadHeartbeats{}});
  }
}

// What PyTorch writes before such an exit has not passed through here, if stderr is a file.
bool LocalWorkers::may_show_timeout(TimePoint now, const supervisor::Exited& exited) const {
  const bool is_known = timed_out_at_ && now - *timed_out_at_ < pause_between_timeouts;
  if (!captures_timeouts_ || is_ending_ || waits_until_ || is_known) return false;
  const link::ExitStatus& status = exited.status;
  const bool may_be = status.signalled ? status.value == SIGABRT : status.value != 0;
  const auto index = static_cast<std::size_t>(exited.local_rank.value);
  return may_be && index < stderr_targets_.size() && stderr_targets_[index] == StreamTarget::file;
}

bool LocalWorkers::timed_out(TimePoint now) {
  const bool is_known = timed_out_at_ && now - *timed_out_at_ < pause_between_timeouts;
  if (!captures_timeouts_ || is_ending_ || is_known) return false;
  is_reading_lines_ = false;
  timed_out_at_ = now;
  waits_until_ = now + capture_max;
  awaited_capture_ = 0;
  hang_reports_.timed_out();
  return true;
}

// Its failure is no longer one of the attempt: the report has those that ended it.
void LocalWorkers::restart(TimePoint now, const link::RestartWorker& message, WorkerSpec spec,
                           Actions& actions) {
  const LocalRank rank = spec.local_rank;
  // Repeated by the coordinator, which does not know that it arrived.
  if (!failed_.contains(rank) || message.attempt <= attempts_[rank]) return;
  attempts_[rank] = message.attempt;
  pending_failures_.restarted(rank);
  actions.emplace_back(events::WorkerRestarting{.rank = spec.rank,
                                                .local_rank = rank,
                                                .attempt = message.attempt,
                                                .restart_count = message.restart_count,
                                                .pause = message.pause,
                                                .reason = message.reason});
  tell(now, supervisor::Restart{.spec = std::move(spec), .pause = message.pause}, actions);
}

void LocalWorkers::stop(TimePoint now, const std::string& reason, int signal, Actions& actions) {
  release(now, actions);
  end(now, supervisor::Stop{reason, signal}, actions);
}

void LocalWorkers::drain(TimePoint now, const link::Drain& drain, Actions& actions) {
  pending_failures_.drained(now);
  if (!drain.keeps_workers) return stop_after_capture(now, drain.reason, actions);
  end(now, supervisor::Break{drain.reason}, actions);
}

// Paused workers continue, but none is restarted before the stop.
void LocalWorkers::end(TimePoint now, supervisor::Event stop, Actions& actions) {
  const bool were_paused = std::exchange(are_paused_, false);
  if (were_paused) forward(now, SIGCONT, actions);
  tell_after_capture(now, std::move(stop), actions);
  if (were_paused) tell_after_capture(now, supervisor::Hold{false}, actions);
}

void LocalWorkers::pause(TimePoint now, Duration asleep, Actions& actions) {
  asleep_ += asleep;
  are_paused_ = true;
  tell(now, supervisor::Hold{true}, actions);
  forward(now, SIGSTOP, actions);
}

void LocalWorkers::resume(TimePoint now, Actions& actions) {
  if (!std::exchange(are_paused_, false)) return;
  forward(now, SIGCONT, actions);
  tell(now, supervisor::Hold{false}, actions);
}

void LocalWorkers::stop_requested(TimePoint now, int signal) {
  stopped_by_ = signal;
  pending_failures_.stopped(now);
}

// Signal first and collect evidence later, so that no worker keeps computing behind a slow disk.
void LocalWorkers::apply(TimePoint now, const Supervisor::Actions& from, Actions& actions) {
  std::optional<Outcome> failed;
  bool is_ending = false;
  prepare_restarts(from, actions);
  for (const supervisor::Action& action : from) {
    std::visit(Overloaded{
                   [&](const supervisor::Failed& m) {
                     actions.emplace_back(m);
                     failed = m.outcome;
                     failed_.insert(m.outcome.local_rank);
                     if (m.outcome.hung_for) pending_failures_.noticed(now, m.outcome.local_rank);
                     pending_failures_.asked(m.outcome.local_rank);
                   },
                   [&](const supervisor::Draining& m) {
                     actions.emplace_back(m);
                     is_ending = is_ending_ = true;
                     progress_.stop();
                     // A process that cannot be killed may be the reason: the failures that follow
                     // are not first, and restart no worker alone.
                     if (policy_.restart_scope == RestartScope::worker) {
                       pending_failures_.drained(now);
                     }
                   },
                   [&](const supervisor::Leaving& m) {
                     is_ending = is_ending_ = true;
                     progress_.stop();
                     actions.emplace_back(events::Note{leaving_text(m)});
                   },
                   [&](const supervisor::Waiting& m) {
                     has_left_ = true;
                     examine_others(m.outcomes, actions);
                     finished_ = supervisor::Finished{.outcomes = m.outcomes,
                                                      .first_failure = m.first_failure,
                                                      .drain_reason = {}};
                   },
                   [&](const supervisor::Killing& m) { actions.emplace_back(m); },
                   [&](const supervisor::StillEnding& m) {
                     actions.emplace_back(events::Note{still_ending_text(m, stopped_by_)});
                   },
                   [&](const supervisor::Leftover& m) {
                     actions.emplace_back(events::Note{leftover_text(m, policy_.grace)});
                   },
                   [&](const supervisor::Finished& m) { finished(m, actions); },
                   [&](const auto& m) { actions.emplace_back(agent::Work{m}); },
               },
               action);
  }
  if (is_ending) sample_if_watched(now, actions);
  // The coordinator is notified once the evidence is in: see examined().
  if (failed) actions.emplace_back(agent::Examine{*failed, unreachable_interface_});
}

// Those that are due together wait for the disk together. Their predecessors are gone by now.
void LocalWorkers::prepare_restarts(const Supervisor::Actions& from, Actions& actions) const {
  agent::Prepare prepare{.specs = {}, .is_restart = true};
  for (const supervisor::Action& action : from) {
    const auto* const spawn = std::get_if<supervisor::Spawn>(&action);
    if (spawn == nullptr || !attempts_.contains(spawn->spec.local_rank)) continue;
    prepare.specs.push_back(spawn->spec);
  }
  if (!prepare.specs.empty()) actions.emplace_back(std::move(prepare));
}

// No worker of this attempt is alive here.
void LocalWorkers::finished(const supervisor::Finished& finished, Actions& actions) {
  has_left_ = false;
  examine_others(finished.outcomes, actions);
  for (const Outcome& outcome : finished.outcomes) {
    if (outcome.given_up && !exit_)
      exit_ = events::JobEnded{.exit_code = 1, .reason = unkillable_text(outcome)};
  }
  if (finished.unswept && !exit_)
    actions.emplace_back(events::Note{
        "a process that the workers started ignores SIGKILL, because it belongs to another user "
        "or is in uninterruptible sleep: find it with ps; cpprun continues without it"});
  finished_ = finished;
}

// Those that were reported as failures are being examined already.
void LocalWorkers::examine_others(const std::vector<Outcome>& outcomes, Actions& actions) {
  for (const Outcome& outcome : outcomes) {
    if (outcome.good() || failed_.contains(outcome.local_rank)) continue;
    pending_failures_.asked(outcome.local_rank);
    actions.emplace_back(agent::Examine{outcome, unreachable_interface_});
  }
}

std::optional<link::Failed> LocalWorkers::examined(Evidence evidence, Actions& actions) {
  auto judged = pending_failures_.judge(std::move(evidence), place_);
  const auto restarts = attempts_.find(judged.failure.local_rank);
  if (judged.told && restarts != attempts_.end()) judged.told->attempt = restarts->second;
  actions.emplace_back(events::WorkerFailed{std::move(judged.failure), std::move(judged.end)});
  return std::move(judged.told);
}

std::optional<LocalWorkers::End> LocalWorkers::take_end() {
  if (!finished_ || !pending_failures_.complete()) return std::nullopt;
  const supervisor::Finished finished = *std::exchange(finished_, std::nullopt);
  if (std::exchange(has_left_, false)) {
    return End{.waits = true,
               .left_early = pending_failures_.first_to_leave(finished.outcomes, place_)};
  }
  return End{.succeeded = !finished.first_failure && finished.drain_reason.empty(),
             .left_early = pending_failures_.first_to_leave(finished.outcomes, place_),
             .exit = exit_};
}

void LocalWorkers::watch(TimePoint now, Duration length, Actions& actions) {
  if (stats_.watch(now, length)) actions.emplace_back(agent::SampleWorkers{supervisor_->workers()});
}

void LocalWorkers::sample_if_watched(TimePoint now, Actions& actions) {
  if (!supervisor_ || !stats_.changed(now)) return;
  actions.emplace_back(agent::SampleWorkers{supervisor_->workers()});
}

link::Status LocalWorkers::sampled(TimePoint now, const std::vector<WorkerSight>& sights) {
  return stats_.tell(now, place_.round, supervisor_->workers(), sights);
}

void LocalWorkers::progress_seen(TimePoint now, const std::vector<ProgressSigns>& signs,
                                 Actions& actions) {
  if (!progress_.heard(now, signs) || std::exchange(is_observing_, true)) return;
  actions.emplace_back(agent::ObserveWorkers{.number = 0, .round = place_.round});
}

std::vector<link::Captured> LocalWorkers::observed(TimePoint now,
                                                   const agent::WorkersObserved& event) {
  if (event.number == 0) is_observing_ = false;
  // A capture that failed is no sign of progress: it would put off the end of a job that hangs.
  if (event.number == 0 || !event.observations.empty()) {
    progress_.observed(now, event.observations);
  }
  // Without an answer, the coordinator names this node as silent.
  if (event.number == 0 || event.observations.empty()) return {};
  return hang_reports_.reply_to_capture(event, place_.round, progress_.quiet(now));
}

void LocalWorkers::capture(TimePoint now, const link::Capture& capture, Actions& actions) {
  if (capture.round != place_.round) return;
  if (capture.is_timeout && !is_ending_) {
    is_reading_lines_ = false;
    timed_out_at_ = now;
    waits_until_ = now + capture_max;
    awaited_capture_ = capture.number;
  }
  // The reply tells whether there was any progress until now.
  if (progress_.timeout() > Duration{}) actions.emplace_back(agent::ReadProgress{});
  actions.emplace_back(agent::ObserveWorkers{.number = capture.number,
                                             .round = capture.round,
                                             .native = capture.native,
                                             .is_timeout = capture.is_timeout});
}

void LocalWorkers::judged(TimePoint now, const link::Verdict& verdict, const link::Sealed& sealed,
                          Actions& actions) {
  if (verdict.round != place_.round) return;
  const int local = verdict.rank.value - sealed.base_rank.value;
  const bool is_here = local >= 0 && local < std::ssize(supervisor_->workers());
  actions.emplace_back(hang_reports_.found(verdict, sealed, is_here));
  if (!is_here || verdict.is_timeout) return;
  tell(now,
       supervisor::Hung{.local_rank = LocalRank{local},
                        .quiet = verdict.quiet,
                        .verdict = verdict.sentence,
                        .time = hang_reports_.observed_at(verdict)},
       actions);
}

std::optional<std::string> LocalWorkers::check() const {
  if (!supervisor_) return "it runs workers without a supervisor";
  if (finished_ && pending_failures_.complete())
    return "its workers are gone and it reports nothing";
  return supervisor_->check();
}

}  // namespace cpprun

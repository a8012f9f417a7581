// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The sentences with which an agent gives up, and those that say how long it will not.

#include <cstdint>
#include <optional>
#include <string>
#include <system_error>

#include "launcher/workers/supervisor.h"
#include "proto/clock.h"
#include "proto/link/message.h"

namespace cpprun {

// "598 s left"
std::string seconds_left(TimePoint now, TimePoint deadline);

// Nothing of what was said in the last `silence` was answered. `why` is the link's last word.
std::string master_gone_text(const std::string& where, const std::string& why, Duration silence);
// The same of a set of cpprunds, at all of these places.
std::string nobody_leads_text(const std::string& places, const std::string& why, Duration silence);
// The same, but it was us who did not run.
std::string slept_text(Duration lease, Duration silence);

// The same of the node that hosts the coordinator.
std::string doubt_text(Duration silence, Duration lease);
std::string lead_over_text();

// An answer came when that much of the lease was over, after which there is that patience.
std::string lease_nearly_missed_text(Duration lease, Duration patience, Duration silence);

// Another cpprund of the set leads. Nothing was answered for `silence`; zero: that is nobody's
// loss.
std::string turned_text(const std::string& from, const std::string& to, std::uint64_t epoch,
                        Duration silence, bool keeps_workers);
// One that leads no more has answered.
std::string stale_text(const std::string& where, std::uint64_t epoch, std::uint64_t followed);

// A port that cannot be had, and what to do where somebody else has it.
std::string with_port_cure(const std::string& reason);

// It has lost its seat for that reason, and asks for another.
std::string rejoins_text(const std::string& reason, Duration patience);

// All of its workers ended with 0, and it goes on asking how the job ended.
std::string asks_text(const std::string& reason, Duration patience);
// It will not learn it.
std::string done_text(const std::string& reason);
// It never had a seat, or no longer had one, when the job ended.
std::string not_needed_text(const std::string& reason);

// What the time of a job that ended well went into, if anything had gone wrong on the way. Of one
// that did not, its report says so.
std::optional<std::string> time_note(const link::Finish& finish);

// By a signal, before this node ever had a seat.
std::string interrupted_text(int signal, bool no_master);

// A second after the signal that ends workers; `signal`: the user's, where a signal began it.
std::string still_ending_text(const supervisor::StillEnding& still, std::optional<int> signal);
// What workers started has outlived them.
std::string leftover_text(const supervisor::Leftover& left, Duration grace);

// Not even KILL ended that worker.
std::string unkillable_text(const Outcome& outcome);

// The workers are gone, and something they have started is not.
std::string unswept_text();

// The private folder for error files could not be made: an errno, or nothing where its maker was
// killed.
std::string no_folder_text(const std::string& folder, std::optional<int> error_number);

// The job was ended and goes on: what it has used before this run, by the file that kept it.
std::string goes_on_text(int restarts_used, const std::string& path);

// What the machine refused to cpprun itself, and what cures it where that is known.
std::string refused_text(const std::error_code& refused);

}  // namespace cpprun

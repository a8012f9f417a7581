// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/state_journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <fstream>
#include <optional>
#include <thread>
#include <utility>

#include "proto/text.h"
#include "rendezvous/daemon/io/state_writer.h"
#include "rendezvous/daemon/state_file.h"
#include "rendezvous/io/event_loop.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto lock_look = std::chrono::milliseconds(5);

// Write access to the directory decides which node has which seat in a job, so it must be
// exclusive.
std::optional<std::string> objection_to(int directory) {
  struct stat facts {};
  if (::fstat(directory, &facts) != 0) return "cannot be examined: " + errno_text(errno);
  if (facts.st_uid != ::geteuid()) {
    return fmt::format("is owned by uid {}, and cpprund runs as uid {}; give it its own directory",
                       facts.st_uid, ::geteuid());
  }
  if ((facts.st_mode & 022) != 0) {
    return fmt::format("is writable by other users (mode {:o}); chmod 700", facts.st_mode & 0777U);
  }
  return std::nullopt;
}

// Process id of the lock's holder; 0 if the file does not have one.
int pid_in(int lock) {
  char text[32] = {};
  const auto got = ::pread(lock, text, sizeof text, 0);
  int pid = 0;
  const auto [rest, error] = std::from_chars(text, text + std::max<long>(got, 0), pid);
  return error == std::errc{} && rest != text ? pid : 0;
}

}  // namespace

std::string own_boot() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return boot;
}

Result<FileDescriptor> open_state_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return state_refused("cannot create the directory \"{}\": {}", path, errno_text(errno));
  }
  FileDescriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory)
    return state_refused("cannot open the directory \"{}\": {}", path, errno_text(errno));
  if (const auto wrong = objection_to(directory.get()))
    return state_refused("\"{}\" {}", path, *wrong);
  return directory;
}

Result<FileDescriptor> lock_state_directory(int directory, const std::string& path,
                                            Duration timeout) {
  FileDescriptor lock(::openat(directory, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) return state_refused("cannot lock \"{}\": {}", path, errno_text(errno));
  for (const auto until = Clock::now() + timeout;;) {
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) break;
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return state_refused("cannot lock \"{}\": {}", path, errno_text(errno));
    }
    if (Clock::now() >= until) {
      const int other = pid_in(lock.get());
      if (other > 0 && ::kill(other, 0) != 0 && errno == ESRCH) {
        return state_refused(
            "process {} has exited, but the kernel has not finished its last writes to \"{}\": the "
            "disk is slow or not responding",
            other, path);
      }
      return state_refused(
          "\"{}\" is in use by another cpprund (pid {}); give each daemon its own directory", path,
          other);
    }
    std::this_thread::sleep_for(lock_look);
  }
  // For the error messages above. It does no harm if this write fails.
  if (::ftruncate(lock.get(), 0) == 0) (void)write_all(lock.get(), fmt::format("{}\n", ::getpid()));
  return lock;
}

namespace {

constexpr auto tick_max = std::chrono::milliseconds(1000);
// How much the disk may fall behind. The kernel allocates only the pages that are used.
constexpr std::size_t ring_bytes = 64 * 1024 * 1024;
// Images wait while more than this is queued: entries behind them may have clients that wait for
// the disk.
constexpr std::size_t ring_bytes_before_image = 8 * 1024 * 1024;
// Of the ring, only records may use this much.
constexpr std::size_t ring_bytes_for_records = 8 * 1024 * 1024;
constexpr std::size_t ring_bytes_of_head = 4096;  // more than an entry needs besides its bytes
// The longest that nodes wait for the disk. It is shorter than any lease.
constexpr auto synced_timeout = std::chrono::milliseconds(1000);
constexpr const char* would_not_know =
    "cpprund continues, but its jobs would be lost if it exited now";

}  // namespace

Result<std::unique_ptr<StateJournal>> StateJournal::open(asio::io_context& context,
                                                         HelperProcesses& side, Options options,
                                                         Say say) {
  auto directory = open_state_directory(options.path);
  if (!directory) return tl::unexpected(directory.error());
  auto lock = lock_state_directory(directory->get(), options.path, options.timeout);
  if (!lock) return tl::unexpected(lock.error());
  std::unique_ptr<StateJournal> state(new StateJournal(
      context, *std::move(directory), *std::move(lock), std::move(options), std::move(say)));
  if (const auto looked = state->look(side); !looked) return tl::unexpected(looked.error());
  if (const auto begun = state->begin_writer(side); !begun) return tl::unexpected(begun.error());
  return state;
}

StateJournal::StateJournal(asio::io_context& context, FileDescriptor directory, FileDescriptor lock,
                           Options options, Say say)
    : options_(std::move(options)),
      say_(std::move(say)),
      directory_(std::move(directory)),
      lock_(std::move(lock)),
      socket_(context),
      timer_(context) {}

Result<void> StateJournal::begin_writer(HelperProcesses& side) {
  auto ring = SharedRing::make(ring_bytes);
  if (!ring) return state_refused("cannot start the process that writes: {}", ring.error().reason);
  ring_ = *std::move(ring);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return state_refused("cannot start the process that writes: {}", errno_text(errno));
  }
  socket_.assign(ends[0]);
  const FileDescriptor theirs(ends[1]);
  const auto pid = side.start({directory_.get(), theirs.get(), lock_.get()}, [&] {
    StateWriter(directory_.get(), options_.syncs, *ring_).run(theirs.get());
  });
  if (!pid) return state_refused("cannot start the process that writes: {}", pid.error().reason);
  writer_ = *pid;
  listen();
  return {};
}

// Reads in a helper process and with a timeout, since the disk may hang.
Result<void> StateJournal::look(HelperProcesses& side) {
  auto text =
      side.ask_within([this](const HelperProcesses::Say& say) { read_states(options_.path, say); },
                      options_.timeout);
  if (!text) return state_refused("the disk of \"{}\" is not responding", options_.path);
  auto read = state_files_of(*text);
  text.reset();  // it may be large
  if (!read) return state_refused("\"{}\" {}", options_.path, read.error().reason);
  last_number_ = read->last_number;
  last_alive_ = read->alive;
  for (const std::string& each : read->wrong) {
    say_(LogLevel::warning,
         fmt::format("--state: \"{}\": {}; its job or its store is lost", options_.path, each));
  }
  for (auto& [number, bytes, generation] : read->files) {
    auto record = record_of_state_file(bytes);
    if (record) {
      found_.push_back({number, *std::move(record)});
    } else if (record.error().is_later) {
      return state_refused("\"{}/{}\" {}; use the cpprund that wrote it, or another directory",
                           options_.path, state_name(number, "state"), record.error().clause);
    } else {
      set_aside(number, record.error().clause);
    }
  }
  return take_logs(*std::move(read));
}

// Picks the newest log of each job that can be resumed. A log is not used if entries may be missing
// at its end, because clients may have seen their effects. A synced log is complete after a power
// failure; any log is complete if its writer wrote the end chunk.
Result<void> StateJournal::take_logs(StateFiles read) {
  for (auto& [number, bytes, generation] : read.logs) {
    const std::string file = std::move(bytes);
    last_generation_ = std::max(last_generation_, generation);
    const auto found = std::ranges::find(found_, number, &Found::number);
    if (found == found_.end() || found->log) continue;
    const std::string name = options_.path + "/" + log_name(number, generation);
    auto log = read_log_file(file);
    if (!log && log.error().is_later) {
      return state_refused("\"{}\" {}; use the cpprund that wrote it, or another directory", name,
                           log.error().clause);
    }
    if (!log) {
      const std::string aside = name.substr(0, name.size() - 3) + "damaged";
      const bool is_aside = ::rename(name.c_str(), aside.c_str()) == 0;
      say_(LogLevel::warning,
           fmt::format("--state: \"{}\" {}; the store of its job is lost, and its round restarts{}",
                       name, log.error().clause,
                       is_aside ? fmt::format("; the file was renamed to \"{}\"", aside) : ""));
    } else if (log->is_whole && (log->has_end || (log->is_synced && log->boot != own_boot()))) {
      found->log = FoundLog{generation, log->size, log->round, std::move(log->bytes)};
    }
  }
  return {};
}

void StateJournal::adopt(std::uint64_t number, const std::string& job) {
  jobs_[job] = {.number = number, .request = StateEntry::record};
}

void StateJournal::set_aside(std::uint64_t number, const std::string& why) {
  const std::string name = state_name(number, "state");
  const std::string aside = state_name(number, "damaged");
  const bool is_aside =
      ::renameat(directory_.get(), name.c_str(), directory_.get(), aside.c_str()) == 0;
  say_(LogLevel::warning, fmt::format("--state: \"{}/{}\" {}; its content is lost, and {}",
                                      options_.path, name, plain_line(why),
                                      is_aside ? "the file was renamed to " + aside
                                               : "the file could not be renamed"));
}

// --- to the writer -------------------------------------------------------------------------------

std::uint64_t StateJournal::keep(const std::string& job, const std::string& record) {
  change(job, StateEntry::record, state_file_of(record));
  return last_change_;
}

std::uint64_t StateJournal::forget(const std::string& job) {
  if (jobs_.contains(job)) change(job, StateEntry::record_gone, {});
  return last_change_;
}

std::uint64_t StateJournal::written_through() const {
  return is_durable() && !unwritten_.empty() ? *unwritten_.begin() - 1 : last_change_;
}

void StateJournal::change(const std::string& job, StateEntry request, std::string file) {
  Job& its = jobs_[job];
  if (its.number == 0) its.number = ++last_number_;
  its.request = request;
  its.file = std::move(file);
  ++last_change_;
  if (its.unwritten == 0) its.unwritten = *unwritten_.insert(last_change_).first;
  // A waiting job is handed over with its latest change.
  if (!its.waits) hand(job);
}

void StateJournal::hand(const std::string& job) {
  if (writer_ < 0) return;  // This was reported.
  Job& its = jobs_.at(job);
  if (const auto ticket = put(its.request, its.number, 0, its.file)) {
    its.ticket = *ticket;
    outstanding_[*ticket] = job;
    return;
  }
  wait(job);
  if (its.file.size() > ring_bytes - ring_bytes_of_head) trouble(errno_text(EFBIG));
}

// The job's record is handed over at the next tick.
void StateJournal::wait(const std::string& job) {
  jobs_.at(job).waits = true;
  waiting_.push_back(job);
  tick();
}

void StateJournal::hand_waiting() {
  for (const std::string& job : std::exchange(waiting_, {})) {
    jobs_.at(job).waits = false;
    hand(job);
  }
}

// --- from the writer -----------------------------------------------------------------------------

void StateJournal::listen() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [this, alive = std::weak_ptr(alive_)](const asio::error_code& error) {
                       if (!error && !alive.expired()) hear();
                     });
}

void StateJournal::hear() {
  StateReply reply;
  while (true) {
    const auto got = ::recv(socket_.native_handle(), &reply, sizeof reply, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (got != sizeof reply) return writer_ended();
    heard(reply);
  }
  if (is_idle() && !wrong_.empty()) {
    wrong_.clear();
    say_(LogLevel::info,
         fmt::format("--state: writes to \"{}\" resumed; all jobs are saved", options_.path));
  }
  changed_();
  listen();
}

void StateJournal::heard(const StateReply& reply) {
  const int error_number = static_cast<int>(reply.error_number);
  switch (StateReply::Kind{reply.kind}) {
    case StateReply::record_failed:
      return record_done(reply.ticket, error_number);
    case StateReply::log_failed:
      return log_failed(reply.ticket, error_number);
    case StateReply::through:
      break;
  }
  through_ = reply.ticket;
  ages_.done(through_);
  while (!outstanding_.empty() && outstanding_.begin()->first <= through_) {
    record_done(outstanding_.begin()->first, 0);
  }
  if (logs_.written) logs_.written(through_);
}

void StateJournal::record_done(std::uint64_t ticket, int error_number) {
  const auto handed = outstanding_.extract(ticket);
  if (handed.empty()) return;
  const std::string& job = handed.mapped();
  Job& its = jobs_.at(job);
  if (error_number != 0) trouble(errno_text(error_number));
  if (its.ticket != ticket || its.waits) return;  // A newer change is outstanding.
  if (error_number != 0) return wait(job);
  its.file = {};
  unwritten_.erase(std::exchange(its.unwritten, 0));
  if (its.request == StateEntry::record_gone) jobs_.erase(job);
}

void StateJournal::log_failed(std::uint64_t number, int error_number) {
  const auto job =
      std::ranges::find(jobs_, number, [](const auto& each) { return each.second.number; });
  if (job != jobs_.end() && logs_.failed) {
    logs_.failed(std::string(job->first), errno_text(error_number));
  }
}

void StateJournal::writer_ended() {
  writer_ = -1;
  outstanding_.clear();
  ages_ = {};
  // No writer is left that could make room in the ring, so do not let callers wait for it.
  through_ = last_ticket_;
  if (logs_.written) logs_.written(through_);
  say_(LogLevel::error, fmt::format("--state: the process that writes to \"{}\" has exited; {}",
                                    options_.path, would_not_know));
  changed_();
}

// --- the ring ------------------------------------------------------------------------------------

std::optional<std::uint64_t> StateJournal::put(StateEntry kind, std::uint64_t number,
                                               std::uint64_t generation, std::string_view bytes) {
  const SharedRing::Entry entry{.kind = static_cast<std::uint64_t>(kind),
                                .number = number,
                                .generation = generation,
                                .ticket = last_ticket_ + 1};
  const SharedRing::Put put = ring_->put(entry, bytes);
  if (put == SharedRing::Put::full) return std::nullopt;
  ages_.add(++last_ticket_, Clock::now());
  tick();
  // If the wake-up cannot be sent, the writer is busy and will look at the ring as well.
  const bool is_record = kind >= StateEntry::record;
  const auto wake = is_record ? StateWake::now : StateWake::later;
  if (is_record || put == SharedRing::Put::wake) {
    (void)::send(socket_.native_handle(), &wake, sizeof wake, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  return last_ticket_;
}

std::optional<std::uint64_t> StateJournal::put_log(StateEntry kind, const std::string& job,
                                                   std::uint64_t generation,
                                                   std::string_view bytes) {
  const auto found = jobs_.find(job);
  if (writer_ < 0 || found == jobs_.end()) return std::nullopt;
  // Otherwise logs could keep records out of the ring, and the daemon may be killed meanwhile.
  if (ring_->held() + bytes.size() > ring_bytes - ring_bytes_for_records) return std::nullopt;
  const auto ticket = put(kind, found->second.number, generation, bytes);
  if (ticket && kind == StateEntry::again) await_logs();
  return ticket;
}

bool StateJournal::has_room_for_image() {
  const bool has_room = writer_ < 0 || ring_->held() <= ring_bytes_before_image || is_late();
  if (!has_room) await_logs();
  return has_room;
}

void StateJournal::await_logs() {
  const bool was_prompt = is_prompt();
  last_awaited_ = last_ticket_;
  if (was_prompt) return;
  is_ticking_ = false;  // the tick is shorter now
  tick();
}

void StateJournal::log_broke(const std::string& job, const std::string& why) {
  broken_logs_.insert(job);
  ring_->set_incomplete(true);
  trouble(why);
  tick();
}

void StateJournal::log_is_written(const std::string& job) {
  broken_logs_.erase(job);
  if (broken_logs_.empty()) ring_->set_incomplete(false);
}

// --- what does not work --------------------------------------------------------------------------

void StateJournal::tick() {
  if (writer_ < 0 || std::exchange(is_ticking_, true)) return;
  tick_due_ = Clock::now() + tick_length();
  timer_.expires_at(tick_due_);
  timer_.async_wait([this, alive = std::weak_ptr(alive_)](const asio::error_code& error) {
    if (error || alive.expired()) return;
    is_ticking_ = false;
    pass_over_sleep();
    if (is_late()) trouble("the disk is not responding");
    // Callers that wait for room check whether they still have to.
    if (ages_.oldest() && logs_.written) logs_.written(through_);
    // First the logs, which are begun again only while the ring is empty.
    if (!broken_logs_.empty() && logs_.again) logs_.again();
    hand_waiting();
    if (!is_idle() || ages_.oldest()) tick();
  });
}

// The writer may have been suspended along with this process, and its answers are not read yet.
void StateJournal::pass_over_sleep() {
  const TimePoint now = Clock::now();
  const Duration slept = overslept(tick_due_, now, tick_length());
  if (slept != Duration{}) ages_.pass_over_sleep(now, slept);
}

bool StateJournal::is_late() const {
  const auto oldest = ages_.oldest();
  return oldest && Clock::now() - *oldest >= write_timeout();
}

// A client waits for the disk: every client with --state-sync, or a job that resumes the log of a
// predecessor.
bool StateJournal::is_prompt() const {
  return options_.syncs || through_ < last_awaited_;
}

Duration StateJournal::write_timeout() const {
  return is_prompt() ? std::min<Duration>(options_.timeout, synced_timeout) : options_.timeout;
}

Duration StateJournal::tick_length() const {
  const Duration tick = std::min<Duration>(tick_max, write_timeout());
  return is_prompt() ? tick / 4 : tick;
}

void StateJournal::trouble(const std::string& what) {
  if (!wrong_.insert(what).second) return;  // This was reported.
  say_(LogLevel::warning,
       fmt::format("--state: cannot write to \"{}\": {}; {}", options_.path, what, would_not_know));
  changed_();
}

}  // namespace cpprun

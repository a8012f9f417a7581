// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/io/state_folder.h"

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
#include <thread>
#include <utility>

#include "proto/plain_text.h"
#include "proto/text.h"
#include "rendezvous/daemon/io/state_writer.h"
#include "rendezvous/daemon/state_file.h"
#include "rendezvous/io/write_all.h"

namespace cpprun {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto tick_max = std::chrono::milliseconds(1000);
constexpr auto lock_look = std::chrono::milliseconds(5);
// So long nodes are told nothing at most; shorter than any lease.
constexpr auto synced_patience = std::chrono::milliseconds(1000);
constexpr const char* would_not_know =
    "cpprund goes on, and would not know its jobs again if it were ended now";

template <class... Arguments>
tl::unexpected<Error> refused(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  return failure("--state: " + fmt::format(text, std::forward<Arguments>(arguments)...));
}

// Whoever can write there decides who sits in which job.
std::optional<std::string> objection_to(int folder) {
  struct stat facts {};
  if (::fstat(folder, &facts) != 0) return "cannot be looked at: " + errno_text(errno);
  if (facts.st_uid != ::geteuid()) {
    return fmt::format("belongs to uid {}, and cpprund runs as {}: give it a folder of its own",
                       facts.st_uid, ::geteuid());
  }
  if ((facts.st_mode & 022) != 0) {
    return fmt::format("can be written by others (mode {:o}): chmod 700 closes it",
                       facts.st_mode & 0777U);
  }
  return std::nullopt;
}

Result<FileDescriptor> open_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return refused("cannot make the folder \"{}\": {}", path, errno_text(errno));
  }
  FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return refused("cannot open the folder \"{}\": {}", path, errno_text(errno));
  if (const auto wrong = objection_to(folder.get())) return refused("\"{}\" {}", path, *wrong);
  return folder;
}

// Of whoever has locked it; 0 where that does not say.
int pid_in(int lock) {
  char text[32] = {};
  const auto got = ::pread(lock, text, sizeof text, 0);
  int pid = 0;
  const auto [rest, error] = std::from_chars(text, text + std::max<long>(got, 0), pid);
  return error == std::errc{} && rest != text ? pid : 0;
}

// Held by the writer, too: who comes next finds what was handed over last.
Result<FileDescriptor> lock_of(int folder, const StateFolder::Options& options) {
  FileDescriptor lock(::openat(folder, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) return refused("cannot lock \"{}\": {}", options.path, errno_text(errno));
  for (const auto until = Clock::now() + options.patience;;) {
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) break;
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return refused("cannot lock \"{}\": {}", options.path, errno_text(errno));
    }
    if (Clock::now() >= until) {
      const int other = pid_in(lock.get());
      if (other > 0 && ::kill(other, 0) != 0 && errno == ESRCH) {
        return refused(
            "the last records of pid {}, which is gone, are still being written to \"{}\": its "
            "disk "
            "is slow, or does not answer",
            other, options.path);
      }
      return refused(
          "another cpprund keeps its jobs in \"{}\" (pid {}): give each daemon a folder of its own",
          options.path, other);
    }
    std::this_thread::sleep_for(lock_look);
  }
  // For the words above, where it can be written.
  if (::ftruncate(lock.get(), 0) == 0) (void)write_all(lock.get(), fmt::format("{}\n", ::getpid()));
  return lock;
}

// As text between two processes: what is wrong, or each file's number, its size and its bytes.
std::string told(const Result<StateFiles>& read) {
  if (!read) return "!" + read.error().reason;
  std::string text = fmt::format("={} {}\n", read->last_number, read->wrong.size());
  for (const std::string& each : read->wrong) text += fmt::format("0 {}\n{}", each.size(), each);
  for (const auto& [number, bytes] : read->files) {
    text += fmt::format("{} {}\n{}", number, bytes.size(), bytes);
  }
  return text + "0 0\n";
}

// Two numbers in a line, which is taken away.
std::optional<std::pair<std::uint64_t, std::size_t>> take_line(std::string_view& text) {
  std::uint64_t first = 0;
  std::size_t second = 0;
  const auto* const end = text.data() + text.size();
  const auto one = std::from_chars(text.data(), end, first);
  if (one.ec != std::errc{} || one.ptr == end || *one.ptr != ' ') return std::nullopt;
  const auto two = std::from_chars(one.ptr + 1, end, second);
  if (two.ec != std::errc{} || two.ptr == end || *two.ptr != '\n') return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(two.ptr - text.data()) + 1);
  return std::pair{first, second};
}

// Whoever read may have been ended in the middle: then it counts as not read at all.
Result<StateFiles> understood(std::string_view text) {
  if (text.starts_with("!")) return failure(std::string(text.substr(1)));
  const auto cut_off = failure("cannot be read: whoever read it was ended");
  if (!text.starts_with("=")) return cut_off;
  text.remove_prefix(1);
  const auto head = take_line(text);
  if (!head) return cut_off;
  StateFiles files{.files = {}, .last_number = head->first};
  while (const auto line = take_line(text)) {
    const auto [number, size] = *line;
    if (number == 0 && size == 0) return text.empty() ? Result<StateFiles>(files) : cut_off;
    if (size > text.size()) return cut_off;
    std::string bytes(text.substr(0, size));
    text.remove_prefix(size);
    if (number == 0) {
      files.wrong.push_back(std::move(bytes));
    } else {
      files.files.push_back({number, std::move(bytes)});
    }
  }
  return cut_off;
}

}  // namespace

Result<std::unique_ptr<StateFolder>> StateFolder::open(asio::io_context& context,
                                                       SideProcesses& side, Options options,
                                                       Say say) {
  auto folder = open_folder(options.path);
  if (!folder) return tl::unexpected(folder.error());
  auto lock = lock_of(folder->get(), options);
  if (!lock) return tl::unexpected(lock.error());
  std::unique_ptr<StateFolder> state(new StateFolder(context, *std::move(folder), *std::move(lock),
                                                     std::move(options), std::move(say)));
  if (const auto looked = state->look(side); !looked) return tl::unexpected(looked.error());
  if (const auto begun = state->begin_writer(side); !begun) return tl::unexpected(begun.error());
  return state;
}

StateFolder::StateFolder(asio::io_context& context, FileDescriptor folder, FileDescriptor lock,
                         Options options, Say say)
    : options_(std::move(options)),
      say_(std::move(say)),
      folder_(std::move(folder)),
      lock_(std::move(lock)),
      orders_(context),
      timer_(context) {}

Result<void> StateFolder::begin_writer(SideProcesses& side) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return refused("cannot begin its writer: {}", errno_text(errno));
  }
  orders_.assign(ends[0]);
  const FileDescriptor theirs(ends[1]);
  const auto pid = side.start({folder_.get(), theirs.get(), lock_.get()},
                              [folder = folder_.get(), orders = theirs.get(),
                               syncs = options_.syncs] { write_states(folder, orders, syncs); });
  if (!pid) return refused("cannot begin its writer: {}", pid.error().reason);
  writer_ = *pid;
  listen();
  return {};
}

// Aside, and for a while: the disk may hang.
Result<void> StateFolder::look(SideProcesses& side) {
  const auto text =
      side.ask([this] { return told(read_states(options_.path)); }, options_.patience);
  if (!text) return refused("the disk of \"{}\" does not answer", options_.path);
  auto read = understood(*text);
  if (!read) return refused("\"{}\" {}", options_.path, read.error().reason);
  last_number_ = read->last_number;
  for (const std::string& each : read->wrong) {
    say_(LogLevel::warning,
         fmt::format("--state: \"{}\" has {}: its job is not known any more", options_.path, each));
  }
  for (auto& [number, bytes] : read->files) {
    auto record = record_of_state_file(bytes);
    if (record) {
      found_.push_back({number, *std::move(record)});
    } else if (record.error().is_later) {
      return refused("\"{}/{}\" {}: use the cpprund that wrote it, or another folder",
                     options_.path, state_name(number, "state"), record.error().clause);
    } else {
      set_aside(number, record.error().clause);
    }
  }
  return {};
}

void StateFolder::adopt(std::uint64_t number, const std::string& job) {
  jobs_[job] = {.number = number, .is_kept = true, .file = {}};
}

void StateFolder::set_aside(std::uint64_t number, const std::string& why) {
  const std::string name = state_name(number, "state");
  const std::string aside = state_name(number, "damaged");
  const bool is_aside = ::renameat(folder_.get(), name.c_str(), folder_.get(), aside.c_str()) == 0;
  say_(
      LogLevel::warning,
      fmt::format("--state: \"{}/{}\" {}: the job in it is not known any more; {}", options_.path,
                  name, plain_line(why), is_aside ? "the file is now " + aside : "it stays there"));
}

// --- to the writer -------------------------------------------------------------------------------

std::uint64_t StateFolder::keep(const std::string& job, const std::string& record) {
  change(job, state_file_of(record));
  return last_change_;
}

std::uint64_t StateFolder::forget(const std::string& job) {
  if (jobs_.contains(job)) change(job, std::nullopt);
  return last_change_;
}

std::uint64_t StateFolder::written_through() const {
  return is_durable() && !unwritten_.empty() ? *unwritten_.begin() - 1 : last_change_;
}

void StateFolder::change(const std::string& job, std::optional<std::string> file) {
  Job& its = jobs_[job];
  if (its.number == 0) its.number = ++last_number_;
  its.is_kept = file.has_value();
  its.file = std::move(file);
  ++last_change_;
  if (its.unwritten == 0) its.unwritten = *unwritten_.insert(last_change_).first;
  // What waits goes with the newest of its words.
  if (its.waits) return;
  if (waiting_.empty()) return hand(job);
  its.waits = true;
  waiting_.push_back(job);
  tick();
}

void StateFolder::hand(const std::string& job) {
  if (writer_ < 0) return;  // That was said.
  Job& its = jobs_.at(job);
  its.ticket = ++last_ticket_;
  const int wrong =
      hand_over(orders_.native_handle(), {its.ticket, its.number, its.is_kept ? 1U : 0U},
                its.is_kept ? &*its.file : nullptr);
  if (wrong == 0) {
    outstanding_[its.ticket] = {job, Clock::now()};
  } else {
    its.waits = true;
    waiting_.push_back(job);
    if (wrong != EAGAIN) trouble(errno_text(wrong));
  }
  tick();
}

void StateFolder::hand_waiting() {
  for (std::size_t left = waiting_.size(); left > 0 && writer_ >= 0; --left) {
    const std::string job = std::move(waiting_.front());
    waiting_.pop_front();
    jobs_.at(job).waits = false;
    hand(job);
  }
}

// --- from the writer -----------------------------------------------------------------------------

void StateFolder::listen() {
  orders_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [this, alive = std::weak_ptr(alive_)](const asio::error_code& error) {
                       if (!error && !alive.expired()) hear();
                     });
}

void StateFolder::hear() {
  StateAnswer answer;
  while (true) {
    const auto got = ::recv(orders_.native_handle(), &answer, sizeof answer, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (got != sizeof answer) {
      writer_ = -1;
      outstanding_.clear();
      say_(LogLevel::error, fmt::format("--state: the process that writes to \"{}\" has ended: {}",
                                        options_.path, would_not_know));
      return changed_();
    }
    heard(answer.ticket, static_cast<int>(answer.error_number));
  }
  hand_waiting();
  if (is_settled() && !wrong_.empty()) {
    wrong_.clear();
    say_(LogLevel::info,
         fmt::format("--state: \"{}\" is written again: its jobs are known there", options_.path));
  }
  changed_();
  listen();
}

void StateFolder::heard(std::uint64_t ticket, int error_number) {
  const auto handed = outstanding_.extract(ticket);
  if (handed.empty()) return;
  const std::string& job = handed.mapped().job;
  Job& its = jobs_.at(job);
  if (error_number != 0) trouble(errno_text(error_number));
  if (its.ticket != ticket || its.waits) return;  // It has newer words.
  if (error_number != 0) {
    its.waits = true;
    failed_.push_back(job);
    return;
  }
  its.file.reset();
  unwritten_.erase(std::exchange(its.unwritten, 0));
  if (!its.is_kept) jobs_.erase(job);
}

// --- what does not work --------------------------------------------------------------------------

void StateFolder::tick() {
  if (writer_ < 0 || std::exchange(is_ticking_, true)) return;
  timer_.expires_after(tick_length());
  timer_.async_wait([this, alive = std::weak_ptr(alive_)](const asio::error_code& error) {
    if (error || alive.expired()) return;
    is_ticking_ = false;
    look_at_patience();
    for (std::string& job : std::exchange(failed_, {})) waiting_.push_back(std::move(job));
    hand_waiting();
    if (!is_settled()) tick();
  });
}

void StateFolder::look_at_patience() {
  if (outstanding_.empty()) return;
  if (Clock::now() - outstanding_.begin()->second.since < write_patience()) return;
  trouble("its disk does not answer");
}

Duration StateFolder::write_patience() const {
  return options_.syncs ? std::min<Duration>(options_.patience, synced_patience)
                        : options_.patience;
}

Duration StateFolder::tick_length() const {
  const Duration tick = std::min<Duration>(tick_max, write_patience());
  return options_.syncs ? tick / 4 : tick;
}

void StateFolder::trouble(const std::string& what) {
  if (!wrong_.insert(what).second) return;  // It was said.
  say_(LogLevel::warning,
       fmt::format("--state: cannot write to \"{}\": {}; {}", options_.path, what, would_not_know));
  changed_();
}

}  // namespace cpprun

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/io/output_pump.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <cerrno>
#include <csignal>
#include <map>
#include <optional>
#include <utility>

#include "launcher/output/bounds.h"
#include "launcher/output/io/output_streams.h"
#include "launcher/output/lines.h"
#include "launcher/workers/io/signals.h"
#include "proto/text.h"
#include "rendezvous/bounds.h"
#include "rendezvous/io/event_loop.h"
#include "rendezvous/io/file_writer_process.h"
#include "rendezvous/io/stream_writer.h"

namespace cpprun::io {

namespace {

constexpr int our_own_voice = -1;   // cpprun's own number among the speakers of a console
constexpr int workers_as_one = -2;  // all workers without a prefix; no separator between them
constexpr std::size_t console_out = 0;
constexpr std::size_t console_err = 1;
// How long an unfinished line waits before it is shown, since it may be a prompt. Longer than a
// worker takes between two writes of one line, shorter than a user waits.
constexpr Duration unfinished_line_delay = std::chrono::milliseconds(200);
constexpr std::size_t last_output_bytes = 512;  // read of a last line, which may be coloured

std::string cannot_write(const char* name, int error_number) {
  return std::string("cpprun: warning: cannot write to ") + name + ": " + errno_text(error_number) +
         "; ";
}

}  // namespace

class OutputPump::Impl {
  using Stream = WorkerStream;

 public:
  Impl(asio::io_context& context, HelperProcesses& side, int out, int err, bool timed,
       const OutputCarried* before)
      : context_(context),
        side_(side),
        is_timed_(timed),
        descriptors_{out, err},
        flush_timer_(context),
        disk_timer_(context),
        files_(context, side,
               {.room = [this] { resume(); },
                .say = [this](const std::string& sentence) { say(sentence); },
                .ended = [this] { look_whether_flushed(); }}) {
    open_console(console_err, err, "stderr", before == nullptr ? nullptr : &before->err);
    // If both are the same terminal they share one console; otherwise their lines would mix.
    if (same_file(out, err)) {
      consoles_[console_out] = consoles_[console_err];
    } else {
      open_console(console_out, out, "stdout", before == nullptr ? nullptr : &before->out);
    }
  }

  Result<OutputCarried> carried() const {
    OutputCarried carried;
    auto files = files_.carried();
    if (!files) return tl::unexpected<Error>(files.error());
    carried.files = *std::move(files);
    carried.err = carried_console(console_err);
    if (consoles_[console_out] != consoles_[console_err]) {
      carried.out = carried_console(console_out);
    }
    for (const auto& [key, stream] : streams_) {
      if (!stream->pipe.is_open()) continue;
      carried.streams.push_back({.local_rank = key.first,
                                 .is_stderr = key.second,
                                 .pipe = stream->pipe.native_handle(),
                                 .splitter = stream->splitter.state(),
                                 .last = stream->last.state(),
                                 .spoke_at = stream->spoke_at});
    }
    return carried;
  }

  void adopt(const std::vector<WorkerSpec>& specs, const OutputCarried& before) {
    if (before.files) files_.adopt(*before.files);
    for (const OutputCarried::Stream& each : before.streams) {
      const auto spec = std::ranges::find(specs, each.local_rank, &WorkerSpec::local_rank);
      FileDescriptor pipe{each.pipe};
      if (spec == specs.end()) continue;
      const StreamPlan& plan = each.is_stderr ? spec->err : spec->out;
      if (plan.target == StreamTarget::terminal) follow_terminal_size();
      const auto stream =
          add_stream(*spec, plan, each.is_stderr, std::move(pipe), files_.find(plan));
      stream->splitter.resume(each.splitter);
      stream->last.resume(each.last);
      stream->spoke_at = each.spoke_at;
      if (stream->splitter.has_unfinished()) show_later(*stream);
      listen(stream);
    }
  }

  tl::expected<WorkerStreams, SpawnError> attach(const WorkerSpec& spec) {
    WorkerStreams streams;
    forget(spec.local_rank);
    auto opened = open(spec, spec.out, false, streams.out);
    if (opened) opened = open(spec, spec.err, true, streams.err);
    if (opened && spec.out.target == StreamTarget::with_err && streams.err >= 0) {
      streams.out = ::fcntl(streams.err, F_DUPFD_CLOEXEC, 3);
      if (streams.out < 0) opened = tl::unexpected(SpawnError{SpawnStage::pipes, errno});
    }
    if (opened) return streams;
    for (const int made : {streams.out, streams.err}) {
      if (made >= 0) ::close(made);
    }
    forget(spec.local_rank);
    return tl::unexpected(opened.error());
  }

  AttemptFiles& files() { return files_; }
  void watch_stderr(std::function<void(std::string_view)> line) { line_ = std::move(line); }
  void say(const std::string& words) {
    if (words.empty() || !consoles_[console_err]) return;
    const std::string text = is_timed_ ? timed(words, wall_now()) : words;
    consoles_[console_err]->write(
        our_own_voice, "",
        Piece{.text = text, .begins_line = true, .ends_line = text.back() == '\n'});
  }

  bool is_behind() const { return consoles_[console_err] && consoles_[console_err]->full(); }
  void drain(LocalRank local_rank) {
    for (const bool err : {false, true}) {
      if (const auto stream = find(local_rank, err)) take_all(*stream);
    }
  }

  bool hears(LocalRank local_rank) const { return find(local_rank, true) != nullptr; }

  std::vector<std::string> last_lines(LocalRank local_rank) const {
    const auto stream = find(local_rank, true);
    return stream ? stream->last.get() : std::vector<std::string>{};
  }

  std::optional<LastOutput> last_output(LocalRank local_rank) const {
    std::optional<LastOutput> newest;
    for (const bool err : {false, true}) {
      const auto stream = find(local_rank, err);
      if (!stream || !stream->spoke_at) continue;
      LastOutput output{*stream->spoke_at, last_line_of(*stream)};
      if (newest && newest->at > output.at) std::swap(*newest, output);
      // A newer stream without text does not hide the text of the other one.
      if (newest && output.line.empty()) output.line = newest->line;
      newest = std::move(output);
    }
    return newest;
  }

  void close(LocalRank local_rank) {
    drain(local_rank);
    for (const bool err : {false, true}) {
      if (const auto stream = find(local_rank, err)) finish(*stream);
    }
  }

  void flush(Duration timeout, std::function<void()> done) {
    flushed_ = std::move(done);
    flush_timer_.expires_after(timeout);
    flush_timer_.async_wait([this](const asio::error_code& error) {
      if (!error) tell_flushed();
    });
    disk_timer_.expires_after(std::min<Duration>(timeout, bounds::disk_timeout_at_end));
    disk_timer_.async_wait([this](const asio::error_code& error) {
      if (!error) give_disks_up();
    });
    files_.finish();
    // Enlarge a pipe that is not being read, so that a late reader still finds all output.
    for (const std::size_t which : {console_out, console_err}) {
      if (!consoles_[which] || consoles_[which]->empty()) continue;
      static_cast<void>(
          ::fcntl(descriptors_[which], F_SETPIPE_SZ, static_cast<int>(bounds::pipe_bytes_max)));
    }
    look_whether_flushed();
  }

 private:
  using Key = std::pair<LocalRank, bool>;  // true: stderr

  std::optional<Console::Carried> carried_console(std::size_t which) const {
    if (!consoles_[which]) return std::nullopt;
    auto carried = consoles_[which]->carried();
    if (file_writers_[which]) carried.writer = file_writers_[which]->carried();
    return carried;
  }

  // `before`: what another program in this process left; null: there was none.
  void open_console(std::size_t which, int descriptor, const char* name,
                    const std::optional<Console::Carried>* before) {
    const FileWriterProcess::Callbacks callbacks{
        .trouble = [this, name](std::size_t,
                                int error_number) { tell_trouble(name, error_number); },
        .ended = [this, which] { file_writer_ended(which); }};
    const bool has_writer = before != nullptr && *before && (*before)->writer;
    if (has_writer) {
      file_writers_[which] = FileWriterProcess::adopt(*(*before)->writer);
      file_writers_[which]->listen(context_, callbacks);
    } else {
      file_writers_[which] =
          FileWriterProcess::begin_for_file(context_, side_, descriptor, callbacks);
    }
    // If no process could be started, write to the file directly.
    const auto& file_writer = file_writers_[which];
    consoles_[which] = std::make_shared<Console>(
        context_, file_writer ? file_writer->pipe() : descriptor,
        Console::Callbacks{
            .room = [this] { resume(); },
            .empty = [this] { look_whether_flushed(); },
            .lost = [this, name, which](int error_number) { tell_lost(name, which, error_number); },
            .back = [this, name](std::uint64_t bytes) { tell_back(name, bytes); }});
    if (before != nullptr && *before) consoles_[which]->resume(**before);
  }

  tl::expected<void, SpawnError> open(const WorkerSpec& spec, const StreamPlan& plan, bool err,
                                      int& write_end) {
    const bool on_terminal = plan.target == StreamTarget::terminal;
    const bool as_it_is = is_passed_as_it_is(plan);
    const bool heard = plan.target != StreamTarget::kept;
    auto files = files_.find(plan);
    if (files.error_number != 0) {
      return tl::unexpected(SpawnError{err ? SpawnStage::stderr_target : SpawnStage::stdout_target,
                                       files.error_number});
    }
    write_end = files.own.release();
    if (plan.target != StreamTarget::tee && !as_it_is && heard) return {};
    FileDescriptor ours;
    FileDescriptor workers;
    if (on_terminal) {
      auto made = make_terminal(err ? console_err : console_out);
      if (!made) return {};  // it inherits cpprun's stream, as under torchrun
      ours = std::move(made->ours);
      workers = std::move(made->worker);
    } else {
      int ends[2];
      if (::pipe2(ends, O_CLOEXEC) != 0) {
        return tl::unexpected(SpawnError{SpawnStage::pipes, errno});
      }
      ours.reset(ends[0]);
      workers.reset(ends[1]);
    }
    write_end = workers.release();
    listen(add_stream(spec, plan, err, std::move(ours), std::move(files)));
    return {};
  }

  static bool is_passed_as_it_is(const StreamPlan& plan) {
    return plan.target == StreamTarget::passed || plan.target == StreamTarget::terminal;
  }

  std::shared_ptr<Stream> add_stream(const WorkerSpec& spec, const StreamPlan& plan, bool err,
                                     FileDescriptor ours, StreamFiles files) {
    const bool as_it_is = is_passed_as_it_is(plan);
    auto stream = std::make_shared<Stream>(context_, ours.release());
    stream->is_terminal = plan.target == StreamTarget::terminal;
    stream->as_it_is = as_it_is;
    stream->heard = plan.target != StreamTarget::kept;
    stream->speaker = as_it_is ? workers_as_one : 2 * spec.local_rank.value + (err ? 1 : 0);
    stream->is_stderr = err;
    stream->console = err ? console_err : console_out;
    stream->prefix = spec.prefix;
    stream->duplicate_words = plan.duplicate_words;
    stream->files = std::move(files);
    streams_[{spec.local_rank, err}] = stream;
    stream->pipe.non_blocking(true);
    return stream;
  }

  // nullopt if writing to the console could block cpprun. A console stopped with Ctrl-S must stop
  // only the workers that write to it.
  std::optional<WorkerTerminal> make_terminal(std::size_t which) {
    if (!consoles_[which] || !consoles_[which]->never_blocks()) return std::nullopt;
    auto made = open_worker_terminal(descriptors_[which]);
    if (made) follow_terminal_size();
    return made;
  }

  void follow_terminal_size() {
    if (resized_) return;
    resized_.emplace(context_, std::vector<int>{SIGWINCH}, [this](int, const SignalSender&) {
      for (const auto& [key, stream] : streams_) {
        if (!stream->is_terminal || !stream->pipe.is_open()) continue;
        copy_terminal_size(descriptors_[stream->console], stream->pipe.native_handle());
      }
    });
  }

  std::shared_ptr<Stream> find(LocalRank local_rank, bool err) const {
    const auto found = streams_.find({local_rank, err});
    return found == streams_.end() ? nullptr : found->second;
  }

  // Removes the streams of an earlier attempt of this local rank.
  void forget(LocalRank local_rank) {
    close(local_rank);
    std::erase_if(streams_, [&](const auto& each) { return each.first.first == local_rank; });
  }

  void listen(const std::shared_ptr<Stream>& stream) {
    const auto& console = consoles_[stream->console];
    const bool files_are_full = stream->files.writer && stream->files.writer->full();
    if (files_are_full || (stream->heard && console && console->full())) {
      stream->paused = true;
      return;
    }
    stream->pipe.async_wait(asio::posix::stream_descriptor::wait_read,
                            [this, stream](const asio::error_code& error) {
                              if (error || !stream->pipe.is_open()) return;
                              if (take_some(*stream) >= 0) listen(stream);
                            });
  }

  void resume() {
    for (const auto& [key, stream] : streams_) {
      if (!std::exchange(stream->paused, false) || !stream->pipe.is_open()) continue;
      // Posted, because this may be called from within a write of the same stream.
      asio::post(context_, [this, resumed = stream] {
        if (resumed->pipe.is_open()) listen(resumed);
      });
    }
  }

  // Reads once. Returns the number of bytes, 0 if there are none now, -1 at the end.
  long take_some(Stream& stream) {
    const auto got = ::read(stream.pipe.native_handle(), buffer_.data(), buffer_.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (got <= 0) {
      finish(stream);
      return -1;
    }
    stream.spoke_at = boot_now();
    const std::string_view bytes(buffer_.data(), static_cast<std::size_t>(got));
    if (stream.files.file) stream.files.writer->write(*stream.files.file, bytes);
    if (stream.as_it_is) pass_as_it_is(stream, bytes);
    stream.splitter.take(bytes, [&](const Piece& piece) { pass(stream, piece); });
    if (stream.splitter.has_unfinished()) show_later(stream);
    return got;
  }

  // Shows an unfinished line after a delay: a prompt has no newline. Writes do not reset the timer;
  // when it fires it checks when the last one came.
  void show_later(Stream& stream) {
    if (stream.as_it_is || !stream.heard || stream.is_showing) return;
    stream.is_showing = true;
    show_after(stream, unfinished_line_delay);
  }

  void show_after(Stream& stream, Duration delay) {
    stream.show_timer.expires_after(delay);
    stream.show_timer.async_wait(
        [this, weak = stream.weak_from_this()](const asio::error_code& error) {
          const auto shown = weak.lock();
          if (error || !shown || !shown->pipe.is_open()) return;
          const Duration silence = boot_now() - shown->spoke_at.value_or(TimePoint{});
          if (silence < unfinished_line_delay) {
            return show_after(*shown, unfinished_line_delay - silence);
          }
          shown->is_showing = false;
          const auto& console = consoles_[shown->console];
          const auto piece = shown->splitter.show_unfinished();
          if (console && piece) console->write(shown->speaker, shown->prefix, *piece);
        });
  }

  // A progress bar is unfinished until its end.
  static std::string last_line_of(const Stream& stream) {
    std::string line = printable(stream.splitter.unfinished().substr(0, last_output_bytes));
    return trimmed(line).empty() ? stream.last.last(last_output_bytes) : line;
  }

  // Reads what is in the pipe, at most a pipe's capacity in case the writer continues.
  void take_all(Stream& stream) {
    for (std::size_t taken = 0; stream.pipe.is_open() && taken < bounds::pipe_bytes_max;) {
      const auto got = take_some(stream);
      if (got <= 0) return;
      taken += static_cast<std::size_t>(got);
    }
  }

  void finish(Stream& stream) {
    if (!stream.pipe.is_open()) return;
    stream.pipe.close();
    stream.splitter.finish([&](const Piece& piece) { pass(stream, piece); });
    stream.files = {};
  }

  // Adds no bytes and does not wait for the end of a line.
  void pass_as_it_is(const Stream& stream, std::string_view bytes) {
    const Piece piece{.text = bytes, .begins_line = true, .ends_line = bytes.back() == '\n'};
    if (const auto& console = consoles_[stream.console]) console->write(stream.speaker, "", piece);
  }

  void pass(Stream& stream, const Piece& piece) {
    stream.last.add(piece);
    if (line_ && stream.is_stderr) line_(piece.text);
    if (stream.as_it_is) return;
    const auto& console = consoles_[stream.console];
    if (console && stream.heard) console->write(stream.speaker, stream.prefix, piece);
    if (!stream.files.duplicates) return;
    const auto text = duplicate_of(piece, stream.prefix, stream.duplicate_words);
    stream.files.writer->write(*stream.files.duplicates, text);
  }

  void tell_lost(const char* name, std::size_t which, int error_number) {
    say(cannot_write(name, error_number) + "the job continues, and log files are still written\n");
    // A worker that writes to the console directly would get EPIPE. Close the pipes of unprefixed
    // streams so that those workers get it as well.
    if (error_number != EPIPE) return;
    asio::post(context_, [this, which] {
      for (const auto& [key, stream] : streams_) {
        if (stream->as_it_is && stream->console == which) finish(*stream);
      }
    });
  }

  void tell_trouble(const char* name, int error_number) {
    say(cannot_write(name, error_number) + "dropping output; the job continues\n");
  }

  void tell_back(const char* name, std::uint64_t bytes) {
    say(std::string("cpprun: writes to ") + name + " resumed; " + std::to_string(bytes) +
        " bytes were dropped\n");
  }

  void look_whether_flushed() {
    for (const auto& console : consoles_) {
      if (!flushed_ || (console && !console->empty())) return;
    }
    if (!files_.all_written()) return;
    if (!file_writers_[console_out] && !file_writers_[console_err]) return tell_flushed();
    // Posted, because a console may be in the callback that reports it empty.
    asio::post(context_, [this] { close_consoles(); });
  }

  // Stops waiting for the disks. The output is written if they respond later.
  void give_disks_up() {
    const auto not_written = [this](const std::string& what) {
      say("cpprun: warning: end of " + what + " not written: its disk has not responded for " +
          std::to_string(bounds::disk_timeout_at_end.count()) + " s\n");
    };
    const bool out_hangs = bool(std::exchange(file_writers_[console_out], nullptr));
    const bool err_hangs = bool(std::exchange(file_writers_[console_err], nullptr));
    const bool are_one = consoles_[console_out] == consoles_[console_err];
    if (out_hangs || (err_hangs && are_one)) consoles_[console_out].reset();
    if (err_hangs) consoles_[console_err].reset();
    if (out_hangs) not_written("stdout");
    for (const auto& place : files_.give_up()) not_written("the log files in \"" + place + "\"");
    look_whether_flushed();
  }

  // Files still receive what is in their pipes. After that all output is flushed.
  void close_consoles() {
    for (const auto& console : consoles_) {
      // A message was added since. The console reports again when it is empty.
      if (console && !console->empty()) return;
    }
    consoles_ = {};
    for (const auto& file_writer : file_writers_) {
      if (file_writer) file_writer->end();
    }
  }

  // Posted, because the FileWriterProcess is in the callback that reports its end.
  void file_writer_ended(std::size_t which) {
    asio::post(context_, [this, which] {
      file_writers_[which].reset();
      if (!file_writers_[console_out] && !file_writers_[console_err]) tell_flushed();
    });
  }

  void tell_flushed() {
    flush_timer_.cancel();
    disk_timer_.cancel();
    if (flushed_) asio::post(context_, std::exchange(flushed_, nullptr));
  }

  asio::io_context& context_;
  HelperProcesses& side_;
  bool is_timed_;
  std::array<int, 2> descriptors_;  // the caller's
  std::array<std::shared_ptr<Console>, 2> consoles_;
  std::array<std::unique_ptr<FileWriterProcess>, 2> file_writers_;  // for those that are files
  std::map<Key, std::shared_ptr<Stream>> streams_;
  // Not zeroed: that would touch pages that a silent job never uses.
  std::array<char, bounds::pump_read_bytes> buffer_;
  std::function<void()> flushed_;
  std::function<void(std::string_view)> line_;  // see watch_stderr()
  asio::steady_timer flush_timer_;
  asio::steady_timer disk_timer_;
  AttemptFiles files_;
  std::optional<Signals> resized_;  // set if workers have terminals
};

OutputPump::OutputPump(asio::io_context& context, HelperProcesses& side, int out, int err,
                       bool timed, const OutputCarried* before)
    : impl_(std::make_unique<Impl>(context, side, out, err, timed, before)) {}

OutputPump::~OutputPump() = default;

void OutputPump::open_logs(const std::vector<WorkerSpec>& specs, Duration timeout,
                           bool others_remain) {
  impl_->files().open(specs, timeout, others_remain);
}

tl::expected<WorkerStreams, SpawnError> OutputPump::attach(const WorkerSpec& spec) {
  return impl_->attach(spec);
}

void OutputPump::release(WorkerStreams& streams) {
  if (streams.out >= 0) ::close(std::exchange(streams.out, -1));
  if (streams.err >= 0) ::close(std::exchange(streams.err, -1));
}

void OutputPump::say(const std::string& text) {
  impl_->say(text);
}

bool OutputPump::is_behind() const {
  return impl_->is_behind();
}

void OutputPump::watch_stderr(std::function<void(std::string_view)> line) {
  impl_->watch_stderr(std::move(line));
}

void OutputPump::drain(LocalRank local_rank) {
  impl_->drain(local_rank);
}

bool OutputPump::hears(LocalRank local_rank) const {
  return impl_->hears(local_rank);
}

std::vector<std::string> OutputPump::last_lines(LocalRank local_rank) const {
  return impl_->last_lines(local_rank);
}

std::optional<LastOutput> OutputPump::last_output(LocalRank local_rank) const {
  return impl_->last_output(local_rank);
}

void OutputPump::close(LocalRank local_rank) {
  impl_->close(local_rank);
}

Result<OutputCarried> OutputPump::carried() const {
  return impl_->carried();
}

void OutputPump::adopt(const std::vector<WorkerSpec>& specs, const OutputCarried& before) {
  impl_->adopt(specs, before);
}

void OutputPump::flush(Duration timeout, std::function<void()> done) {
  impl_->flush(timeout, std::move(done));
}

}  // namespace cpprun::io

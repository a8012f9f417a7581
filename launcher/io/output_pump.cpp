#include "launcher/io/output_pump.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "launcher/io/console.h"
#include "launcher/last_lines.h"
#include "launcher/line_cutter.h"
#include "launcher/line_filter.h"
#include "proto/bounds.h"

namespace cpprun::io {

namespace {

constexpr int our_own_voice = -1;  // cpprun among the speakers of a console
constexpr std::size_t console_out = 0;
constexpr std::size_t console_err = 1;

bool same_place(int a, int b) {
  struct stat first {};
  struct stat second {};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

// A log file that is written to until the disk is full, and closed like everything else.
struct LogFile {
  LogFile() = default;
  ~LogFile() { close(); }
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;
  void close() {
    if (descriptor >= 0) ::close(std::exchange(descriptor, -1));
  }

  int descriptor = -1;  // -1: none is kept
  std::string path;
  bool complained = false;
};

// One tee'd stream of one worker.
struct Stream {
  Stream(asio::io_context& context, int read_end) : pipe(context, read_end) {}

  asio::posix::stream_descriptor pipe;
  int speaker = 0;
  std::size_t console = console_out;
  std::string prefix;
  LogFile file;
  LogFile duplicates;  // shared by all workers of the attempt: whole lines, one write each
  std::vector<std::string> duplicate_words;
  bool paused = false;  // until the console has room
  LineCutter cutter;
  LastLines last;
};

}  // namespace

class OutputPump::Impl {
 public:
  Impl(asio::io_context& context, int out, int err) : context_(context), flush_timer_(context) {
    consoles_[console_err] = std::make_shared<Console>(context, err, callbacks("stderr"));
    // One terminal under two names is one console, or lines of the two would mix.
    consoles_[console_out] = same_place(out, err)
                                 ? consoles_[console_err]
                                 : std::make_shared<Console>(context, out, callbacks("stdout"));
  }

  tl::expected<WorkerStreams, SpawnError> attach(const WorkerSpec& spec) {
    WorkerStreams streams;
    forget(spec.local_rank);
    if (auto opened = open(spec, spec.out, false, streams.out); !opened) {
      return tl::unexpected(opened.error());
    }
    if (auto opened = open(spec, spec.err, true, streams.err); !opened) {
      if (streams.out >= 0) ::close(streams.out);
      forget(spec.local_rank);
      return tl::unexpected(opened.error());
    }
    return streams;
  }

  void say(const std::string& text) {
    if (text.empty()) return;
    consoles_[console_err]->write(
        our_own_voice, "",
        Piece{.text = text, .begins_line = true, .ends_line = text.back() == '\n'});
  }

  void drain(LocalRank local_rank) {
    for (const bool err : {false, true}) {
      if (const auto stream = find(local_rank, err)) take_all(*stream);
    }
  }

  std::vector<std::string> last_lines(LocalRank local_rank) const {
    const auto found = streams_.find({local_rank, true});
    return found == streams_.end() ? std::vector<std::string>{} : found->second->last.get();
  }

  void close(LocalRank local_rank) {
    drain(local_rank);
    for (const bool err : {false, true}) {
      if (const auto stream = find(local_rank, err)) finish(*stream);
    }
  }

  void flush(Duration patience, std::function<void()> done) {
    flushed_ = std::move(done);
    flush_timer_.expires_after(patience);
    flush_timer_.async_wait([this](const asio::error_code& error) {
      if (!error) tell_flushed();
    });
    look_whether_flushed();
  }

 private:
  using Key = std::pair<LocalRank, bool>;  // true: stderr

  Console::Callbacks callbacks(const char* name) {
    return {.room = [this] { resume(); },
            .empty = [this] { look_whether_flushed(); },
            .lost = [this, name](int error_number) { tell_lost(name, error_number); }};
  }

  tl::expected<void, SpawnError> open(const WorkerSpec& spec, const StreamPlan& plan, bool err,
                                      int& write_end) {
    if (plan.target != StreamTarget::tee) return {};
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      return tl::unexpected(SpawnError{SpawnStage::pipes, errno});
    }
    auto stream = std::make_shared<Stream>(context_, ends[0]);
    stream->speaker = spec.local_rank.value;
    stream->console = err ? console_err : console_out;
    stream->prefix = spec.prefix;
    stream->duplicate_words = plan.duplicate_words;
    if (!open_file(stream->file, plan.file, O_TRUNC) ||
        !open_file(stream->duplicates, plan.duplicate_file, 0)) {
      const int error_number = errno;
      ::close(ends[1]);
      return tl::unexpected(
          SpawnError{err ? SpawnStage::stderr_target : SpawnStage::stdout_target, error_number});
    }
    streams_[{spec.local_rank, err}] = stream;
    write_end = ends[1];
    stream->pipe.non_blocking(true);
    listen(stream);
    return {};
  }

  static bool open_file(LogFile& file, const std::string& path, int flags) {
    if (path.empty()) return true;
    file.path = path;
    file.descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | flags, 0644);
    return file.descriptor >= 0;
  }

  std::shared_ptr<Stream> find(LocalRank local_rank, bool err) const {
    const auto found = streams_.find({local_rank, err});
    return found == streams_.end() ? nullptr : found->second;
  }

  // An earlier attempt's streams of this local rank.
  void forget(LocalRank local_rank) {
    close(local_rank);
    streams_.erase({local_rank, false});
    streams_.erase({local_rank, true});
  }

  void listen(const std::shared_ptr<Stream>& stream) {
    if (consoles_[stream->console]->full()) {
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
      // Not at once: we may be inside a write of that very stream.
      asio::post(context_, [this, stream = stream] {
        if (stream->pipe.is_open()) listen(stream);
      });
    }
  }

  // Takes one bufferful. Gives the bytes taken, 0 where there are none now, -1 at the end.
  long take_some(Stream& stream) {
    const auto got = ::read(stream.pipe.native_handle(), buffer_.data(), buffer_.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (got <= 0) {
      finish(stream);
      return -1;
    }
    const std::string_view bytes(buffer_.data(), static_cast<std::size_t>(got));
    write_file(stream.file, bytes);
    stream.cutter.take(bytes, [&](const Piece& piece) { pass(stream, piece); });
    return got;
  }

  // What lies in the pipe; not more than a pipe holds, in case somebody goes on writing.
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
    stream.cutter.finish([&](const Piece& piece) { pass(stream, piece); });
    stream.file.close();
    stream.duplicates.close();
  }

  void pass(Stream& stream, const Piece& piece) {
    stream.last.add(piece);
    consoles_[stream.console]->write(stream.speaker, stream.prefix, piece);
    if (stream.duplicates.descriptor >= 0) {
      write_file(stream.duplicates, duplicate_of(piece, stream.prefix, stream.duplicate_words));
    }
  }

  void write_file(LogFile& file, std::string_view bytes) {
    while (file.descriptor >= 0 && !bytes.empty()) {
      const auto put = ::write(file.descriptor, bytes.data(), bytes.size());
      if (put > 0) {
        bytes.remove_prefix(static_cast<std::size_t>(put));
      } else if (errno != EINTR) {
        if (std::exchange(file.complained, true)) return;
        return say("cpprun: cannot write \"" + file.path + "\": " + std::strerror(errno) +
                   "; what does not fit is lost, the job goes on\n");
      }
    }
  }

  void tell_lost(const char* name, int error_number) {
    say(std::string("cpprun: cannot write to ") + name + ": " + std::strerror(error_number) +
        "; the job goes on, log files are still written\n");
  }

  void look_whether_flushed() {
    const bool all = consoles_[console_out] && consoles_[console_err] &&
                     consoles_[console_out]->empty() && consoles_[console_err]->empty();
    if (flushed_ && all) tell_flushed();
  }

  void tell_flushed() {
    flush_timer_.cancel();
    if (flushed_) asio::post(context_, std::exchange(flushed_, nullptr));
  }

  asio::io_context& context_;
  std::array<std::shared_ptr<Console>, 2> consoles_;
  std::map<Key, std::shared_ptr<Stream>> streams_;
  std::array<char, bounds::pump_read_bytes> buffer_{};
  std::function<void()> flushed_;
  asio::steady_timer flush_timer_;
};

OutputPump::OutputPump(asio::io_context& context, int out, int err)
    : impl_(std::make_unique<Impl>(context, out, err)) {}

OutputPump::~OutputPump() = default;

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

void OutputPump::drain(LocalRank local_rank) {
  impl_->drain(local_rank);
}

std::vector<std::string> OutputPump::last_lines(LocalRank local_rank) const {
  return impl_->last_lines(local_rank);
}

void OutputPump::close(LocalRank local_rank) {
  impl_->close(local_rank);
}

void OutputPump::flush(Duration patience, std::function<void()> done) {
  impl_->flush(patience, std::move(done));
}

}  // namespace cpprun::io

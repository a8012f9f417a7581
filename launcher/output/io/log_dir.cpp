// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/io/log_dir.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "launcher/output/bounds.h"
#include "launcher/output/lines.h"
#include "launcher/plan/io/host.h"
#include "proto/text.h"

namespace cpprun::io {

namespace {

namespace fs = std::filesystem;

std::string absolute(const std::string& path) {
  std::error_code unknown;  // fall back to the path as given
  const auto found = fs::absolute(path, unknown);
  return unknown ? path : found.string();
}

constexpr const char* system_root = "/tmp";

std::string temporary_root(const Environment& environment) {
  const auto* wanted = find_variable(environment, "TMPDIR");
  return wanted == nullptr || wanted->empty() ? system_root : absolute(*wanted);
}

// Creates a new directory that no other process uses: `beginning` plus random letters.
tl::expected<std::string, DirectoryError> fresh_directory(const std::string& beginning) {
  auto path = beginning + "XXXXXX";
  if (::mkdtemp(path.data()) != nullptr) return path;
  const int error = errno;
  return tl::unexpected(DirectoryError{
      fmt::format("cannot create directory \"{}\" for the log files: {}", path, errno_text(error)),
      error});
}

// A job id may be long and hold any character; a directory name may not.
std::string as_file_name(std::string job) {
  constexpr std::size_t name_bytes_max = 240;  // NAME_MAX is 255, and random letters follow
  if (job.size() > name_bytes_max) job.resize(name_bytes_max);
  for (char& byte : job) {
    if (byte == '/' || byte == '\0') byte = '_';
  }
  return job;
}

tl::expected<void, DirectoryError> make_directories(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  // create_directories reports success if a regular file has that name.
  if (!error && !fs::is_directory(path)) error = std::make_error_code(std::errc::not_a_directory);
  if (!error) return {};
  return tl::unexpected(DirectoryError{
      fmt::format("cannot create directory \"{}\": {}", path, error.message()), error.value()});
}

// The run directory is new, so an existing attempt of that name is ours: it ran under a lost
// coordinator whose successor counts from 0 again. Renames it and returns the new name; empty if
// there was none.
std::string keep_earlier(const std::string& attempt) {
  constexpr int names_max = 1000;
  std::error_code taken;  // the name is in use: try the next number
  for (int n = 1; n < names_max && fs::exists(attempt, taken); ++n) {
    auto name = fmt::format("{}_before_{}", attempt, n);
    fs::rename(attempt, name, taken);
    if (!taken) return name;
  }
  return "";
}

bool keeps_files(const LogOptions& logs) {
  const bool duplicates = !logs.duplicate_out.empty() || !logs.duplicate_err.empty();
  return logs.root || logs.redirects.any() || duplicates;
}

}  // namespace

bool needs_private_directory(const Config& config) {
  return !config.logs.disabled && !keeps_files(config.logs);
}

std::vector<std::string> private_directories(const Config& config, const Environment& environment) {
  constexpr int random_bytes = 8;
  if (!needs_private_directory(config) && !config.probes() && !config.restarts.reconfigures) {
    return {};
  }
  const auto name = "/cpprun_" + random_token(random_bytes);
  std::vector<std::string> directories{temporary_root(environment) + name};
  if (directories.front() != system_root + name) directories.push_back(system_root + name);
  return directories;
}

std::string other_directory_text(const Environment& environment, int error_number) {
  return fmt::format("note: TMPDIR={} cannot be used ({}); cpprun uses {} on this node",
                     *find_variable(environment, "TMPDIR"), errno_text(error_number), system_root);
}

Result<LogDir> LogDir::make(const Config& config, const Environment& environment,
                            const std::string& error_directory) {
  LogDir directories;
  const auto& logs = config.logs;
  directories.attempts_kept_ = static_cast<std::size_t>(logs.attempts_kept);
  if (logs.disabled) return directories;
  if (!keeps_files(logs)) {
    directories.error_directory_ = error_directory;
    return directories;
  }
  auto root = logs.root.value_or("");
  if (root.empty()) {
    // Logs are wanted but no directory was given. Use torchrun's default; the files are kept.
    const auto wanted = temporary_root(environment);
    auto made = fresh_directory(wanted + "/torchelastic_");
    if (!made && wanted != system_root) {
      if (auto other = fresh_directory(std::string(system_root) + "/torchelastic_")) {
        directories.note_ = other_directory_text(environment, made.error().error_number);
        made = std::move(other);
      }
    }
    if (!made) return failure(made.error().reason);
    root = std::move(*made);
  } else if (auto made = make_directories(root); !made) {
    return tl::unexpected(Error{"--log-dir: " + made.error().reason});
  } else {
    // A worker may change its working directory before it writes its error file.
    root = absolute(root);
  }
  auto run = fresh_directory(fmt::format("{}/{}_", root, as_file_name(config.job)));
  if (!run) return failure(run.error().reason);
  // mkdtemp creates it for the owner only. Logs follow the user's umask.
  std::error_code ignored;
  const auto mask = ::umask(0);
  ::umask(mask);
  fs::permissions(*run, static_cast<fs::perms>(0777U & ~mask), ignored);
  directories.run_directory_ = std::move(*run);
  return directories;
}

Result<LogDir> LogDir::make(const Config& config, const Environment& environment,
                            const std::string& error_directory, HelperProcesses& side) {
  if (config.logs.disabled || !keeps_files(config.logs)) {
    return make(config, environment, error_directory);
  }
  const auto look = [&] {
    const auto made = make(config, environment, error_directory);
    return answer_of(made.map([](const LogDir& its) {
      return packed({its.run_directory_, its.note_});
    }));
  };
  const auto made = result_of(
      side.ask(look, bounds::disk_timeout_at_start),
      fmt::format("--log-dir: cannot create a directory in \"{}\": its disk does not respond",
                  config.logs.root.value_or(temporary_root(environment))));
  if (!made) return tl::unexpected(made.error());
  const auto texts = unpacked(*made);
  LogDir directories;
  directories.attempts_kept_ = static_cast<std::size_t>(config.logs.attempts_kept);
  directories.run_directory_ = texts.at(0);
  directories.note_ = texts.at(1);
  return directories;
}

LogDir LogDir::adopt(const Config& config, Carried carried) {
  LogDir directories;
  directories.attempts_kept_ = static_cast<std::size_t>(config.logs.attempts_kept);
  directories.run_directory_ = std::move(carried.run_directory);
  directories.error_directory_ = std::move(carried.error_directory);
  directories.attempts_ = std::move(carried.attempts);
  directories.is_fresh_ = carried.is_fresh;
  return directories;
}

LogDir::LogDir(LogDir&& other) noexcept
    : run_directory_(std::exchange(other.run_directory_, {})),
      error_directory_(std::exchange(other.error_directory_, {})),
      note_(std::move(other.note_)),
      attempts_kept_(other.attempts_kept_),
      attempts_(std::move(other.attempts_)),
      is_fresh_(other.is_fresh_) {}

LogDir::~LogDir() {
  std::error_code ignored;  // at worst it stays in the temporary directory
  if (!error_directory_.empty()) fs::remove_all(error_directory_, ignored);
}

void LogDir::forget_oldest(const std::string& newest) {
  const auto moved = keep_earlier(newest);
  for (auto& each : attempts_) {
    if (each == newest && !moved.empty()) each = moved;
  }
  attempts_.push_back(newest);
  while (attempts_kept_ > 0 && attempts_.size() > attempts_kept_) {
    std::error_code stays;  // what cannot be removed stays for the user to find
    fs::remove_all(attempts_.front(), stays);
    attempts_.pop_front();
  }
}

// The directory of a worker that is restarted alone: "attempt_7/0". No other worker uses that
// attempt. The round's own directory stays as long as the round.
void LogDir::forget_oldest_of_worker(const std::string& newest) {
  if (attempts_kept_ == 0) return;
  const auto is_of_worker = [&newest](const std::string& each) {
    return fs::path(each).filename() == fs::path(newest).filename();
  };
  attempts_.push_back(newest);
  auto count = static_cast<std::size_t>(std::ranges::count_if(attempts_, is_of_worker));
  for (; count > attempts_kept_; --count) {
    const auto oldest = std::ranges::find_if(attempts_, is_of_worker);
    std::error_code stays;
    fs::remove_all(*oldest, stays);
    fs::remove(fs::path(*oldest).parent_path(), stays);
    attempts_.erase(oldest);
  }
}

tl::expected<void, DirectoryError> LogDir::prepare(const std::vector<WorkerSpec>& specs,
                                                   bool is_restart) {
  if (!specs.empty() && !specs.front().log_directory.empty()) {
    if (is_restart) {
      for (const auto& spec : specs) forget_oldest_of_worker(spec.log_directory);
    } else {
      forget_oldest(fs::path(specs.front().log_directory).parent_path().string());
    }
  }
  for (const auto& spec : specs) {
    std::error_code ignored;  // make_directories below reports what is in the way
    if (spec.log_directory.empty()) {
      // A failed worker of an earlier attempt left it. It must not be attributed to this attempt.
      if (!spec.error_file.empty()) fs::remove(spec.error_file, ignored);
      continue;
    }
    fs::remove_all(spec.log_directory, ignored);
    for (const auto* stream : {&spec.out, &spec.err}) fs::remove(stream->duplicate_file, ignored);
    if (auto made = make_directories(spec.log_directory); !made) return made;
  }
  return {};
}

tl::expected<void, DirectoryError> LogDir::prepare(const std::vector<WorkerSpec>& specs,
                                                   HelperProcesses& side, Duration timeout,
                                                   bool is_restart) {
  // There is no earlier attempt, and error files need no directories of their own: skip the disk.
  if (std::exchange(is_fresh_, false) && run_directory_.empty()) return {};
  const auto answer = side.ask(
      [&] {
        const auto made = prepare(specs, is_restart);
        std::vector<std::string> texts = {made ? "" : made.error().reason,
                                          std::to_string(made ? 0 : made.error().error_number)};
        texts.insert(texts.end(), attempts_.begin(), attempts_.end());
        return packed(texts);
      },
      timeout);
  const auto texts = unpacked(answer.value_or(""));
  if (texts.size() < 2) {
    const auto& directory = run_directory_.empty() ? error_directory_ : run_directory_;
    return tl::unexpected(DirectoryError{
        fmt::format("cannot create a directory in \"{}\": its disk does not respond", directory),
        ETIMEDOUT});
  }
  attempts_.assign(texts.begin() + 2, texts.end());
  const int error_number = whole_number(texts[1]).value_or(0);
  if (error_number != 0) return tl::unexpected(DirectoryError{texts[0], error_number});
  return {};
}

std::vector<std::string> read_last_lines(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return {};
  constexpr auto bytes_max = bounds::last_lines_bytes_max;
  const auto size = ::lseek(file, 0, SEEK_END);
  const auto begin = std::max<off_t>(0, size - static_cast<off_t>(bytes_max));
  std::string tail(bytes_max, '\0');
  const auto got = size < 0 ? -1 : ::pread(file, tail.data(), tail.size(), begin);
  ::close(file);
  if (got <= 0) return {};
  tail.resize(static_cast<std::size_t>(got));
  // The first line is probably incomplete.
  const auto newline = tail.find('\n');
  if (begin > 0 && newline != std::string::npos) tail.erase(0, newline + 1);
  return last_lines_of(tail);
}

Result<std::string> read_small_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    return failure(fmt::format("cannot read \"{}\": {}", path, errno_text(errno)));
  }
  std::string text;
  char buffer[16 * 1024];
  auto got = ::read(file, buffer, sizeof buffer);
  while (got > 0 && text.size() <= bounds::error_file_bytes_max) {
    text.append(buffer, static_cast<std::size_t>(got));
    got = ::read(file, buffer, sizeof buffer);
  }
  const int error_number = errno;
  ::close(file);
  if (got < 0) {
    return failure(fmt::format("cannot read \"{}\": {}", path, errno_text(error_number)));
  }
  if (text.size() > bounds::error_file_bytes_max) {
    return failure(fmt::format("cannot read \"{}\": it is larger than {} bytes", path,
                               bounds::error_file_bytes_max));
  }
  return text;
}

Result<void> write_whole_file(const std::string& path, const std::string& text) {
  // A random name and O_EXCL: no other user can have placed a link there.
  const std::string draft = path + "." + random_token(4) + ".draft";
  const auto cannot = [&](int error_number) {
    return failure(fmt::format("cannot write \"{}\": {}", path, errno_text(error_number)));
  };
  const int file = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) return cannot(errno);
  std::string_view rest = text;
  int error_number = 0;
  while (!rest.empty() && error_number == 0) {
    const auto written = ::write(file, rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      error_number = errno;
    }
  }
  // Some file systems report a full disk only on close.
  if (::close(file) != 0 && error_number == 0) error_number = errno;
  if (error_number == 0 && ::rename(draft.c_str(), path.c_str()) != 0) error_number = errno;
  if (error_number == 0) return {};
  ::unlink(draft.c_str());
  return cannot(error_number);
}

}  // namespace cpprun::io

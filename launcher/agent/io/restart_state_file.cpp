// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/io/restart_state_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "launcher/io/wall_clock.h"
#include "launcher/output/io/log_dir.h"
#include "proto/bounds.h"
#include "proto/text.h"
#include "rendezvous/io/event_loop.h"
#include "rendezvous/job/job_record_json.h"

namespace cpprun::io {

namespace {

ClockPair clock_reading() {
  return {.now = boot_now(), .wall = wall_now()};
}

std::string no_answer(const std::string& path) {
  return fmt::format("--restart-state: the disk of \"{}\" does not respond", path);
}

// Returns the error and the content. Both are empty if there is no such file.
std::string read_aside(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) {
    if (errno == ENOENT) return packed({"", ""});
    return packed({fmt::format("cannot read \"{}\": {}", path, errno_text(errno)), ""});
  }
  if (!S_ISREG(facts.st_mode)) {
    return packed({fmt::format("\"{}\" is not a regular file", path), ""});
  }
  const auto text = read_small_file(path);
  return packed({text ? "" : text.error().reason, text.value_or("")});
}

std::string write_aside(const std::string& path, const std::string& text) {
  const auto written = write_whole_file(path, text);
  return packed({written ? "" : written.error().reason});
}

std::string remove_aside(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return packed({""});
  return packed({fmt::format("cannot remove \"{}\": {}", path, errno_text(errno))});
}

}  // namespace

Result<RestartState> RestartStateFile::read(const std::string& path, const std::string& job,
                                            HelperProcesses& side) {
  const auto ask = [&](const std::function<std::string()>& look) -> Result<std::string> {
    const auto texts =
        unpacked(side.ask(look, bounds::disk_patience_at_start).value_or(std::string()));
    if (texts.empty()) return failure(no_answer(path));
    if (!texts[0].empty()) return failure("--restart-state: " + texts[0]);
    return texts.size() > 1 ? texts[1] : "";
  };
  const auto text = ask([&] { return read_aside(path); });
  if (!text) return tl::unexpected(text.error());
  RestartState state;
  if (!text->empty()) {
    auto before = read_restart_state(*text, job, clock_reading());
    if (!before) {
      return failure(fmt::format("--restart-state: \"{}\" {}", path, before.error().reason));
    }
    state = *std::move(before);
  }
  const auto kept = restart_state_json(state, job, clock_reading());
  const auto written = ask([&] { return write_aside(path, kept); });
  if (!written) return tl::unexpected(written.error());
  return state;
}

RestartStateFile::RestartStateFile(asio::io_context& context, HelperProcesses& side,
                                   std::string path, std::string job, Tell tell)
    : desk_(context, side, bounds::disk_patience_at_end),
      path_(std::move(path)),
      job_(std::move(job)),
      tell_(std::move(tell)) {}

void RestartStateFile::keep(const RestartState& state) {
  write(state, [] {});
}

void RestartStateFile::finish(const std::optional<RestartState>& state,
                              std::function<void()> done) {
  if (state) return write(*state, std::move(done));
  desk_.ask([path = path_] { return remove_aside(path); },
            [this, done = std::move(done)](const auto& answer) {
              told(answer);
              done();
            });
}

void RestartStateFile::write(const RestartState& state, std::function<void()> done) {
  desk_.ask([path = path_, text = restart_state_json(
                               state, job_, clock_reading())] { return write_aside(path, text); },
            [this, done = std::move(done)](const auto& answer) {
              told(answer);
              done();
            });
}

void RestartStateFile::told(const std::optional<std::string>& answer) {
  const auto texts = unpacked(answer.value_or(""));
  const auto wrong = texts.empty()      ? no_answer(path_)
                     : texts[0].empty() ? std::string()
                                        : "--restart-state: " + texts[0];
  if (!wrong.empty() && wrong != last_wrong_) {
    tell_(wrong + "; a run that continues this job may have too many restarts left");
  }
  last_wrong_ = wrong;
}

}  // namespace cpprun::io

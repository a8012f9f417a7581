#include "launcher/io/examiner.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "launcher/io/last_look.h"
#include "launcher/io/log_dir.h"
#include "launcher/io/program_file.h"

namespace cpprun::io {

namespace {

// Less than this, and whoever writes a page or a file's name is refused. The kernel keeps a part of
// most disks for root, which f_bavail leaves out.
constexpr unsigned long free_bytes_min = 64UL * 1024;

bool is_full(const std::string& folder) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0 || disk.f_blocks == 0) return false;
  const bool no_names = disk.f_files != 0 && disk.f_favail == 0;
  return disk.f_bavail * disk.f_frsize < free_bytes_min || no_names;
}

// What a container is given for /dev/shm where nobody asks for more.
constexpr double container_shm_mebibytes = 64;

std::string small_shm() {
  struct statvfs disk {};
  if (::statvfs("/dev/shm", &disk) != 0) return "";
  constexpr double mebibyte = 1024.0 * 1024;
  const auto size = static_cast<double>(disk.f_blocks * disk.f_frsize) / mebibyte;
  return size > container_shm_mebibytes ? "" : fmt::format("it has {:.0f} MiB", size);
}

}  // namespace

Examiner::Examiner(OutputPump& pump, const Environment& environment, std::string run_folder)
    : pump_(pump), run_folder_(std::move(run_folder)), disks_{"/dev/shm"} {
  const auto* temporary = find_variable(environment, "TMPDIR");
  disks_.push_back(temporary == nullptr || temporary->empty() ? "/tmp" : *temporary);
  if (!run_folder_.empty()) disks_.push_back(run_folder_);
  disks_.emplace_back(".");
}

void Examiner::begin() {
  oom_before_ = oom_kills();
  last_seen_.clear();
}

void Examiner::look_before_kill(LocalRank local_rank, int pid) {
  if (pid != 0) last_seen_[local_rank] = last_look(pid);
}

std::string Examiner::last_seen(LocalRank local_rank) const {
  const auto found = last_seen_.find(local_rank);
  return found == last_seen_.end() ? std::string() : found->second;
}

Evidence Examiner::examine(const Outcome& outcome, const WorkerSpec& spec) {
  Evidence evidence{.outcome = outcome, .executable = spec.argv.front()};
  if (!spec.error_file.empty()) {
    if (auto text = read_small_file(spec.error_file)) {
      evidence.error_text = std::move(*text);
      if (!run_folder_.empty()) evidence.error_file = spec.error_file;
    }
  }
  if (spec.err.target == StreamTarget::file) {
    evidence.last_lines = read_last_lines(spec.err.file);
  } else if (spec.err.target == StreamTarget::tee || spec.err.target == StreamTarget::passed) {
    pump_.drain(spec.local_rank);
    evidence.last_lines = pump_.last_lines(spec.local_rank);
    evidence.with_stdout = spec.out.target == StreamTarget::with_err;
  }
  evidence.stdout_file = spec.out.file;
  evidence.stderr_file = spec.err.file;
  evidence.surroundings = surroundings_of(outcome, evidence.executable);
  return evidence;
}

Surroundings Examiner::surroundings_of(const Outcome& outcome, const std::string& executable) {
  Surroundings around;
  around.last_seen = last_seen(outcome.local_rank);
  if (outcome.spawn_error) {
    around.full_disks = full_disks();
    if (outcome.spawn_error->stage != SpawnStage::exec) return around;
    auto file = look_at_program(executable);
    around.exec_fault = file.fault;
    around.exec_detail = std::move(file.detail);
    return around;
  }
  // Hundreds of workers that ended because they were told to are not worth the looking.
  const bool told = outcome.our_signal != 0 && outcome.status.signalled &&
                    outcome.status.value == outcome.our_signal;
  if (told) return around;
  const auto now = oom_kills();
  around.oom_kills = now.in_group - oom_before_.in_group;
  around.oom_kills_on_machine = now.on_machine - oom_before_.on_machine;
  around.memory_limit = memory_limit();
  around.full_disks = full_disks();
  around.small_shm = small_shm();
  around.kernel_lines = kernel_log_.about(outcome.pid);
  return around;
}

std::vector<std::string> Examiner::full_disks() const {
  std::vector<std::string> full;
  for (const auto& disk : disks_) {
    if (is_full(disk)) full.push_back(disk == "." ? "the folder cpprun was started in" : disk);
  }
  return full;
}

}  // namespace cpprun::io

// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/io/agent_upgrade.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string_view>
#include <utility>

#include "launcher/agent/agent.h"
#include "launcher/plan/io/host.h"
#include "launcher/plan/meeting_place.h"
#include "proto/text.h"
#include "rendezvous/io/event_loop.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/job/job_record_json.h"

namespace cpprun::io {

namespace {

// Of the check. Starting a program from a slow disk takes a while, and the job runs on meanwhile.
constexpr Duration check_timeout = std::chrono::seconds(20);
constexpr std::size_t answer_bytes_max = 4096;
constexpr std::size_t reason_bytes_max = 512;

FileDescriptor file_with(const std::string& bytes) {
  FileDescriptor file(::memfd_create("cpprun-upgrade", MFD_CLOEXEC));
  if (file && write_all(file.get(), bytes) < bytes.size()) file.reset();
  if (file) (void)::lseek(file.get(), 0, SEEK_SET);
  return file;
}

bool set_kept(int descriptor, bool is_kept) {
  return ::fcntl(descriptor, F_SETFD, is_kept ? 0 : FD_CLOEXEC) == 0;
}

// Runs in a helper process. Executes the check, with its output in `output`.
[[noreturn]] void execute_check(const ExecArray& words, const ExecArray& variables, int state,
                                int output) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  set_kept(state, true);
  ::execve(words.get()[0], words.get(), variables.get());
  const std::string why = "cannot execute it: " + errno_text(errno);
  (void)write_all(STDOUT_FILENO, why);
  ::_exit(127);
}

std::string ending_text(int status) {
  if (WIFSIGNALED(status)) return fmt::format("it died of signal {}", WTERMSIG(status));
  return fmt::format("it exited with {}", WEXITSTATUS(status));
}

// What the check has printed, and how it ended.
Result<std::string> judge(const std::string& printed, int status) {
  const std::string_view text = trimmed(printed);
  const bool is_good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (is_good && text.starts_with(can_continue_mark)) {
    return std::string(text.substr(can_continue_mark.size()));
  }
  if (text.empty() || is_good) return failure(ending_text(status) + ", and is no cpprun");
  // The first line has the reason.
  constexpr std::string_view own_mark = "cpprun: error: ";
  std::string_view reason = text.substr(0, text.find('\n'));
  if (reason.starts_with(own_mark)) reason.remove_prefix(own_mark.size());
  return failure(plain_line(reason, reason_bytes_max));
}

// Runs in a helper process.
Result<std::string> run_check(const std::string& program, const Origin& origin,
                              const std::string& state) {
  const FileDescriptor file = file_with(state);
  int ends[2];
  if (!file || ::pipe2(ends, O_CLOEXEC) != 0) return failure(errno_text(errno));
  FileDescriptor ours{ends[0]};
  FileDescriptor theirs{ends[1]};
  std::vector<std::string> all = {program};
  for (auto& word : check_words(file.get(), origin.words)) all.push_back(std::move(word));
  const auto pid = ::fork();
  if (pid < 0) return failure("cannot start a process: " + errno_text(errno));
  if (pid == 0) {
    execute_check(ExecArray(std::move(all)), ExecArray(origin.environment), file.get(),
                  theirs.get());
  }
  theirs.reset();
  std::string printed;
  std::array<char, answer_bytes_max> some{};
  while (true) {
    const auto got = ::read(ours.get(), some.data(), some.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    if (printed.size() < answer_bytes_max) printed.append(some.data(), std::size_t(got));
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return judge(printed, status);
}

}  // namespace

std::string own_program() {
  const auto paths = own_paths();
  if (paths.empty()) return "";
  // That it was executed through such a name says nothing about a file.
  constexpr std::string_view unnamed = "/proc/";
  std::string path = paths.front().starts_with(unnamed) ? paths.back() : paths.front();
  constexpr std::string_view deleted = " (deleted)";
  if (path.ends_with(deleted)) path.resize(path.size() - deleted.size());
  return std::filesystem::path(path).lexically_normal().string();
}

std::vector<std::string> check_words(int descriptor, const std::vector<std::string>& words) {
  std::vector<std::string> all = {check_upgrade_flag, std::to_string(descriptor)};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

AgentUpgrade::AgentUpgrade(asio::io_context& context, HelperProcesses& side)
    : checks_(context, side, check_timeout, /*only_in_helper=*/true) {}

void AgentUpgrade::check(const std::string& program, const Origin& origin, const std::string& state,
                         Done done) {
  checks_.ask(
      [=] { return answer_of(run_check(program, origin, state)); },
      [done = std::move(done), program](const std::optional<std::string>& answer) {
        auto version = result_of(
            answer, fmt::format("it does not answer within {:.0f} s", in_seconds(check_timeout)));
        if (version) return done(version);
        done(failure(fmt::format("{} cannot continue: {}", program, version.error().reason)));
      });
}

std::string AgentUpgrade::execute(const std::string& program, const Origin& origin,
                                  const UpgradeState& state) {
  const FileDescriptor file = file_with(upgrade_state_bytes(state));
  if (!file) return "cannot write the state: " + errno_text(errno);
  std::vector<int> kept = descriptors_of(state);
  kept.push_back(file.get());
  std::vector<std::string> all = {program};
  all.insert(all.end(), origin.words.begin(), origin.words.end());
  const ExecArray words(std::move(all));
  const ExecArray variables(origin.environment,
                            {{upgrade_state_variable, std::to_string(file.get())}});
  std::string why;
  for (const int descriptor : kept) {
    if (!set_kept(descriptor, true)) why = "a descriptor is closed: " + errno_text(errno);
  }
  if (why.empty()) {
    ::execve(program.c_str(), words.get(), variables.get());
    why = errno_text(errno);
  }
  for (const int descriptor : kept) (void)set_kept(descriptor, false);
  return fmt::format("cannot execute {}: {}", program, why);
}

Result<UpgradeState> read_upgrade_state(int descriptor) {
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    return failure("is not in a file");
  }
  std::string bytes(static_cast<std::size_t>(facts.st_size), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const auto got =
        ::pread(descriptor, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return failure("cannot be read: " + errno_text(errno));
    done += static_cast<std::size_t>(got);
  }
  return read_upgrade_state(std::string_view(bytes));
}

std::optional<Result<UpgradeState>> take_upgrade_state(Environment& environment) {
  const std::string* const text = find_variable(environment, upgrade_state_variable);
  if (text == nullptr) return std::nullopt;
  const auto descriptor = exact_number<int>(*text);
  environment.erase(upgrade_state_variable);
  if (!descriptor || *descriptor <= STDERR_FILENO) {
    return Result<UpgradeState>(failure("is missing"));
  }
  auto state = read_upgrade_state(*descriptor);
  if (!state) return state;
  ::close(*descriptor);
  for (const int kept : descriptors_of(*state)) (void)set_kept(kept, false);
  return state;
}

Result<void> continue_inputs(RunInputs& inputs, const UpgradeState& before) {
  Config& config = inputs.config;
  if (config.local_world_size != before.local_world_size) {
    return failure(fmt::format("--nproc-per-node gives {} workers now, and {} run",
                               config.local_world_size, before.local_world_size));
  }
  config.job = before.job;
  config.endpoint = before.agent.master;
  config.store = resolve_store(config, !inputs.secrets.empty());
  inputs.agent_number = before.agent_number;
  inputs.node_token = before.node_token;
  inputs.job_processes = {.mark = before.mark, .token = before.node_token};
  inputs.error_directories = before.watchdog.directories;
  return {};
}

Result<void> try_to_continue(const RunInputs& inputs, const UpgradeState& before) {
  const LogDir::Carried& logs = before.workers.logs;
  auto facts = facts_of(inputs, logs.run_directory, logs.error_directory);
  facts.hosts_coordinator = before.coordinator.has_value();
  Agent agent{inputs.config, std::move(facts)};
  const auto specs = AgentSuccession::resume(agent, boot_now(), before.agent);
  if (!specs) return tl::unexpected<Error>(specs.error());
  if (before.coordinator) {
    const auto record =
        read_job_record(before.coordinator->record, {.now = boot_now(), .wall = wall_now()});
    if (!record) return failure("the job's record " + record.error().reason);
  }
  return {};
}

}  // namespace cpprun::io

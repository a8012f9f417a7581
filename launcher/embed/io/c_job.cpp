// SPDX-License-Identifier: BSD-3-Clause
// The functions of <cpprun/job.h>.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "launcher/embed/io/embedded_rendezvous.h"
#include "launcher/embed/io/launched_job.h"
#include "launcher/embed/io/public/job.h"
#include "launcher/embed/job_event_json.h"
#include "proto/environment.h"
#include "proto/secure/secret.h"
#include "proto/text.h"
#include "rendezvous/embed/io/c_frame.h"
#include "rendezvous/io/secret_file.h"

namespace c = cpprun::c;
using c::Code;
using cpprun::JobEvent;
using cpprun::StoreResult;
using cpprun::io::EmbeddedRendezvous;
using cpprun::io::LaunchedJob;

static_assert(CPPRUN_JOB_TIMEOUT == static_cast<int>(Code::timeout));
static_assert(CPPRUN_JOB_CLOSED == static_cast<int>(Code::closed));
static_assert(CPPRUN_JOB_BAD_ARGUMENT == static_cast<int>(Code::bad_argument));
static_assert(CPPRUN_JOB_VERSION == static_cast<int>(Code::version));
static_assert(CPPRUN_JOB_NO_MEMORY == static_cast<int>(Code::no_memory));
static_assert(CPPRUN_JOB_FORKED == static_cast<int>(Code::forked));
static_assert(CPPRUN_JOB_SYSTEM == static_cast<int>(Code::system));
static_assert(CPPRUN_JOB_UNSUPPORTED == static_cast<int>(Code::unsupported));
static_assert(CPPRUN_STATUS_NONE == static_cast<int>(cpprun::StatusAccess::none));
static_assert(CPPRUN_STATUS_USER == static_cast<int>(cpprun::StatusAccess::user));
static_assert(CPPRUN_STATUS_HOST == static_cast<int>(cpprun::StatusAccess::host));
static_assert(CPPRUN_STATUS_NETWORK == static_cast<int>(cpprun::StatusAccess::network));
static_assert(CPPRUN_LOG_ERROR == static_cast<int>(cpprun::LogLevel::error));
static_assert(CPPRUN_LOG_WARNING == static_cast<int>(cpprun::LogLevel::warning));
static_assert(CPPRUN_LOG_INFO == static_cast<int>(cpprun::LogLevel::info));
static_assert(CPPRUN_LOG_DEBUG == static_cast<int>(cpprun::LogLevel::debug));

struct cpprun_rendezvous {
  std::unique_ptr<EmbeddedRendezvous> rendezvous;
};

struct cpprun_job {
  std::unique_ptr<LaunchedJob> job;
};

namespace {

// The size of the first version of a struct whose last member then was a pointer at that place.
constexpr std::size_t size_with(std::size_t last_member) {
  return last_member + sizeof(void*);
}

using EventCallback = void (*)(void* user, const cpprun_event* event);

std::function<void(const JobEvent&)> event_hook(EventCallback callback, void* user) {
  if (callback == nullptr) return {};
  return [callback, user](const JobEvent& event) {
    const auto text = [](const auto& value) { return value ? value->c_str() : nullptr; };
    cpprun_event shown{};
    shown.size = sizeof shown;
    shown.name = event.name.c_str();
    shown.time = event.time;
    shown.job = event.job.c_str();
    shown.host = event.host.c_str();
    shown.node = event.node.value_or(-1);
    shown.round = event.round;
    shown.rank = event.rank.value_or(-1);
    shown.local_rank = event.local_rank.value_or(-1);
    shown.pid = event.pid.value_or(-1);
    shown.exit_code = event.exit_code.value_or(-1);
    shown.signal = text(event.signal);
    shown.reason = text(event.reason);
    shown.cause = text(event.cause);
    shown.description = text(event.description);
    shown.hint = text(event.hint);
    shown.message = text(event.message);
    shown.is_consequence = event.is_consequence ? 1 : 0;
    shown.json = event.json.c_str();
    callback(user, &shown);
  };
}

StoreResult<std::unique_ptr<cpprun_rendezvous>> open(const cpprun_rendezvous_options* given) {
  const auto read = c::read_struct("cpprun_rendezvous_open", "cpprun_rendezvous_options", given,
                                   size_with(offsetof(cpprun_rendezvous_options, event_user)));
  if (!read) return tl::unexpected(read.error());
  if (read->status < CPPRUN_STATUS_NONE || read->status > CPPRUN_STATUS_NETWORK) {
    return cpprun::failure(Code::bad_argument, "cpprun_rendezvous_open: options->status is " +
                                                   std::to_string(read->status) +
                                                   "; use one of CPPRUN_STATUS_NONE, …");
  }
  EmbeddedRendezvous::Options options;
  const std::string_view host = read->host == nullptr ? "" : read->host;
  if (!host.empty()) options.host = host == "*" ? "" : std::string(host);
  options.port = read->port;
  if (read->secret != nullptr) {
    auto secrets = cpprun::parse_secrets(read->secret, cpprun::make_key_memory);
    if (!secrets) {
      return cpprun::failure(Code::bad_argument,
                             "cpprun_rendezvous_open: options->secret: " + secrets.error().reason);
    }
    options.secrets = std::move(*secrets);
  }
  options.status = static_cast<cpprun::StatusAccess>(read->status);
  if (read->jobs_max != 0) options.jobs_max = read->jobs_max;
  options.memory_bytes_max = read->memory_bytes_max;
  if (read->log != nullptr) {
    options.log = [log = read->log, user = read->log_user](cpprun::LogLevel level,
                                                           const std::string& line) {
      log(user, static_cast<int>(level), line.c_str());
    };
  }
  options.event = event_hook(read->event, read->event_user);
  auto opened = EmbeddedRendezvous::open(std::move(options));
  if (!opened) return tl::unexpected(std::move(opened.error()));
  return std::unique_ptr<cpprun_rendezvous>(new cpprun_rendezvous{std::move(*opened)});
}

// Adds the "NAME=value" of an array to the variables of this process.
StoreResult<cpprun::Environment> variables_of(const cpprun_launch_options& options) {
  cpprun::Environment variables = cpprun::environment_of(environ);
  for (std::size_t at = 0; at < options.variable_count; ++at) {
    const char* const given = options.variables == nullptr ? nullptr : options.variables[at];
    const std::string_view each = given == nullptr ? "" : given;
    const auto equals = each.find('=');
    if (equals == each.npos || equals == 0) {
      return cpprun::failure(Code::bad_argument, "cpprun_launch: options->variables[" +
                                                     std::to_string(at) + "] is not NAME=value");
    }
    variables[std::string(each.substr(0, equals))] = each.substr(equals + 1);
  }
  return variables;
}

StoreResult<std::unique_ptr<cpprun_job>> launch(const cpprun_launch_options* given) {
  const auto read = c::read_struct("cpprun_launch", "cpprun_launch_options", given,
                                   size_with(offsetof(cpprun_launch_options, event_user)));
  if (!read) return tl::unexpected(read.error());
  LaunchedJob::Options options;
  if (read->program != nullptr && *read->program != '\0') options.program = read->program;
  for (std::size_t at = 0; at < read->argument_count; ++at) {
    const char* const each = read->arguments == nullptr ? nullptr : read->arguments[at];
    if (each == nullptr) {
      return cpprun::failure(
          Code::bad_argument,
          c::null_pointer_text("cpprun_launch", "options->arguments[" + std::to_string(at) + "]"));
    }
    options.arguments.emplace_back(each);
  }
  auto variables = variables_of(*read);
  if (!variables) return tl::unexpected(std::move(variables.error()));
  options.environment = std::move(*variables);
  if (read->directory != nullptr) options.directory = read->directory;
  for (const auto& [name, descriptor, own] : {std::tuple{"input", read->input, &options.input},
                                              std::tuple{"output", read->output, &options.output},
                                              std::tuple{"error", read->error, &options.error}}) {
    if (descriptor == 0) continue;
    if (descriptor < 0 || ::fcntl(descriptor, F_GETFD) < 0) {
      return cpprun::failure(Code::bad_argument, std::string("cpprun_launch: options->") + name +
                                                     " is " + std::to_string(descriptor) +
                                                     ", which is not an open descriptor");
    }
    *own = descriptor;
  }
  options.event = event_hook(read->event, read->event_user);
  auto started = LaunchedJob::start(std::move(options));
  if (!started) return cpprun::failure(Code::system, std::move(started.error().reason));
  return std::unique_ptr<cpprun_job>(new cpprun_job{std::move(*started)});
}

// Returns an error if this process does not own the job.
std::optional<cpprun::StoreError> not_usable(const char* function, const cpprun_job* job) {
  if (job == nullptr) {
    return cpprun::StoreError{{c::null_pointer_text(function, "job")}, Code::bad_argument};
  }
  if (job->job->is_own()) return std::nullopt;
  return cpprun::StoreError{{std::string(function) + ": the job belongs to the parent process"},
                            Code::forked};
}

}  // namespace

c::LastError& cpprun::c::last_error() noexcept {
  thread_local LastError last;
  return last;
}

int cpprun_job_abi() {
  return CPPRUN_JOB_ABI;
}
const char* cpprun_job_version() {
  return CPPRUN_VERSION;
}
const char* cpprun_job_error() {
  return c::last_error().text.data();
}
int cpprun_job_error_code() {
  return c::last_error().code;
}

cpprun_rendezvous* cpprun_rendezvous_open(const cpprun_rendezvous_options* options) {
  if (!c::is_given(__func__, "options", options)) return nullptr;
  return c::made<cpprun_rendezvous>([options] { return open(options); });
}

uint16_t cpprun_rendezvous_port(const cpprun_rendezvous* rendezvous) {
  return rendezvous == nullptr ? 0 : rendezvous->rendezvous->port();
}

const char* cpprun_rendezvous_address(const cpprun_rendezvous* rendezvous) {
  return rendezvous == nullptr ? "" : rendezvous->rendezvous->address().c_str();
}

void cpprun_rendezvous_close(cpprun_rendezvous* rendezvous) {
  const std::unique_ptr<cpprun_rendezvous> ends_here(rendezvous);
}

cpprun_job* cpprun_launch(const cpprun_launch_options* options) {
  if (!c::is_given(__func__, "options", options)) return nullptr;
  return c::made<cpprun_job>([options] { return launch(options); });
}

int64_t cpprun_job_pid(const cpprun_job* job) {
  return job == nullptr ? 0 : job->job->pid();
}

int cpprun_job_wait(cpprun_job* job, int64_t timeout_ms, int* exit_code) {
  const char* const function = __func__;
  return c::guarded(
      [&]() -> StoreResult<int> {
        if (auto error = not_usable(function, job)) return tl::unexpected(std::move(*error));
        if (job->job->is_in_callback()) {
          return cpprun::failure(Code::bad_argument,
                                 std::string(function) + ": called in a callback of this job");
        }
        const auto code = job->job->wait(c::timeout_of(timeout_ms));
        if (code) return *code;
        return cpprun::failure(Code::timeout, std::string(function) + ": the job is still running");
      },
      [exit_code](int code) {
        if (exit_code != nullptr) *exit_code = code;
      });
}

int cpprun_job_signal(cpprun_job* job, int signal) {
  const char* const function = __func__;
  return c::guarded([&]() -> StoreResult<bool> {
    if (auto error = not_usable(function, job)) return tl::unexpected(std::move(*error));
    const int error = job->job->signal(signal);
    if (error == 0) return true;
    if (error == ESRCH) {
      return cpprun::failure(Code::closed, std::string(function) + ": the job has ended");
    }
    return cpprun::failure(error == EINVAL ? Code::bad_argument : Code::system,
                           std::string(function) + ": cannot send signal " +
                               std::to_string(signal) + ": " + cpprun::errno_text(error));
  });
}

void cpprun_job_close(cpprun_job* job) {
  const std::unique_ptr<cpprun_job> ends_here(job);
}

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Queries coordinators and daemons over Unix sockets of this machine or over TCP, and finds the
// requested job.

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/control/command_line.h"
#include "launcher/control/text.h"
#include "launcher/control/views.h"
#include "proto/clock.h"
#include "proto/environment.h"
#include "proto/http/client.h"
#include "proto/result.h"
#include "proto/secure/tls.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::bounds {
using namespace std::chrono_literals;
// The size of one reply: a multiple of the largest that a coordinator sends.
inline constexpr std::size_t answer_bytes_max = 32 * 1024 * 1024;
// Timeout of a request. A suspended program is reported, and not waited for.
inline constexpr std::chrono::nanoseconds ask_timeout = 5s;
}  // namespace cpprun::bounds

namespace cpprun::io {

// An endpoint that can be queried.
struct ControlEndpoint {
  std::string door;  // a Unix socket; empty: use the address
  std::optional<Endpoint> address = {};
  // For mutual authentication at the address. Null: there is no secret.
  std::shared_ptr<SecureContext> secure = {};
  std::string text() const;
};

struct Answer {
  unsigned status = 0;
  std::string body;
};

// One request that has been sent.
class Call {
 public:
  // Sends the request before the deadline. Does not wait for the reply.
  static Result<Call> begin(const ControlEndpoint& place, const http::Question& question,
                            std::chrono::steady_clock::time_point deadline);

  int fd() const { return socket_.get(); }
  const http::ReplyReader& answer() const { return reader_; }
  // Reads what has arrived. False: end of stream. Error: the data is invalid.
  Result<bool> hear();
  std::string take_body() { return reader_.take_body(); }

 private:
  Result<void> prove(const std::string& question, std::chrono::steady_clock::time_point deadline);
  Result<void> take(std::string_view bytes);

  FileDescriptor socket_;
  std::unique_ptr<SecureChannel> secure_;  // null: unencrypted
  std::string greeting_;                   // received so far from the peer
  http::ReplyReader reader_{bounds::answer_bytes_max, "; check that this is the port of a cpprun"};
};

// Queries all endpoints at once. The timeout counts from the request, whatever arrives meanwhile.
std::vector<Result<Answer>> ask_all(const std::vector<ControlEndpoint>& places,
                                    const http::Question& question, Duration timeout);
Result<Answer> ask(const ControlEndpoint& place, const http::Question& question);

// The endpoints of this user or of all users. Stale sockets are removed.
struct Found {
  std::vector<ControlEndpoint> places;
  std::vector<std::string> troubles;  // directories that cannot be read
};
Found find_endpoints(const Environment& environment, bool of_all_users);

// Finding the jobs, and the requested one.

inline constexpr unsigned status_ok = 200;  // HTTP

// Why a command failed: a message and the exit code.
struct Setback {
  std::string sentence;
  int code = control_code::refused;
  std::string hint = {};
};
// Prints the message and returns the exit code.
int give_up(const Setback& setback);
template <class T>
using Attempt = tl::expected<T, Setback>;

struct FoundJob {
  JobView job;
  ControlEndpoint place;
  std::string target() const;  // "/api/v1/jobs/a%2Fb"
};

struct FoundJobs {
  std::vector<FoundJob> jobs;
  std::vector<SeenAnswer> answers;      // verbatim, for scripts
  std::vector<ControlEndpoint> places;  // the endpoints queried
};

// The endpoints that did not report their jobs, and those that did.
std::vector<std::string> silent_endpoints(const FoundJobs& found);
std::vector<ControlEndpoint> answered_endpoints(const FoundJobs& found);
// For tables.
std::vector<SeenJob> seen_jobs(const FoundJobs& found);

// All visible jobs. Prints what could not be read, unless the output is for scripts. If a requested
// job is not found but a standby cpprund is, its leader is queried as well.
FoundJobs find_jobs(const ControlOptions& options, const Environment& environment);
// The requested job. Queries only its own endpoint if the others do not matter.
Attempt<FoundJob> find_job(const ControlOptions& options, const Environment& environment);

// Selects one of the jobs found.
Attempt<FoundJob> pick_job(FoundJobs found, const ControlOptions& options,
                           const Environment& environment);

struct FoundDaemon {
  DaemonView view;
  ControlEndpoint place;
  std::string text;  // verbatim, for scripts
};
// Whether `standby` is a standby and its leader is among `daemons`.
bool is_led_by_one_of(const std::vector<FoundDaemon>& daemons, const FoundDaemon& standby);
// The daemons among the endpoints that replied.
std::vector<FoundDaemon> find_daemons(const FoundJobs& found);

// The body of a successful reply, or why there is none.
Attempt<std::string> body_of(const ControlEndpoint& place, const http::Question& question);
// A job with its nodes, verbatim for scripts and parsed.
struct JobDetails {
  std::string text;
  std::vector<std::string> node_pages;
  JobView job;
  std::vector<NodeView> nodes;
};
Attempt<JobDetails> details_of(const FoundJob& job);

}  // namespace cpprun::io

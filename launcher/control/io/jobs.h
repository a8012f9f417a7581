// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Asks whoever shows jobs, over a Unix socket of this machine or by an address, and finds the job
// that is meant.

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/control/command_line.h"
#include "launcher/control/text.h"
#include "launcher/control/views.h"
#include "launcher/endpoint.h"
#include "proto/clock.h"
#include "proto/environment.h"
#include "proto/http/client.h"
#include "proto/result.h"
#include "proto/secure/tls.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

// Where somebody may be asked.
struct Place {
  std::string door;  // a Unix socket; empty: by the address
  std::optional<Endpoint> address = {};
  // With which both sides prove themselves at the address; null: there is no secret.
  std::shared_ptr<SecureContext> secure = {};
  std::string text() const;
};

struct Answer {
  unsigned status = 0;
  std::string body;
};

// One conversation that has begun.
class Call {
 public:
  // Says the question before the deadline, and does not wait for the answer.
  static Result<Call> begin(const Place& place, const http::Question& question,
                            std::chrono::steady_clock::time_point deadline);

  int fd() const { return socket_.get(); }
  const http::AnswerReader& answer() const { return reader_; }
  // Takes what has come; false: the other side has ended, or what it says makes no sense.
  Result<bool> hear();
  std::string take_body() { return reader_.take_body(); }

 private:
  Result<void> prove(const std::string& question, std::chrono::steady_clock::time_point deadline);
  Result<void> take(std::string_view bytes);

  FileDescriptor socket_;
  std::unique_ptr<SecureChannel> secure_;  // null: what passes is as it is
  std::string greeting_;                   // of the other side, as far as it has come
  http::AnswerReader reader_;
};

// All of them at once. The time counts from the question, whatever arrives meanwhile.
std::vector<Result<Answer>> ask_all(const std::vector<Place>& places,
                                    const http::Question& question, Duration patience);
Result<Answer> ask(const Place& place, const http::Question& question);

// What is found of this user's, or of everybody's. Sockets behind which nobody is are swept.
struct Found {
  std::vector<Place> places;
  std::vector<std::string> troubles;  // folders that may not be looked into
};
Found find_places(const Environment& environment, bool of_all_users);

// The jobs that are found, and the one that is meant.

inline constexpr unsigned status_ok = 200;  // HTTP

// Why a command ends otherwise than it should: a sentence and the exit code.
struct Setback {
  std::string sentence;
  int code = control_code::refused;
  std::string hint = {};
};
// Prints the sentence and returns the exit code.
int give_up(const Setback& setback);
template <class T>
using Attempt = tl::expected<T, Setback>;

struct FoundJob {
  JobView job;
  Place place;
  std::string target() const;  // "/api/v1/jobs/a%2Fb"
};

struct FoundJobs {
  std::vector<FoundJob> jobs;
  std::vector<SeenAnswer> answers;  // as they came, for scripts
  std::vector<Place> places;        // that were asked
};

// The places that did not show their jobs.
std::vector<std::string> silent_places(const FoundJobs& found);

// Everything that is shown; what could not be seen is complained about, unless it is for scripts.
// Where a job is named that is not there, but a cpprund that stands by, the one that leads is asked
// as well.
FoundJobs find_jobs(const Wish& wish, const Environment& environment);
// The one that is meant. Its place alone where everything else does not matter.
Attempt<FoundJob> find_job(const Wish& wish, const Environment& environment);

// One of those that are found.
Attempt<FoundJob> pick_job(FoundJobs found, const Wish& wish, const Environment& environment);

struct FoundDaemon {
  DaemonView view;
  Place place;
  std::string text;  // as it came, for scripts
};
// It stands by, and the one that leads is among those.
bool is_led_by_one_of(const std::vector<FoundDaemon>& daemons, const FoundDaemon& standby);
// The daemons among those places that have answered.
std::vector<FoundDaemon> find_daemons(const FoundJobs& found);

// The body of a good answer, or why there is none.
Attempt<std::string> body_of(const Place& place, const http::Question& question);
// The pages of its nodes.
Attempt<std::vector<std::string>> node_pages(const FoundJob& job);

}  // namespace cpprun::io

// SPDX-License-Identifier: BSD-3-Clause
// A program that hosts a rendezvous, runs two workers that meet there, and prints their events.
#include <cpprun/job.h>

#include <cstdio>
#include <string>
#include <vector>

static void print_event(void*, const cpprun_event* event) {
  std::printf("%s", event->name);
  if (event->rank >= 0) std::printf(" rank %d", static_cast<int>(event->rank));
  if (event->exit_code >= 0) std::printf(" exit code %d", static_cast<int>(event->exit_code));
  if (event->cause != nullptr) std::printf(" (%s)", event->cause);
  if (event->message != nullptr) std::printf(": %s", event->message);
  std::printf("\n");
  std::fflush(stdout);
}

static int failed() {
  return std::fprintf(stderr, "error: %s\n", cpprun_job_error()), 1;
}

int main(int argc, char** argv) {
  cpprun_rendezvous_options where = {};
  where.size = sizeof where;
  where.status = CPPRUN_STATUS_USER;  // http://ADDRESS/ shows the jobs to this user
  cpprun_rendezvous* rendezvous = cpprun_rendezvous_open(&where);
  if (rendezvous == nullptr) return failed();

  const std::string address = cpprun_rendezvous_address(rendezvous);
  const std::string endpoint = "--rdzv-endpoint=" + address;
  std::vector<const char*> arguments = {"--rdzv-backend=c10d", endpoint.c_str(),
                                        "--rdzv-id=example", "--nproc-per-node=2"};
  arguments.insert(arguments.end(), argv + 1, argv + argc);  // the script or program, its arguments
  cpprun_launch_options options = {};
  options.size = sizeof options;
  options.arguments = arguments.data();
  options.argument_count = arguments.size();
  options.event = print_event;
  cpprun_job* job = cpprun_launch(&options);
  int exit_code = 0;
  if (job == nullptr || cpprun_job_wait(job, -1, &exit_code) != 0) return failed();
  cpprun_job_close(job);
  cpprun_rendezvous_close(rendezvous);
  return exit_code;
}

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
/* cpprun inside another program, in C: a rendezvous for the jobs of many nodes, and a launcher that
 * starts and supervises workers. Link libcpprun_job.so (-lcpprun_job), or load it at run time.
 *
 *   cpprun_launch_options options = {sizeof(options)};
 *   const char* const arguments[] = {"--nproc-per-node=2", "train.py"};
 *   options.arguments = arguments;
 *   options.argument_count = 2;
 *   options.event = print_event;
 *   cpprun_job* job = cpprun_launch(&options);
 *   int exit_code = 0;
 *   if (cpprun_job_wait(job, -1, &exit_code) != 0) puts(cpprun_job_error());
 *   cpprun_job_close(job);
 *
 * A rendezvous runs inside this process, in a thread of its own. A job does not: cpprun_launch()
 * starts the installed program cpprun, and this library reads its events. A launcher adopts and
 * ends processes that have lost their parent, and handles signals. A library must not do that to
 * the program that uses it.
 *
 * Errors. A function that can fail returns 0 on success and -1 on failure; a function that makes an
 * object returns NULL on failure. cpprun_job_error() then says what was tried, on what, and why it
 * failed, and cpprun_job_error_code() is one of the codes below. Nothing throws, prints or ends the
 * process.
 *
 * Threads. All functions may be called by any thread, but nothing may use an object while it is
 * closed or later. cpprun_launch() reads the environment, which no other thread may change
 * meanwhile. Callbacks come from a thread of the object that they belong to, one at a time. What
 * their pointers point to is valid during the call. They must not throw, and may call any function
 * of this header, with two limits: cpprun_job_wait() for their own job fails, and a callback of a
 * rendezvous that waits for a job there delays that job.
 *
 * Forks. A forked child owns no job and no rendezvous: there, closing them does nothing, and
 * waiting for a job and signals to it fail with CPPRUN_JOB_FORKED. The child may open objects of
 * its own.
 *
 * ABI. Nothing here changes within one CPPRUN_JOB_ABI, which is also the number in the library's
 * name (libcpprun_job.so.1). Functions may be added, and members at the end of structs that begin
 * with their size. Set such a struct to zero first: a member that is zero has its default. A
 * library that is older than the header accepts the struct if all members that it does not know are
 * zero, and else fails with CPPRUN_JOB_VERSION. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CPPRUN_JOB_ABI 1

#define CPPRUN_JOB_API __attribute__((visibility("default")))

typedef struct cpprun_rendezvous cpprun_rendezvous;
typedef struct cpprun_job cpprun_job;

/* The CPPRUN_JOB_ABI of the library that is loaded, and its version, "0.1.0". */
CPPRUN_JOB_API int cpprun_job_abi(void);
CPPRUN_JOB_API const char* cpprun_job_version(void);

/* Why the last failed call in this thread failed: a clause in UTF-8 without a newline. Valid until
 * the next call in this thread. Empty if none has failed. */
CPPRUN_JOB_API const char* cpprun_job_error(void);
/* The same as a code; 0 if none has failed. Codes may be added. The numbers are those of the store
 * (<cpprun/store.h>). */
CPPRUN_JOB_API int cpprun_job_error_code(void);

#define CPPRUN_JOB_TIMEOUT 1      /* timed out */
#define CPPRUN_JOB_CLOSED 3       /* the job has ended */
#define CPPRUN_JOB_BAD_ARGUMENT 5 /* a mistake of the caller */
#define CPPRUN_JOB_VERSION 7      /* a struct has members that this library does not know */
#define CPPRUN_JOB_NO_MEMORY 10
#define CPPRUN_JOB_FORKED 11      /* the object belongs to the parent process */
#define CPPRUN_JOB_SYSTEM 12      /* the operating system rejected a call: a port that is in use */
#define CPPRUN_JOB_UNSUPPORTED 13 /* a secret needs OpenSSL, which this machine lacks */

/* --- events --------------------------------------------------------------------------------- */

/* Something that has happened to a job: docs/events.md lists the events and their fields. A job
 * reports everything that happens on its own node. A rendezvous reports what concerns all nodes of
 * its jobs: rounds, nodes that join or are lost, the end. Events may be added, and members at the
 * end of this struct. */
typedef struct cpprun_event {
  size_t size;      /* of this struct in the library that is loaded */
  const char* name; /* "job_started", "round_sealed", "worker_exited", "job_ended", … */
  double time;      /* seconds since 1970, by the clock of that node */
  const char* job;
  const char* host;
  int64_t node; /* rank of the node; 0 before it has one, -1: unknown */
  int64_t round;
  /* Which worker; in "job_ended", the first that failed. -1: not in this event. */
  int64_t rank;
  int64_t local_rank;
  int64_t pid;
  int64_t exit_code;  /* of the worker; in "job_ended", of the job. -1: not in this event */
  const char* signal; /* "SIGKILL". NULL: not in this event, or ended without a signal */
  const char* reason; /* why this happened, as a sentence. NULL: not in this event */
  /* Of a failure; NULL: there is none, or, except for `cause`, it is not known. */
  const char* cause;       /* the id in docs/failures.md */
  const char* description; /* the cause as a clause */
  const char* hint;        /* how to correct it */
  const char* message;     /* what the worker reported: its exception, or the end of its output */
  int is_consequence;      /* 1: it is known to be caused by the failure of another worker */
  const char* json;        /* all of the event, as one line of JSON without a newline */
} cpprun_event;

/* --- a rendezvous --------------------------------------------------------------------------- */

/* Who can read the status of its jobs by HTTP (docs/http-api.md). Unless it is NONE, this user and
 * root can also control them there. */
#define CPPRUN_STATUS_NONE 0
#define CPPRUN_STATUS_USER 1    /* this user and root, on this machine */
#define CPPRUN_STATUS_HOST 2    /* every user of this machine */
#define CPPRUN_STATUS_NETWORK 3 /* every client that reaches the port */

#define CPPRUN_LOG_ERROR 0
#define CPPRUN_LOG_WARNING 1
#define CPPRUN_LOG_INFO 2
#define CPPRUN_LOG_DEBUG 3

typedef struct cpprun_rendezvous_options {
  size_t size; /* sizeof(cpprun_rendezvous_options) */
  /* Name or address to listen on; NULL or "": 127.0.0.1, which only this machine can reach; "*":
   * every interface. */
  const char* host;
  uint16_t port; /* 0: the kernel picks one */
  /* Nodes have to prove that they hold this secret, and links use TLS: the text of a secrets file,
   * as `cpprunctl keygen` writes it. NULL: every client that reaches the port can start jobs and
   * use their stores. */
  const char* secret;
  int status;                /* CPPRUN_STATUS_… */
  uint64_t jobs_max;         /* 0: as cpprund */
  uint64_t memory_bytes_max; /* of all stores. 0: a share of the memory of the machine */
  /* A line for a log, with one of CPPRUN_LOG_…: nodes that join, are lost or are rejected; with
   * CPPRUN_LOG_DEBUG, every client that disconnects. NULL: no log. */
  void (*log)(void* log_user, int level, const char* line);
  void* log_user;
  /* What happens to the jobs. NULL: no events. */
  void (*event)(void* event_user, const cpprun_event* event);
  void* event_user;
} cpprun_rendezvous_options;

/* Listens and serves at once, in its own thread, until it is closed. It hosts any number of jobs,
 * with the limits of cpprund: the nodes of a job have the options --rdzv-backend=c10d
 * --rdzv-endpoint=ADDRESS and an --rdzv-id that no other job has. Each job's store has its own
 * port. The rendezvous keeps nothing on a disk and has no standby. Each node and each worker takes
 * a file descriptor of this process; none are reserved. */
CPPRUN_JOB_API cpprun_rendezvous* cpprun_rendezvous_open(const cpprun_rendezvous_options* options);
/* 0 for NULL. */
CPPRUN_JOB_API uint16_t cpprun_rendezvous_port(const cpprun_rendezvous* rendezvous);
/* The address it is bound to, "127.0.0.1:43211"; "[::]:43211" for every interface. Valid as long as
 * the rendezvous. */
CPPRUN_JOB_API const char* cpprun_rendezvous_address(const cpprun_rendezvous* rendezvous);
/* Closes every connection and ends the thread. Nodes of jobs that are still running there try to
 * reach it again, for up to the time of --rdzv-conf=timeout (10 minutes), and then end: close your
 * own jobs first. In a callback of the rendezvous, it returns at once, and no further callback
 * comes. Does nothing for NULL. */
CPPRUN_JOB_API void cpprun_rendezvous_close(cpprun_rendezvous* rendezvous);

/* --- a job ---------------------------------------------------------------------------------- */

typedef struct cpprun_launch_options {
  size_t size; /* sizeof(cpprun_launch_options) */
  /* The program cpprun: a path, or a name that is looked up on PATH. NULL: "cpprun". */
  const char* program;
  /* Its command line after the program's name: options, the script or program of the workers, and
   * their arguments. The library sets --events: another one in the arguments turns the callback
   * off, and jobs with --hosts are rejected, because their events are on other machines. An array
   * of `argument_count` strings. */
  const char* const* arguments;
  size_t argument_count;
  /* Variables for cpprun and the workers, "NAME=value", in addition to the environment of this
   * process. */
  const char* const* variables;
  size_t variable_count;
  const char* directory; /* working directory; NULL: that of this process */
  /* Open descriptors for the standard streams of cpprun, to which it also passes what the workers
   * write. The caller may close them after cpprun_launch(). 0: /dev/null for the input, and the
   * streams of this process for the others. */
  int input;
  int output;
  int error;
  /* What happens to the job, on this node. NULL: no events. */
  void (*event)(void* event_user, const cpprun_event* event);
  void* event_user;
} cpprun_launch_options;

/* Starts cpprun, and returns when it runs. Fails if the program cannot be executed. A command line
 * that cpprun rejects is a job that ends with exit code 2 and without events; the reason is on its
 * standard error.
 *
 * If this process ends in any way, cpprun gets SIGTERM, and ends its workers. For that, `program`
 * must be neither a script nor setuid. cpprun is in the process group of this process, so Ctrl-C in
 * a terminal reaches both: do not pass SIGINT on. Signals that this process ignores, as under
 * nohup, are ignored there too. */
CPPRUN_JOB_API cpprun_job* cpprun_launch(const cpprun_launch_options* options);
/* The pid of cpprun; 0 for NULL. */
CPPRUN_JOB_API int64_t cpprun_job_pid(const cpprun_job* job);
/* Waits until the job has ended and all its events were delivered. *exit_code is that of cpprun,
 * 128 + signal if a signal ended it, and 255 if it is not known, because this process reaps all of
 * its children elsewhere and no event has told it. `exit_code` may be NULL. In milliseconds;
 * negative: no limit. Fails with CPPRUN_JOB_TIMEOUT if the job is still running. May be called
 * again. */
CPPRUN_JOB_API int cpprun_job_wait(cpprun_job* job, int64_t timeout_ms, int* exit_code);
/* Sends a signal to cpprun: after SIGTERM or SIGINT it asks the workers to stop, and kills them
 * after the grace period, or at the second such signal. Fails with CPPRUN_JOB_CLOSED if the job has
 * ended. */
CPPRUN_JOB_API int cpprun_job_signal(cpprun_job* job, int signal);
/* Sends SIGTERM if the job is running and was not sent a stop signal by cpprun_job_signal(), waits
 * for its end, and releases it. In a callback of that job, it does not wait, and no further
 * callback comes. Does nothing for NULL. */
CPPRUN_JOB_API void cpprun_job_close(cpprun_job* job);

#ifdef __cplusplus
}
#endif

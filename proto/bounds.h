// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// All limits, each with its unit and its reason. What exceeds a limit is rejected with a message
// that names the limit.

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace cpprun::bounds {

using namespace std::chrono_literals;

// --- the link between agent and coordinator ------------------------------------------------------
// One JSON message. The design allows 512 bytes per agent, round and direction; the margin above
// that is for a failure's last lines and for refusals, which are sentences.
inline constexpr std::size_t link_frame_bytes_max = 32 * 1024;
// One message of a round, for any number of nodes: Join, Sealed, and Finish as sent to remote
// nodes. (A job id of more than 40 bytes, or a role of more than 24, adds the excess.)
inline constexpr std::size_t round_frame_bytes_max = 512;
// Names in every Join; longer ones are rejected on the command line.
inline constexpr std::size_t job_id_bytes_max = 256;
inline constexpr std::size_t role_bytes_max = 128;
// A host name: the DNS maximum.
inline constexpr std::size_t host_bytes_max = 255;
// A numeric IPv6 address with an embedded IPv4 address, as inet_ntop writes it.
inline constexpr std::size_t address_bytes_max = 45;
// The id of a cause; the longest one has half of it.
inline constexpr std::size_t cause_bytes_max = 64;
// Nodes of one job. A hundred times the largest known; even with local_world_size_max workers each,
// ranks still fit an int.
inline constexpr int nodes_max = 1'000'000;
// The highest round number that a joining node may report. A job that starts a round every second
// takes thirty years to get there, and still has numbers left for a century.
inline constexpr std::uint32_t round_number_max = 1'000'000'000;
// Consequences named to remote nodes and to the coordinator's own agent; further ones are counted.
inline constexpr std::size_t consequences_brief_max = 8;
inline constexpr std::size_t consequences_max = 64;
// Failures that a node reports per round; the first of each kind is representative.
inline constexpr std::size_t failures_told_max = 8;
inline constexpr std::size_t later_message_bytes_max = 256;
// The file of --config: a hundred times what all flags need. Catches wrong files, such as model
// weights.
inline constexpr std::size_t config_file_bytes_max = 1024 * 1024;
// Codes in --no-restart-codes; each is part of every Join.
inline constexpr std::size_t no_restart_codes_max = 8;
// Upper bound of the growing pause before a restart, unless a longer one was requested.
inline constexpr std::chrono::nanoseconds backoff_max = 5min;
// A worker that dies this soon after its round began has done no work. After three times in a row
// another attempt is pointless.
inline constexpr std::chrono::nanoseconds crash_loop_life = 1s;
inline constexpr int crash_loop_deaths = 3;
// A coordinator that wakes up late was suspended or starved. Messages of the nodes wait in its
// sockets meanwhile, so it reads for this long before it gives up on any node.
inline constexpr std::chrono::nanoseconds coordinator_nap = 200ms;
// A delay that is not taken for a suspension. When a node is given up, unread messages are at most
// twice this old, compared with a lease of seconds.
inline constexpr std::chrono::nanoseconds coordinator_blink = 10ms;
// Consecutive extensions of that kind; a coordinator that is always late still has to give up on
// dead nodes.
inline constexpr int coordinator_naps_max = 3;
// The shortest lease: a tenth of what a badly overloaded machine has kept, and ten times
// coordinator_blink.
inline constexpr std::chrono::nanoseconds lease_min = 100ms;
// An agent's own lease is shorter than the coordinator's by this: SIGKILL takes a moment, and the
// ranks must not be given to another node before.
inline constexpr std::chrono::nanoseconds fence_margin = 250ms;
// The maximum of an agent's clock; three times this in nanoseconds still fits the counter.
inline constexpr auto agent_time_max = std::chrono::hours{24 * 365 * 90};
// The number of heartbeats from which the one with the shortest round trip determines a node's
// clock offset: enough to include one without queueing, few enough that clock drift stays within
// microseconds.
inline constexpr int clock_samples = 32;
// One text in a message (a reason, a failure's message). Two of them fit a frame even if every byte
// has to be escaped.
inline constexpr std::size_t link_text_bytes_max = 2 * 1024;
// Additional addresses that a node reports; a Join has to stay within 512 bytes.
inline constexpr std::size_t node_addresses_max = 4;
// An untrusted name quoted in a log line; long enough to recognize it.
inline constexpr std::size_t name_shown_bytes_max = 80;
// Nodes that a sentence names before it says "and others".
inline constexpr std::size_t nodes_named_max = 8;
// Concurrent jobs of one daemon: each needs a port, and a machine has a few ten thousand.
inline constexpr std::size_t jobs_max = 1024;
// Unfinished jobs started from one address. A whole cluster behind one translated address has
// fewer.
inline constexpr std::size_t jobs_per_source_max = 256;
// The last quarter of the job slots is reserved for addresses with fewer jobs than this. Keeping
// others out takes three addresses at their limit and thirty-two more.
inline constexpr std::size_t jobs_few = 8;
// Names kept for the nodes of jobs whose slots were given to others, two minutes each.
inline constexpr std::size_t job_names_kept_max = 4096;
// Links from one address. A machine has one per job; containers behind one translated address may
// have thousands.
inline constexpr std::size_t links_per_source_max = 4096;
// The longest lease that a daemon grants a job: the job keeps its slot for this long after its last
// node is gone. torchrun's own lease is 15 s.
inline constexpr std::chrono::nanoseconds daemon_lease_max = 2min;
// Timeout from an agent's greeting to its Join, which follows at once.
inline constexpr std::chrono::nanoseconds first_message_timeout = 10s;
// The same while more than newcomers_max links have not identified themselves. Each holds one of
// the descriptors reserved for agents, and half of those may go to silent connections.
inline constexpr std::chrono::nanoseconds first_message_timeout_in_crowd = 500ms;
inline constexpr std::size_t newcomers_max = 2048;
// Time for a node to introduce itself at all addresses of its master before it joins: several round
// trips around the world, and a small part of a lease.
inline constexpr std::chrono::nanoseconds introduction_timeout = 500ms;
// A daemon's lease and settle window for a job whose first node does not set them.
inline constexpr std::chrono::nanoseconds daemon_lease = 3s;
inline constexpr std::chrono::nanoseconds daemon_last_call = 30s;
// Bytes read from a link at once, into a short-lived buffer: more than the largest frame.
inline constexpr std::size_t link_read_bytes = 64 * 1024;
// Output queued for an agent that does not read; its link is cut beyond this.
inline constexpr std::size_t link_outbox_bytes_max = 256 * 1024;
// Delay before missing nodes are reported, since nodes never start at the same moment.
inline constexpr std::chrono::nanoseconds first_status_after = 2s;
// Interval of the lines that say what the job waits for.
inline constexpr std::chrono::nanoseconds status_interval = 5s;
// Pause between attempts to reach the master; doubled each time, within these bounds.
inline constexpr std::chrono::nanoseconds dial_pause_min = 50ms;
inline constexpr std::chrono::nanoseconds dial_pause_max = 1s;
// One connection attempt; a host that drops packets must not delay its next address for long.
inline constexpr std::chrono::nanoseconds dial_attempt_max = 5s;
// How long a master stays up so that the other nodes receive the end of the job.
inline constexpr std::chrono::nanoseconds result_delivery_max = 5s;

// --- status over HTTP ----------------------------------------------------------------------------
// The head of a request; browsers and scrapers send a tenth of it.
inline constexpr std::size_t http_head_bytes_max = 8 * 1024;
// The body of a request; a command in JSON has a tenth of it.
inline constexpr std::size_t http_body_bytes_max = 4 * 1024;
// The request target: a job id with every byte escaped, and the path around it.
inline constexpr std::size_t http_target_bytes_max = 2 * 1024;

// Concurrent status connections: a browser opens six, a scraper one; each may wait for a reply of a
// megabyte.
inline constexpr std::size_t status_connections_max = 16;
// Timeouts: for a request from its first byte to its last, for an idle connection, for a client to
// read a reply, and for the client to close after the last reply.
inline constexpr std::chrono::nanoseconds status_request_timeout = 5s;
inline constexpr std::chrono::nanoseconds status_idle_timeout = 60s;
inline constexpr std::chrono::nanoseconds status_answer_timeout = 30s;
inline constexpr std::chrono::nanoseconds status_linger_max = 1s;
// One page of a reply: some hundred kilobytes, a few milliseconds of work.
inline constexpr std::size_t status_jobs_shown_max = 200;
inline constexpr std::size_t status_nodes_shown_max = 500;
// Jobs in one reply to Prometheus, which has no pagination: a megabyte.
inline constexpr std::size_t status_jobs_measured_max = 1024;

// --- a worker ------------------------------------------------------------------------------------
// The message in an error file. what() of a C++ exception with a whole backtrace stays below it;
// the rest is cut, since the launcher reads the file into memory.
inline constexpr std::size_t worker_error_bytes_max = 64 * 1024;
// A collective that takes longer has a hanging peer. PyTorch waits thirty minutes; five tolerate a
// slow file system and still end a stuck job soon.
inline constexpr std::chrono::milliseconds worker_collective_wait_max = 5min;
// Interval at which a rank retries to reach the store: not noticeable, and cheap even for a
// thousand ranks.
inline constexpr std::chrono::milliseconds worker_join_retry = 50ms;
// Interval at which a rank that waits in a collective checks which one the others wait in. It takes
// three checks until it reports, so less than ten seconds.
inline constexpr std::chrono::milliseconds worker_stall_interval = 2500ms;
// Other ranks that it checks, and the timeout of the store.
inline constexpr int worker_stall_ranks_max = 64;
inline constexpr std::chrono::milliseconds worker_stall_store_wait = 5s;
// Operations that were queued on the GPU and are watched at a time; CUDA itself blocks a program
// that is about a thousand kernels ahead of the GPU.
inline constexpr std::size_t worker_stall_queue_max = 256;
// How long one of them may take before the ranks are compared: it may be queued behind a long
// computation.
inline constexpr std::chrono::milliseconds worker_stall_queued_min = 30s;
// How long a rank that hosts the store waits for the others to disconnect after a success.
inline constexpr std::chrono::milliseconds worker_goodbye_wait_max = 10s;
// A string or plain value exchanged between ranks; anything larger should be a tensor.
inline constexpr std::size_t worker_object_bytes_max = 64 * 1024 * 1024;
// A file of examples that one of the programs here reads into memory.
inline constexpr std::size_t worker_data_file_bytes_max = 64 * 1024 * 1024;
// The JSON header of a safetensors file, some hundred bytes per tensor: the largest models have a
// hundred thousand. The format's own reader accepts 100 MB; a hostile header of that size would
// cost gigabytes, one of this size less than 64 MB and a second.
inline constexpr std::uint64_t safetensors_head_bytes_max = 12 * 1024 * 1024;
// Strings in its metadata: a few for each optimizer parameter. Each costs ten times its shortest
// form.
inline constexpr std::size_t safetensors_texts_max = 65'536;
// Dimensions of one tensor there; LibTorch's own limit.
inline constexpr std::size_t safetensors_dimensions_max = 64;
// The pickle of a .pth file, in bytes and in values: a thousand layers with optimizer state need a
// hundredth of it.
inline constexpr std::uint64_t pickle_bytes_max = 64 * 1024 * 1024;
inline constexpr std::size_t pickle_values_max = 4'000'000;
// Nesting of dicts, lists and tuples.
inline constexpr int pickle_depth_max = 100;
// An image file, unpacked: MNIST's largest has 47 MB, CIFAR-100's 154 MB.
inline constexpr std::uint64_t image_file_bytes_max = 512 * 1024 * 1024;
// Frames of a backtrace; a runaway recursion repeats itself after far fewer.
inline constexpr int worker_backtrace_frames_max = 64;
// The text of a backtrace, preallocated for a handler that must not allocate.
inline constexpr std::size_t worker_backtrace_bytes_max = 16 * 1024;
// Checkpoints of one directory that ranks report to each other when they choose one; older ones are
// ignored.
inline constexpr int checkpoints_offered_max = 64;
// How long ranks wait for the rank that writes a checkpoint: a terabyte to a busy file server.
inline constexpr std::chrono::milliseconds checkpoint_write_wait_max = 60min;
// Bytes per broadcast of a checkpoint: enough to be fast, and little compared with a model.
inline constexpr std::int64_t checkpoint_broadcast_bytes = 64 * 1024 * 1024;

// --- the launcher: processes ---------------------------------------------------------------------
// How long a process may take to die of SIGKILL, and then its group or descendants to vanish. What
// takes longer is stuck in the kernel (a lost disk, a hung driver): it is reported and given up.
inline constexpr auto kill_timeout = 10s;
// Polling of a killed group that still exists: the first interval, and the longest.
inline constexpr auto sweep_look_first = 200us;
inline constexpr auto sweep_look_max = 20ms;
// How long the report of a failure to the other nodes is delayed to read its evidence from a
// hanging disk.
inline constexpr auto evidence_timeout = 2s;
// Disk timeouts for a file that the user has named (a report, events, logs): before the job starts,
// when a network file system may just be mounting; while it runs, since heartbeats wait for it; and
// at the end, after which the rest is written by a helper process.
inline constexpr auto disk_timeout_at_start = 10s;
inline constexpr auto disk_timeout_meanwhile = 1s;
inline constexpr auto disk_timeout_at_end = 5s;
// Interval of attempts to write events to a full disk.
inline constexpr auto full_disk_pause = 1s;
// How long cpprun finally waits for the processes that it has killed.
inline constexpr auto last_reap_wait = 1s;
// Passes in which the watchdog searches for processes of a job whose cpprun is gone, and the pause
// between them: ten seconds in all, like kill_timeout.
inline constexpr int watchdog_looks_max = 1000;
inline constexpr auto watchdog_pause = 10ms;
// A child of the watchdog that takes this long for one process is blocked by it and abandoned. The
// search ends after so many abandoned children.
inline constexpr auto watchdog_child_timeout = 500ms;
inline constexpr int watchdog_children_max = 16;
// How often a killed watchdog is replaced; killing it more often than that is intentional.
inline constexpr int watchdogs_posted_max = 16;
// Process groups that a watchdog can track: twice the largest number of workers per machine.
inline constexpr std::size_t watchdog_groups_max = 4096;
// Bytes of a process's environment searched for the token; this is execve's default limit.
inline constexpr std::size_t environ_bytes_max = 8 * 1024 * 1024;
// How long no worker may contact the store before cpprun suspects that the script sets up its own
// process group: loading torch and a large data set takes less.
inline constexpr std::chrono::nanoseconds own_world_timeout = 60s;
// Processes of a worker inspected then; a DataLoader has dozens.
inline constexpr std::size_t family_looked_at_max = 256;
// Bytes read of /proc/net/tcp: a line has 150 bytes, and a busy machine has a few thousand sockets.
inline constexpr std::size_t socket_table_bytes_max = 4 * 1024 * 1024;
// Workers on one node; a larger number is a mistaken flag.
inline constexpr int local_world_size_max = 2048;
// CPU numbers of one machine; Linux itself supports at most 8192.
inline constexpr int cpus_max = 8192;

// --- the launcher: output of workers -------------------------------------------------------------
// A longer line is passed on in parts, so a worker without newlines costs no memory.
inline constexpr std::size_t line_bytes_max = 64 * 1024;
// Bytes read from a worker's pipe at once, so that one worker does not block the event loop.
inline constexpr std::size_t pump_read_bytes = 64 * 1024;
// Bytes read from the pipe of an exited worker, in case another process still writes to it: more
// than a pipe's default capacity.
inline constexpr std::size_t pipe_bytes_max = 1024 * 1024;
// How long the last output may take on a slow console (a pager, a stopped terminal); a second
// Ctrl-C shortens it.
inline constexpr auto console_timeout = 60s;
inline constexpr auto console_timeout_pressed = 200ms;
// Output queued for a console that is not read; beyond this the workers' pipes are not read.
inline constexpr std::size_t console_queue_bytes_max = 1024 * 1024;
// The tail of a worker's stderr kept for the diagnosis, in lines and in bytes: a C++ exception of
// LibTorch prints its message above some forty stack frames.
inline constexpr std::size_t last_lines_max = 200;
inline constexpr std::size_t last_lines_bytes_max = 32 * 1024;
// The lines of it that a report shows.
inline constexpr std::size_t last_lines_shown_max = 20;
// Bytes read of a worker's error.json: a traceback has kilobytes, garbage may have gigabytes.
inline constexpr std::size_t error_file_bytes_max = 1024 * 1024;
// Nesting of arrays and objects in it: torchrun's schema has three levels, and programs that add
// their own stay below this. A hundred thousand would overflow the stack of recursive code.
inline constexpr std::size_t error_file_depth_max = 64;
// The smallest limit for a log file: a page of text has to fit.
inline constexpr std::uint64_t log_file_bytes_least = 4096;
// Events queued for a pipe that is not read, or a full disk; later ones are counted.
inline constexpr std::size_t events_waiting_bytes_max = 1024 * 1024;
// Failed attempts kept in the report: the first ones, which show how it began, and the last. A
// thousand restarts make a report of half a megabyte.
inline constexpr std::size_t first_attempts_kept_max = 100;
inline constexpr std::size_t last_attempts_kept_max = 900;
// Rounds that a coordinator remembers for the status, and the length of a failure's message there:
// a thousand jobs that keep failing use some thirty megabytes in a daemon.
inline constexpr std::size_t first_rounds_kept_max = 10;
inline constexpr std::size_t last_rounds_kept_max = 30;
inline constexpr std::size_t history_message_bytes_max = 512;
// Causes counted by id: twice as many as exist.
inline constexpr std::size_t causes_counted_max = 64;
// A worker's message as sent to the coordinator and back; the frame has room for it.
inline constexpr std::size_t failure_message_bytes_max = 2048;

// --- the store -----------------------------------------------------------------------------------
// A key with all its prefixes. PyTorch's libuv server rejects longer ones, so no client relies on
// more.
inline constexpr std::size_t store_key_bytes_max = 8 * 1024;
// A value. PyTorch's default server closes the connection at 8 MiB; its predecessor had no limit,
// and jobs made use of that.
inline constexpr std::uint64_t store_value_bytes_max = 256ULL * 1024 * 1024;
// Keys of one CHECK, WAIT, MULTI_GET or MULTI_SET; PyTorch's own limit.
inline constexpr std::uint64_t store_keys_per_request_max = 131'072;
// One request in all, which also bounds a MULTI_SET of many large values.
inline constexpr std::uint64_t store_request_bytes_max = 512ULL * 1024 * 1024;
// One reply in all: a MULTI_GET may name the same large value a hundred thousand times.
inline constexpr std::uint64_t store_reply_bytes_max = 1024ULL * 1024 * 1024;
// Replies queued for one client. Beyond this none of its requests is read until it has read some;
// large enough for clients that send thousands of requests before they read.
inline constexpr std::size_t store_outbox_bytes_max = 16 * 1024 * 1024;
// A client with that much queued that reads nothing for this long is disconnected.
inline constexpr auto store_reader_stall_max = 30s;
// Clients waiting for a key that are woken before others are served again: about a millisecond.
inline constexpr std::size_t store_wakes_per_slice = 128;
// A number in ADD and BARRIER: its digits, and the blanks before them. Upstream allows any number
// of both, and reads hundreds of megabytes before it finds an invalid one.
inline constexpr std::size_t store_number_digits_max = 20;
inline constexpr std::size_t store_number_blanks_max = 32;
// Operands of COMPARE_SET: comparing equal values of that size takes a few milliseconds.
inline constexpr std::size_t store_compare_bytes_max = 16 * 1024 * 1024;
// Values of at least this size are in memory that replies refer to; shorter ones are copied.
inline constexpr std::size_t store_shared_bytes_min = 512;
// Replies of at least this size refer to their values; copying is faster below it.
inline constexpr std::size_t store_shared_reply_bytes_min = 16 * 1024;
// Requests of at least this size cannot use the last eighth of the memory budget.
inline constexpr std::size_t store_bulk_bytes_min = 64 * 1024;
// Memory freed in one step; larger blocks are freed in slices.
inline constexpr std::size_t store_freed_at_once_max = 64 * 1024;
// Freeing this many bytes costs as much as copying one, since whole pages are returned.
inline constexpr std::size_t store_bytes_freed_of_work = 8;
// Overhead of a key, a queue entry, a wait or a watch beyond its own bytes: the container nodes.
inline constexpr std::size_t store_entry_bytes = 192;
// Work of one turn of the store, in bytes copied: half a millisecond. Links are served between two
// turns.
inline constexpr std::size_t store_work_per_turn = 1024 * 1024;
// The share of it for one connection, before the next has its turn.
inline constexpr std::size_t store_work_per_visit = 128 * 1024;
// Work for the parts of a request besides its bytes: lookup, reply and accounting.
inline constexpr std::size_t store_work_of_request = 256;
inline constexpr std::size_t store_work_of_key = 384;
// Kernel work to open and close a connection: some ten microseconds.
inline constexpr std::size_t store_work_of_connection = 24 * 1024;
// Connections that one request wakes or notifies, and keys that a disconnecting client waits for or
// watches: this many are handled at once, the others in turns of that many.
inline constexpr std::size_t store_told_at_once_max = 1024;
inline constexpr std::size_t store_told_in_turn = 2048;
// Reserved so that a client for which memory has run out can be disconnected with a reason.
inline constexpr std::size_t store_last_memory_bytes = 256 * 1024;
// Minimum of the memory that clients may use in a daemon, even on a small machine: the rendezvous
// of a job.
inline constexpr std::uint64_t store_memory_bytes_min = 64ULL * 1024 * 1024;
// Per address, unless a daemon's flags say otherwise: connections for the largest number of ranks
// behind one address, and the keys of a full gloo mesh of a thousand ranks.
inline constexpr std::uint64_t store_address_connections_max = 16'384;
inline constexpr std::uint64_t store_address_keys_max = 1'048'576;
// A request with more keys than this is executed in parts of that many, one per turn.
inline constexpr std::size_t store_keys_at_once_max = 8192;
inline constexpr std::size_t store_keys_in_part = 2048;
// Keys that LIST_KEYS returns per turn.
inline constexpr std::size_t store_keys_listed_at_once = 4096;
// Bytes read from one connection at once; all connections share the buffer.
inline constexpr std::size_t store_read_bytes = 64 * 1024;
// Replies gathered into one write; larger ones are written on their own.
inline constexpr std::size_t store_gather_bytes = 256 * 1024;
// File descriptors that store clients cannot use: one in so many, at most one for each node of a
// large job. Without them a flood of store clients would keep agents out.
inline constexpr std::uint64_t link_descriptors_share = 8;
inline constexpr std::uint64_t link_descriptors_max = 4096;
// How long a client with an ambiguous first DELETE_KEY or APPEND (dialects A and B share the
// opcode) is watched for the bytes that only an APPEND has.
inline constexpr auto store_dialect_grace = 100ms;
// Attempts to get a port that can be bound but not listened on; see try_listen().
inline constexpr int listen_attempts_max = 8;
// Pause of a listener that cannot accept, not even to reject.
inline constexpr auto store_accept_rest = 100ms;
// Idle time after which the kernel probes a peer, and how long probes may stay unanswered. Waits of
// hours are normal; half-open connections must not keep them forever.
inline constexpr auto store_keepalive_idle = 60s;
inline constexpr auto store_keepalive_interval = 15s;
inline constexpr auto store_peer_timeout = 120s;

// --- the daemon's log ----------------------------------------------------------------------------
// Lines that differ only in numbers: this many within a window are written, the others are counted.
inline constexpr std::size_t log_alike_max = 5;
inline constexpr auto log_window = 10s;
// Kinds of lines distinguished at the same time.
inline constexpr std::size_t log_kinds_max = 256;
// One line: two texts of a link and the words around them.
inline constexpr std::size_t log_line_bytes_max = 4 * 1024 + 512;
// Log output queued for a slow reader; beyond this only job events are added, up to
// console_queue_bytes_max.
inline constexpr std::size_t log_behind_bytes = 256 * 1024;
// How long an exiting daemon waits for the reader of its log.
inline constexpr auto log_flush_max = 1s;

// --- clients of the store ------------------------------------------------------------------------
// Default timeouts of a store client, for connecting and for a request: PyTorch's five minutes for
// both.
inline constexpr auto store_client_connect_timeout = 300s;
inline constexpr auto store_client_timeout = 300s;
// One unresponsive address must not use up the time of the others.
inline constexpr auto store_client_attempt_max = 5s;
// Pause between rounds of attempts: short at first, since the store is usually about to listen.
inline constexpr auto store_client_pause_first = 20ms;
inline constexpr auto store_client_pause_max = 1s;

// --- authenticated links -------------------------------------------------------------------------
// OpenSSL's memory for an established idle connection: measured, and rounded up.
inline constexpr std::size_t secure_channel_bytes = 16 * 1024;
// Its additional memory while a record has arrived in part: the largest record and its header.
inline constexpr std::size_t secure_record_bytes = 17 * 1024;
// Concurrent unauthenticated connections: 16 MiB. A handshake takes one round trip, so ten thousand
// agents that connect at once are admitted a few hundred at a time.
inline constexpr std::size_t handshakes_max = 1024;
// Bytes accepted from a peer until then. A handshake has some 300 bytes, and the first message
// behind it, a Join or a tool's request, some thousands; OpenSSL would buffer 128 KiB of an endless
// one.
inline constexpr std::size_t handshake_bytes_max = 16 * 1024;
// Timeout of the handshake; as long as an agent's own for a connection attempt.
inline constexpr std::chrono::nanoseconds handshake_timeout = 5s;

// --- a job whose coordinator is lost -------------------------------------------------------------
// The coordinator's record of a job is sent in parts, so that heartbeats pass between them. In
// hexadecimal a part is twice as long, and still fits a link frame.
inline constexpr std::size_t record_part_bytes_max = 12 * 1024;
// Half a kilobyte per node, for twice ten thousand nodes.
inline constexpr int record_parts_max = 1024;
// Completions of nodes are recorded together, this long after the first one, since a record grows
// with the number of nodes.
constexpr std::chrono::nanoseconds done_record_delay(std::size_t nodes) {
  return 200ms + 100us * static_cast<long>(nodes);
}
// With fewer nodes there is no majority without the coordinator's own.
inline constexpr std::size_t standby_nodes_min = 3;
// Silence of the coordinator after which a node votes: its lease and the time in which heartbeats
// of the other nodes echo what they received.
constexpr std::chrono::nanoseconds vote_timeout(std::chrono::nanoseconds lease) {
  return lease + lease / 6;
}
// How often the leader of a job whose master was lost checks whether a new master has started. For
// lead_search a new master seals no round with fewer nodes than possible, so that this leader has
// time to find it.
inline constexpr std::chrono::nanoseconds master_look_pause = 2s;
inline constexpr std::chrono::nanoseconds lead_search = 5s;
// Previous masters that are searched for if several were lost one after the other.
inline constexpr std::size_t masters_looked_for_max = 4;
// Members of a cpprund cluster: more do not make it safer, and each has to be waited for.
inline constexpr std::size_t members_max = 7;
// "host.example.com:29400".
inline constexpr std::size_t place_bytes_max = 253 + 6;
// A standby is heard at least this often. A standby that is silent for standby_silence is not
// waited for any longer while a client waits.
inline constexpr std::chrono::nanoseconds standby_beat = 200ms;
inline constexpr std::chrono::nanoseconds standby_silence = 1s;
// Replication data queued for its link before images are held back.
inline constexpr std::size_t standby_bytes_waiting_max = 64 * 1024 * 1024;
// If more than this is queued and no client waits for the standby, it is resynchronized from
// scratch: an image is no larger than the current state.
inline constexpr std::size_t standby_bytes_behind_max = 2 * standby_bytes_waiting_max;
// A transfer of leadership is done within this time, or aborted.
inline constexpr std::chrono::nanoseconds hand_over_timeout = 2s;
// The reply to the client that requested it; sooner than the client's timeout.
inline constexpr std::chrono::nanoseconds hand_over_answer = 4s;
// How long workers outlive the lease of their node while another cpprund may become leader: longer
// than etcd takes to expire the leader's lease (a time to live of two seconds, noticed half a
// second later), with a margin for an etcd member that is lost at the same moment. The same for the
// whole cluster.
inline constexpr std::chrono::nanoseconds takeover_window = 6s;
// Timeout of each step (name, address, greeting) of an attempt to reach the next member. A live
// member replies sooner, and many such steps fit into takeover_window. It grows if no seat is at
// risk.
inline constexpr std::chrono::nanoseconds turn_step = 400ms;
// Pause between two rounds of attempts, if any.
inline constexpr std::chrono::nanoseconds turn_pause_max = 100ms;
// How often per lease a coordinator computes until when its nodes follow it; the value that its
// watchdog has is never older.
inline constexpr int lead_looks_per_lease = 8;

// Messages of a node that follow its Join before the job can process them: those that it repeats
// when it reconnects, and a few more.
inline constexpr std::size_t early_words_max = 32;
// The same for all agents together, in bytes: 20,000 agents with a few small messages each.
inline constexpr std::size_t early_bytes_max = 8 * 1024 * 1024;

// How long a cpprund that is asked to exit still processes messages that arrived before.
inline constexpr auto last_words = 10ms;

// --- a store that is reached through the nodes' agents -------------------------------------------
// Unacknowledged bytes of one worker's connection, per direction. With 1 ms between nodes it allows
// 256 MB/s.
inline constexpr std::size_t store_stream_window = 256 * 1024;
// Connections of one node's workers, including those being closed.
inline constexpr std::size_t store_streams_max = 65'536;
// Frames that one end sends before its event loop continues: a quarter of a megabyte, which takes
// the kernel and the cipher well under a millisecond.
inline constexpr int store_frames_per_turn = 8;
// What a link may always hold, whatever else its address holds, as long as the reserve for links
// lasts: TLS and a few queued frames. A peer that sends too much loses the stream, not the link.
inline constexpr std::size_t link_bytes_always = 192 * 1024;
// Memory of an idle link: its channel, callbacks and table entries in the coordinator.
inline constexpr std::size_t link_idle_bytes = 2 * 1024;
// Messages to the workers of one node that are held until a standby has the state, too.
inline constexpr std::size_t held_link_bytes_max = 256 * 1024;
// Backlog of a node's agent: eight workers with many threads each may connect at once.
inline constexpr int store_forwarder_backlog = 1024;
// Bytes read from one worker's connection at once.
inline constexpr std::size_t store_forwarder_read_bytes = 64 * 1024;

// --- the control socket --------------------------------------------------------------------------
// A job that ends sooner needs none; by then a longer one has started its workers.
inline constexpr std::chrono::nanoseconds door_opens_after = 200ms;
// Programs on one machine with the same process id: one in each container.
inline constexpr int doors_of_one_name_max = 64;
// The listen backlog.
inline constexpr int door_backlog = 16;
// Pause before accepting again after a failure.
inline constexpr std::chrono::nanoseconds door_rest = 100ms;
// Sockets of one directory that a sweep or a search looks at.
inline constexpr std::size_t doors_looked_at_max = 4096;

// --- the event stream ----------------------------------------------------------------------------
// Events kept for clients that connect later: the last ones, with a few failure messages.
inline constexpr std::size_t events_kept_max = 1000;
inline constexpr std::size_t events_kept_bytes_max = 256 * 1024;
// Events kept unformatted while there is no watcher; beyond this all are formatted.
inline constexpr std::size_t events_unsaid_max = 64;
// Concurrent watchers besides other clients: some people at their terminals.
inline constexpr std::size_t watchers_max = 8;
// Events queued for one watcher, besides the initial ones; beyond this it is not reading.
inline constexpr std::size_t watcher_bytes_max = 256 * 1024;
// Interval of keep-alives to a watcher while nothing happens, so that middleboxes do not drop the
// connection.
inline constexpr std::chrono::nanoseconds watcher_keep_alive = 15s;

// --- cpprunctl -----------------------------------------------------------------------------------
// The size of one reply: a multiple of the largest that a coordinator sends.
inline constexpr std::size_t answer_bytes_max = 32 * 1024 * 1024;
// Timeout of a request. A suspended program is reported, and not waited for.
inline constexpr std::chrono::nanoseconds ask_timeout = 5s;
// A client that sent a command learns within this time whether it was carried out, or that this is
// unknown: sooner than its own timeout (ask_timeout), and later than the result of a transfer
// (hand_over_answer).
inline constexpr std::chrono::nanoseconds outcome_timeout = 4500ms;
// One event: many times a failure's message.
inline constexpr std::size_t event_bytes_max = 256 * 1024;

}  // namespace cpprun::bounds

// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Every limit of the house, each with its unit and its reason. What exceeds a limit is refused
// aloud: the refusal names the limit.

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace cpprun::bounds {

using namespace std::chrono_literals;

// --- the link between agent and coordinator ----------------------------------------------------
// One JSON message. Agreed with the design: 512 bytes per agent per round each way; the margin
// above it is for a failure's last lines and for refusals, which are sentences.
inline constexpr std::size_t link_frame_bytes_max = 32 * 1024;
// One message of a round, however many nodes there are: join, sealed, and the end as it is told to
// those far away. (A job's id of more than 40 bytes, or a role of more than 24, costs its own
// length more.)
inline constexpr std::size_t round_frame_bytes_max = 512;
// Names that every join carries; longer ones are refused on the command line.
inline constexpr std::size_t job_id_bytes_max = 256;
inline constexpr std::size_t role_bytes_max = 128;
// A machine's name: the longest that DNS knows.
inline constexpr std::size_t host_bytes_max = 255;
// A numeric IPv6 address with an IPv4 one at its end, as inet_ntop writes it.
inline constexpr std::size_t address_bytes_max = 45;
// The id of a cause: the longest of ours has half of it.
inline constexpr std::size_t cause_bytes_max = 64;
// Nodes of one job. A hundred times what anybody has met with; and so many, each with
// local_world_size_max workers, still have ranks that fit an int.
inline constexpr int nodes_max = 1'000'000;
// What a newcomer may say of the last round it was in. A job that begins another every second gets
// there in thirty years, and from there its own rounds still have numbers for a century.
inline constexpr std::uint32_t round_number_max = 1'000'000'000;
// Consequences named to those far away, and to the agent of the master; the rest is a count.
inline constexpr std::size_t consequences_brief_max = 8;
inline constexpr std::size_t consequences_max = 64;
// Failures a node tells of one round: the first of each kind says what the others would.
inline constexpr std::size_t failures_told_max = 8;
inline constexpr std::size_t later_message_bytes_max = 256;
// The file of --config: a hundred times what all flags take; a model's weights are a mistake.
inline constexpr std::size_t config_file_bytes_max = 1024 * 1024;
// Codes in --no-restart-codes: each travels in every join.
inline constexpr std::size_t no_restart_codes_max = 8;
// A pause before a restart grows to this at most, unless a longer one was asked for.
inline constexpr std::chrono::nanoseconds backoff_max = 5min;
// A worker that dies this soon after its round began has done nothing; three times in a row, and
// the next time will be no better.
inline constexpr std::chrono::nanoseconds crash_loop_life = 1s;
inline constexpr int crash_loop_deaths = 3;
// A coordinator that wakes up late was stopped, or starved: what the nodes said meanwhile waits in
// its sockets, and it reads for so long before it gives anybody up.
inline constexpr std::chrono::nanoseconds coordinator_nap = 200ms;
// It is taken for awake while it is never later than this. What it has not read by then when it
// gives somebody up came in the last moment: twice this, of a lease of seconds.
inline constexpr std::chrono::nanoseconds coordinator_blink = 10ms;
// How often in a row it does so: whoever is late every time still has to give up the dead.
inline constexpr int coordinator_naps_max = 3;
// No lease is shorter: a tenth of what a machine that is hopelessly overloaded has kept, and ten of
// the blinks above.
inline constexpr std::chrono::nanoseconds lease_min = 100ms;
// An agent's own lease is shorter by this than the coordinator's: KILL takes a moment, and nobody
// may have its ranks before.
inline constexpr std::chrono::nanoseconds fence_margin = 250ms;
// What an agent's clock may show at most; three times that many nanoseconds can be counted.
inline constexpr auto agent_time_max = std::chrono::hours{24 * 365 * 90};
// Of how many heartbeats the fastest tells how a node's clock stands: enough that one had a free
// way, few enough that clocks drift by microseconds meanwhile.
inline constexpr int clock_samples = 32;
// One text inside a message (a reason, a failure's sentence). Two of them fit a frame even when
// every byte has to be escaped.
inline constexpr std::size_t link_text_bytes_max = 2 * 1024;
// Addresses a node names beside the one it speaks from: a join has to stay within 512 bytes.
inline constexpr std::size_t node_addresses_max = 4;
// A name that a stranger made up, quoted in a line of a log: enough to be recognised.
inline constexpr std::size_t name_shown_bytes_max = 80;
// Nodes that a sentence names before it says "and others".
inline constexpr std::size_t nodes_named_max = 8;
// Jobs of one daemon at a time: each has a port, of which a machine has few ten thousand.
inline constexpr std::size_t jobs_max = 1024;
// Of those as many as one address may have begun that are not over yet: a whole cluster behind one
// translated address has less.
inline constexpr std::size_t jobs_per_source_max = 256;
// The last quarter of them is for addresses that have begun fewer than this: three that take all
// they may and thirty-two others are needed to keep somebody out.
inline constexpr std::size_t jobs_few = 8;
// Names that are kept for the nodes of jobs whose place was given to others, two minutes each.
inline constexpr std::size_t job_names_kept_max = 4096;
// Links of one address. Machines have one for each job they are in; containers behind one
// translated address may be thousands.
inline constexpr std::size_t links_per_source_max = 4096;
// The longest silence a daemon lets a job ask for: for so long a job holds its place though none of
// its nodes is there any more. torchrun's own lease has 15 s.
inline constexpr std::chrono::nanoseconds daemon_lease_max = 2min;
// From an agent's greeting to its join, which it sends at once.
inline constexpr std::chrono::nanoseconds join_patience = 10s;
// The same where more links than this wait to say who they are: each has one of the descriptors
// that are kept for agents, and half of them may go to those who say nothing.
inline constexpr std::chrono::nanoseconds join_patience_in_crowd = 500ms;
inline constexpr std::size_t newcomers_max = 2048;
// For a node to speak at all addresses of its master before it asks for a seat: several trips
// around the world, and little of a lease.
inline constexpr std::chrono::nanoseconds introduction_patience = 500ms;
// A daemon's patience with the nodes of a job whose first node does not tell its own.
inline constexpr std::chrono::nanoseconds daemon_lease = 3s;
inline constexpr std::chrono::nanoseconds daemon_last_call = 30s;
// Bytes taken from a link at once, into a buffer that lives no longer: the largest frame, and more.
inline constexpr std::size_t link_read_bytes = 64 * 1024;
// Bytes that may wait for an agent that does not read before its link is cut.
inline constexpr std::size_t link_outbox_bytes_max = 256 * 1024;
// Before anybody complains that somebody is missing: nodes never start in the same moment.
inline constexpr std::chrono::nanoseconds first_status_after = 2s;
// Between two lines that say what is being waited for: often enough to be seen, rarely enough to be
// read.
inline constexpr std::chrono::nanoseconds status_interval = 5s;
// Between two attempts to reach the master: doubled from the first to the second.
inline constexpr std::chrono::nanoseconds dial_pause_min = 50ms;
inline constexpr std::chrono::nanoseconds dial_pause_max = 1s;
// One attempt to reach it: a machine that drops packets must not hide its next address for long.
inline constexpr std::chrono::nanoseconds dial_attempt_max = 5s;
// How long a master stays for the others to hear that the job is over.
inline constexpr std::chrono::nanoseconds farewell_max = 5s;

// --- whoever looks by HTTP ---------------------------------------------------------------------
// The head of a request: what browsers and scrapers send has a tenth of it.
inline constexpr std::size_t http_head_bytes_max = 8 * 1024;
// What may follow it: an order in JSON has a tenth of it.
inline constexpr std::size_t http_body_bytes_max = 4 * 1024;
// An address: a job's id, every byte of it escaped, and what stands around it.
inline constexpr std::size_t http_target_bytes_max = 2 * 1024;

// Connections that look at a time: a browser has six, a scraper one; each may wait for an answer
// of a megabyte.
inline constexpr std::size_t status_connections_max = 16;
// How long a request may take from its first byte to its last, a connection may ask for nothing, an
// answer may wait for its reader, and the reader's end be waited for after the last one.
inline constexpr std::chrono::nanoseconds status_request_patience = 5s;
inline constexpr std::chrono::nanoseconds status_idle_patience = 60s;
inline constexpr std::chrono::nanoseconds status_answer_patience = 30s;
inline constexpr std::chrono::nanoseconds status_farewell_patience = 1s;
// What one answer shows: some hundred kilobytes, a few milliseconds of work.
inline constexpr std::size_t status_jobs_shown_max = 200;
inline constexpr std::size_t status_nodes_shown_max = 500;
// Jobs in one answer to Prometheus, which has no pages: a megabyte.
inline constexpr std::size_t status_jobs_measured_max = 1024;

// --- a worker ----------------------------------------------------------------------------------
// An error's sentence in the error file. What() of a C++ exception with a whole back-trace stays
// below it; the rest is cut, because the launcher reads the file into memory.
inline constexpr std::size_t worker_error_bytes_max = 64 * 1024;
// A collective that takes longer has a peer that hangs. PyTorch waits thirty minutes here; five let
// a slow file system pass and still end a stuck job over a coffee.
inline constexpr std::chrono::milliseconds worker_collective_wait_max = 5min;
// Between two looks whether somebody serves the store by now: soon enough not to be felt, and
// little for a thousand ranks that look.
inline constexpr std::chrono::milliseconds worker_join_retry = 50ms;
// Between two looks of a rank that waits in a collective at what the others wait in. It takes three
// of them until something is said, so that is within ten seconds.
inline constexpr std::chrono::milliseconds worker_stall_patience = 2500ms;
// Other ranks it looks at, and how long the store may take to answer.
inline constexpr int worker_stall_ranks_max = 64;
inline constexpr std::chrono::milliseconds worker_stall_store_wait = 5s;
// How long a rank that hosts the store itself stays for the others' good-byes when all went well.
inline constexpr std::chrono::milliseconds worker_goodbye_wait_max = 10s;
// A string or a plain value that ranks send each other; what is larger is a tensor.
inline constexpr std::size_t worker_object_bytes_max = 64 * 1024 * 1024;
// A file of examples that one of our programs reads whole into memory.
inline constexpr std::size_t worker_data_file_bytes_max = 64 * 1024 * 1024;
// The JSON in front of a safetensors file, some hundred bytes a tensor: the largest models have a
// hundred thousand. The format's own reader takes 100 MB; a hostile head of that size would cost
// gigabytes, one of this size less than 64 MB and a second.
inline constexpr std::uint64_t safetensors_head_bytes_max = 12 * 1024 * 1024;
// Texts among its metadata: some for each parameter of an optimizer, and each costs ten times its
// shortest form.
inline constexpr std::size_t safetensors_texts_max = 65'536;
// Dimensions of one tensor there: LibTorch's own limit.
inline constexpr std::size_t safetensors_dimensions_max = 64;
// The pickle of a .pth file, in bytes and in values: a thousand layers with their optimizer's state
// need a hundredth of it.
inline constexpr std::uint64_t pickle_bytes_max = 64 * 1024 * 1024;
inline constexpr std::size_t pickle_values_max = 4'000'000;
// Dicts, lists and tuples inside each other.
inline constexpr int pickle_depth_max = 100;
// A file of images, unpacked: MNIST's largest has 47 MB, CIFAR-100's 154 MB.
inline constexpr std::uint64_t image_file_bytes_max = 512 * 1024 * 1024;
// Frames of a back-trace: a recursion that has gone wild repeats itself after far fewer.
inline constexpr int worker_backtrace_frames_max = 64;
// The text of one, prepared for a handler that may not allocate.
inline constexpr std::size_t worker_backtrace_bytes_max = 16 * 1024;
// Checkpoints of one folder that ranks tell each other of when they choose one; older ones are not
// looked at.
inline constexpr int checkpoints_offered_max = 64;
// How long ranks wait for the one that writes a checkpoint: a terabyte to a busy file server.
inline constexpr std::chrono::milliseconds checkpoint_write_wait_max = 60min;
// Bytes that one broadcast of a checkpoint carries: enough to be fast, and little beside a model.
inline constexpr std::int64_t checkpoint_broadcast_bytes = 64 * 1024 * 1024;

// --- the launcher: processes ---------------------------------------------------------------------
// How long a process may take to die of KILL, and a group or the descendants to vanish after it.
// What takes longer sits in the kernel (a lost disk, a hung driver): it is reported and given up.
inline constexpr auto kill_patience = 10s;
// Looks at a group that was killed and is not gone yet: first after this, then at most after that.
inline constexpr auto sweep_look_first = 200us;
inline constexpr auto sweep_look_max = 20ms;
// What is on disks that a bad end left behind, and the disk hangs: how long the others are not told
// of the end for the sake of what it says.
inline constexpr auto evidence_patience = 2s;
// How long a disk may take with a file that the user has named (a report, events, logs): before
// the job starts, when it is on a server that is just being mounted; while the job runs, where
// heartbeats wait for it; and at the end, where what is late is written without us.
inline constexpr auto disk_patience_at_start = 10s;
inline constexpr auto disk_patience_meanwhile = 1s;
inline constexpr auto disk_patience_at_end = 5s;
// Between two attempts to write events to a disk that is full.
inline constexpr auto full_disk_pause = 1s;
// What cpprun waits, as its last act, for those it has killed.
inline constexpr auto last_reap_wait = 1s;
// Rounds in which the watchdog looks for processes of a job whose cpprun is gone, and the pause
// between two of them: ten seconds in all, as kill_patience.
inline constexpr int watchdog_looks_max = 1000;
inline constexpr auto watchdog_pause = 10ms;
// A child of the watchdog that stands in front of one process for that long is held up by it, and
// abandoned; and how many may be, before the search is given up.
inline constexpr auto watchdog_child_patience = 500ms;
inline constexpr int watchdog_children_max = 16;
// Watchdogs posted in the place of one that was killed: whoever kills more than that means it.
inline constexpr int watchdogs_posted_max = 16;
// Process groups a watchdog can be told of: twice the workers anybody runs on one machine.
inline constexpr std::size_t watchdog_groups_max = 4096;
// Bytes of a process' environment that are searched for the token: execve takes no more by default.
inline constexpr std::size_t environ_bytes_max = 8 * 1024 * 1024;
// How long no worker may ask the store before cpprun wonders whether the script has a world of its
// own: torch itself and a large data set are loaded in less.
inline constexpr std::chrono::nanoseconds own_world_patience = 60s;
// Processes of a worker's that are looked at then; a DataLoader has dozens.
inline constexpr std::size_t family_looked_at_max = 256;
// Of /proc/net/tcp: a line has 150 bytes, and a busy machine a few thousand sockets.
inline constexpr std::size_t socket_table_bytes_max = 4 * 1024 * 1024;
// Workers on one node; beyond this somebody mistook the flag.
inline constexpr int local_world_size_max = 2048;
// Processors of one machine, by their numbers; Linux itself is built for 8192 at most.
inline constexpr int cpus_max = 8192;

// --- the launcher: the workers' words ------------------------------------------------------------
// A line longer than this is passed on in pieces: a worker without newlines costs no memory.
inline constexpr std::size_t line_bytes_max = 64 * 1024;
// Bytes taken from a worker's pipe at once; one worker never holds up the event loop longer.
inline constexpr std::size_t pump_read_bytes = 64 * 1024;
// What is taken from the pipe of a worker that is gone, in case somebody still writes to it: more
// than a pipe holds by default.
inline constexpr std::size_t pipe_bytes_max = 1024 * 1024;
// How long the last words may take to reach a console that is read slowly (a pager, a terminal that
// was stopped); a second Ctrl-C ends it sooner.
inline constexpr auto console_patience = 60s;
inline constexpr auto console_patience_pressed = 200ms;
// Bytes that may wait for a console that is not read; beyond it the workers' pipes are left alone.
inline constexpr std::size_t console_queue_bytes_max = 1024 * 1024;
// The last words of a worker's stderr that are kept for the diagnosis, in lines and in bytes: a
// C++ exception of LibTorch has its sentence above some forty frames of a stack.
inline constexpr std::size_t last_lines_max = 200;
inline constexpr std::size_t last_lines_bytes_max = 32 * 1024;
// How many of them a report shows.
inline constexpr std::size_t last_lines_shown_max = 20;
// What is read of a worker's error.json: a traceback has kilobytes, garbage may have gigabytes.
inline constexpr std::size_t error_file_bytes_max = 1024 * 1024;
// Arrays and objects inside each other in it: torchrun's schema has three, and others who add their
// own stay below this. A hundred thousand would use up the stack of whoever walks them.
inline constexpr std::size_t error_file_depth_max = 64;
// A log file may be limited to this and no less: a page of words has to fit.
inline constexpr std::uint64_t log_file_bytes_least = 4096;
// Events that may wait for a pipe that is not read, or a disk that is full; later ones are counted.
inline constexpr std::size_t events_waiting_bytes_max = 1024 * 1024;
// Bad ends of attempts that the report keeps: the first ones, which tell how it began, and the
// last. A thousand restarts make a report of half a megabyte.
inline constexpr std::size_t first_attempts_kept_max = 100;
inline constexpr std::size_t last_attempts_kept_max = 900;
// Rounds of a job that its coordinator remembers for whoever looks at it, and what of a failure's
// words: a thousand jobs that fail for ever make a daemon keep some thirty megabytes.
inline constexpr std::size_t first_rounds_kept_max = 10;
inline constexpr std::size_t last_rounds_kept_max = 30;
inline constexpr std::size_t history_message_bytes_max = 512;
// Causes that are counted by their ids; as many again as there are.
inline constexpr std::size_t causes_counted_max = 64;
// What of a worker's message travels to the coordinator and back; the frame has room for it.
inline constexpr std::size_t failure_message_bytes_max = 2048;

// --- the store ---------------------------------------------------------------------------------
// A key with all its prefixes. PyTorch's libuv server refuses more, so nobody relies on more.
inline constexpr std::size_t store_key_bytes_max = 8 * 1024;
// A value. PyTorch's default server closes at 8 MiB, the one before had no limit and jobs used it.
inline constexpr std::uint64_t store_value_bytes_max = 256ULL * 1024 * 1024;
// Keys of one CHECK, WAIT, MULTI_GET or MULTI_SET: PyTorch's own limit.
inline constexpr std::uint64_t store_keys_per_request_max = 131'072;
// One request in all, so that a MULTI_SET of many large values has an end, too.
inline constexpr std::uint64_t store_request_bytes_max = 512ULL * 1024 * 1024;
// One reply in all: a MULTI_GET may name the same large value a hundred thousand times.
inline constexpr std::uint64_t store_reply_bytes_max = 1024ULL * 1024 * 1024;
// Bytes of replies that may wait for one client. Beyond it no request of that client is read until
// it has taken some; large enough for clients that send thousands of requests before they read.
inline constexpr std::size_t store_outbox_bytes_max = 16 * 1024 * 1024;
// A client with that much waiting for it that takes nothing for this long is dropped.
inline constexpr auto store_reader_stall_max = 30s;
// Clients of an awaited key that are woken before others are served again: about a millisecond.
inline constexpr std::size_t store_wakes_per_slice = 128;
// A number that ADD and BARRIER count with: its digits, and the blanks before them. Upstream takes
// any number of both, and reads hundreds of megabytes to find out that it is none.
inline constexpr std::size_t store_number_digits_max = 20;
inline constexpr std::size_t store_number_blanks_max = 32;
// What COMPARE_SET compares: equal values of that size are looked at in a few milliseconds.
inline constexpr std::size_t store_compare_bytes_max = 16 * 1024 * 1024;
// A value from this size on lies in memory that replies refer to; shorter ones are copied.
inline constexpr std::size_t store_shared_bytes_min = 512;
// A reply from this size on refers to the values it shows. Below it, copying is faster.
inline constexpr std::size_t store_parcel_bytes_min = 16 * 1024;
// From here on something is large: the last eighth of the memory budget is not for it.
inline constexpr std::size_t store_bulk_bytes_min = 64 * 1024;
// Memory that goes back in one piece; what is larger goes back a slice at a time.
inline constexpr std::size_t store_freed_at_once_max = 64 * 1024;
// So many bytes of it cost as much as one that is copied: whole pages go back.
inline constexpr std::size_t store_bytes_freed_of_work = 8;
// What it costs beside its own bytes to hold a key, an entry of a queue, or a wait or a watch for a
// key: the nodes that they live in.
inline constexpr std::size_t store_entry_bytes = 192;
// Work of one turn of the store, in bytes that are copied: half a millisecond. Links are served
// between two turns.
inline constexpr std::size_t store_work_per_turn = 1024 * 1024;
// Of it for one connection, before the next has its turn.
inline constexpr std::size_t store_work_per_visit = 128 * 1024;
// What the parts of a request cost beside its bytes: to look it up, to answer, to book it.
inline constexpr std::size_t store_work_of_request = 256;
inline constexpr std::size_t store_work_of_key = 384;
// What the kernel needs to open a connection, and to end one: some ten microseconds.
inline constexpr std::size_t store_work_of_connection = 24 * 1024;
// Connections that one request wakes or tells of a change, and keys that a client waits for or
// watches when it leaves: so many are dealt with at once, the others in turns of so many.
inline constexpr std::size_t store_told_at_once_max = 1024;
inline constexpr std::size_t store_told_in_turn = 2048;
// Kept so that a client for which there is no memory left can be closed with a reason.
inline constexpr std::size_t store_last_memory_bytes = 256 * 1024;
// What clients may make a daemon hold at the least, however small the machine: a job's meeting.
inline constexpr std::uint64_t store_memory_bytes_min = 64ULL * 1024 * 1024;
// Of one address, unless a daemon's flags say otherwise: connections of as many ranks as anybody
// runs behind one address, and the keys of a full mesh of gloo among a thousand ranks.
inline constexpr std::uint64_t store_address_connections_max = 16'384;
inline constexpr std::uint64_t store_address_keys_max = 1'048'576;
// A request of more keys than this is carried out in parts of that many, one in each turn.
inline constexpr std::size_t store_keys_at_once_max = 8192;
inline constexpr std::size_t store_keys_in_part = 2048;
// Keys that LIST_KEYS tells in one turn.
inline constexpr std::size_t store_keys_listed_at_once = 4096;
// Bytes taken from one connection at once; the buffer is shared by all of them.
inline constexpr std::size_t store_read_bytes = 64 * 1024;
// Replies that are gathered before they are written; more pay for a write of their own.
inline constexpr std::size_t store_gather_bytes = 256 * 1024;
// Of the files that may be open, those that no store client gets: one in so many, and not more than
// the nodes of a large job. Without them a crowd at the store keeps agents out.
inline constexpr std::uint64_t link_descriptors_share = 8;
inline constexpr std::uint64_t link_descriptors_max = 4096;
// How long a client whose first DELETE_KEY or APPEND cannot be told apart (dialects A and B share
// the opcode) is watched for the bytes that only an APPEND has.
inline constexpr auto store_dialect_grace = 100ms;
// How often a port is asked for that could be bound and not listened on; see try_listen().
inline constexpr int listen_attempts_max = 8;
// A listener that can accept nothing, not even to refuse it, rests for this long.
inline constexpr auto store_accept_rest = 100ms;
// Silence after which the kernel probes whether a peer still exists, and how long it may stay
// unanswered. Waits of hours are ordinary; half-open connections must not keep them for ever.
inline constexpr auto store_keepalive_idle = 60s;
inline constexpr auto store_keepalive_interval = 15s;
inline constexpr auto store_peer_timeout = 120s;

// --- the daemon's log ----------------------------------------------------------------------------
// Lines that differ only in numbers: so many of them within a window, the others are counted.
inline constexpr std::size_t log_alike_max = 5;
inline constexpr auto log_window = 10s;
// Kinds of lines that are told apart at the same time.
inline constexpr std::size_t log_kinds_max = 256;
// One line: two texts of a link, and what is said around them.
inline constexpr std::size_t log_line_bytes_max = 4 * 1024 + 512;
// Bytes that wait for whoever reads the log; from there on only what happens to jobs is added, up
// to console_queue_bytes_max.
inline constexpr std::size_t log_behind_bytes = 256 * 1024;
// How long a daemon that ends waits for the reader of its last lines.
inline constexpr auto log_farewell = 1s;

// --- clients of the store ------------------------------------------------------------------------
// How long a client tries to reach a store, and how long a request may take, where nobody says
// otherwise: PyTorch's own five minutes for both.
inline constexpr auto store_client_connect_timeout = 300s;
inline constexpr auto store_client_timeout = 300s;
// One address that does not answer must not use up the time of the others.
inline constexpr auto store_client_attempt_max = 5s;
// Between two rounds of attempts: short at first, since the store is usually about to listen.
inline constexpr auto store_client_pause_first = 20ms;
inline constexpr auto store_client_pause_max = 1s;

// --- links on which both sides prove that they hold a secret -----------------------------------
// What OpenSSL keeps of an established connection that is idle: measured, and rounded up.
inline constexpr std::size_t secure_channel_bytes = 16 * 1024;
// What it keeps besides while a record has arrived in part: the largest one, and its header.
inline constexpr std::size_t secure_record_bytes = 17 * 1024;
// Who has come and has not proven yet that it holds the secret: 16 MiB of them. An agent's proof
// takes one round trip, so ten thousand that come at once are let in a few hundred at a time.
inline constexpr std::size_t handshakes_max = 1024;
// What may come of it until then. A handshake has some 300 bytes, and the first words behind it, a
// join or a tool's question, some thousands; OpenSSL would keep 128 KiB of somebody who never ends.
inline constexpr std::size_t handshake_bytes_max = 16 * 1024;
// For that round trip and a little patience: the agent's own for an attempt is as long.
inline constexpr std::chrono::nanoseconds handshake_patience = 5s;

// --- a job whose coordinator is lost -----------------------------------------------------------
// What a coordinator leaves of its job travels in parts, so that heartbeats pass between them. As
// digits each has twice as many bytes, and still fits a frame of the link.
inline constexpr std::size_t record_part_bytes_max = 12 * 1024;
// Half a kilobyte a node: for ten thousand of them, twice over.
inline constexpr int record_parts_max = 1024;
// That nodes have done their part is recorded together, so long after the first of them: a record
// is as long as the job has nodes.
constexpr std::chrono::nanoseconds done_record_delay(std::size_t nodes) {
  return 200ms + 100us * static_cast<long>(nodes);
}
// With fewer nodes there is no majority without the coordinator's.
inline constexpr std::size_t standby_nodes_min = 3;
// After so much silence of its coordinator a node votes: longer than its lease by what the others'
// heartbeats need to say again what they have heard.
constexpr std::chrono::nanoseconds vote_patience(std::chrono::nanoseconds lease) {
  return lease + lease / 6;
}
// Whoever leads a job whose master was lost looks so often whether that one has come anew. A master
// seals no round of fewer nodes than could be there before it had been found.
inline constexpr std::chrono::nanoseconds master_look_pause = 2s;
inline constexpr std::chrono::nanoseconds lead_search = 5s;
// Masters of before that are looked for, where one after the other was lost.
inline constexpr std::size_t masters_looked_for_max = 4;
// Cppruns of which one leads: more of them do not make it safer, and each of them has to be waited
// for.
inline constexpr std::size_t members_max = 7;
// "host.example.com:29400".
inline constexpr std::size_t place_bytes_max = 253 + 6;
// A cpprund that stands by is heard at least so often; one that is not heard for so long is waited
// for no longer, and somebody waits for it meanwhile.
inline constexpr std::chrono::nanoseconds standby_beat = 200ms;
inline constexpr std::chrono::nanoseconds standby_silence = 1s;
// Of what it is told, so much may wait for its link before images wait for it.
inline constexpr std::size_t standby_bytes_waiting_max = 64 * 1024 * 1024;
// With more than this, where nobody waits for it, it begins anew: an image has no more than there
// is.
inline constexpr std::size_t standby_bytes_behind_max = 2 * standby_bytes_waiting_max;
// A lead that is handed over is somebody's by then, or goes on as it was.
inline constexpr std::chrono::nanoseconds hand_over_patience = 2s;
// Whoever has asked for that is answered within it: sooner than it gives up waiting.
inline constexpr std::chrono::nanoseconds hand_over_answer = 4s;
// For so long workers live on after the lease of their node while another cpprund may be taking the
// place of the one that leads: longer than it takes etcd to let go of that one (its time to live is
// two seconds, found out half a second later), and some more for one of etcd's own members that is
// lost in the same moment. The same for all of a cluster.
inline constexpr std::chrono::nanoseconds turn_patience = 6s;
// An attempt to reach the next of them, by its steps (a name, an address, a greeting): whoever is
// there answers sooner, and so many of them fit into a patience. Where no seat is to be lost, it
// grows.
inline constexpr std::chrono::nanoseconds turn_step = 400ms;
// Between two turns, where one is.
inline constexpr std::chrono::nanoseconds turn_pause_max = 100ms;
// How often a coordinator looks until when its nodes follow it: so many times in a lease. What its
// watchdog knows is never older.
inline constexpr int lead_looks_per_lease = 8;

// That a node says behind its join before its job can hear them: what it says again when it comes
// back, and a few beside.
inline constexpr std::size_t early_words_max = 32;
// The same of all agents together, in bytes: 20,000 of them with some small messages each.
inline constexpr std::size_t early_bytes_max = 8 * 1024 * 1024;

// For so long a cpprund that is asked to end hears what has come before it was.
inline constexpr auto last_words = 10ms;

// --- a store that is reached through the nodes' agents -----------------------------------------
// Of one worker's connection, in either direction: bytes under way that were not taken yet. At 1 ms
// from node to node that lets 256 MB a second through.
inline constexpr std::size_t store_stream_window = 256 * 1024;
// Connections of one node's workers, those included that are being closed.
inline constexpr std::size_t store_streams_max = 65'536;
// Frames that one end says before its loop looks at everything else: a quarter of a megabyte, which
// takes the kernel and the cipher well under a millisecond.
inline constexpr int store_frames_per_turn = 8;
// What a link may hold whatever else its address holds, as long as the reserve for links lasts:
// TLS's own, and a few frames that wait. Who sends too much loses what sends it, and not the link.
inline constexpr std::size_t link_bytes_always = 192 * 1024;
// What an idle link costs: its channel, its callbacks, its entries in the coordinator's tables.
inline constexpr std::size_t link_idle_bytes = 2 * 1024;
// Of what workers of one node are told, that waits until somebody else has it, too.
inline constexpr std::size_t held_link_bytes_max = 256 * 1024;
// Who may wait to be let in by a node's agent: eight workers with many threads each come at once.
inline constexpr int store_forwarder_backlog = 1024;
// Taken from one worker's connection at once.
inline constexpr std::size_t store_forwarder_read_bytes = 64 * 1024;

// --- the socket for tools ------------------------------------------------------------------------
// A job that ends sooner needs none; by then one that lasts has started its workers.
inline constexpr std::chrono::nanoseconds door_opens_after = 200ms;
// Programs of one machine whose process ids are the same: one in each of its containers.
inline constexpr int doors_of_one_name_max = 64;
// Who may wait to be let in.
inline constexpr int door_backlog = 16;
// A door at which nobody can be let in is looked at again after that.
inline constexpr std::chrono::nanoseconds door_rest = 100ms;
// Sockets of one folder that are looked at, by whoever sweeps or asks.
inline constexpr std::size_t doors_looked_at_max = 4096;

// --- the stream of events ------------------------------------------------------------------------
// What is kept for whoever comes later: the last events, with the words of a few failures.
inline constexpr std::size_t events_kept_max = 1000;
inline constexpr std::size_t events_kept_bytes_max = 256 * 1024;
// Events that are kept as they are while nobody listens; with more of them all are made lines.
inline constexpr std::size_t events_unsaid_max = 64;
// Who watches, beside those that ask: some people at their terminals.
inline constexpr std::size_t watchers_max = 8;
// What may wait for a watcher, beside what it was told first: then it is not reading.
inline constexpr std::size_t watcher_bytes_max = 256 * 1024;
// Between two words to a watcher while nothing happens: what lies between must not take the
// connection for dead.
inline constexpr std::chrono::nanoseconds watcher_keep_alive = 15s;

// --- cpprunctl -----------------------------------------------------------------------------------
// What one answer may make it hold: some times the largest that a coordinator gives.
inline constexpr std::size_t answer_bytes_max = 32 * 1024 * 1024;
// How long whoever is asked may take. One that is stopped is told of, and not waited for.
inline constexpr std::chrono::nanoseconds ask_patience = 5s;
// Whoever has asked for something hears within that whether it was done, or that this is not known:
// before it gives up (ask_patience), and after whoever hands over has said (hand_over_answer).
inline constexpr std::chrono::nanoseconds outcome_patience = 4500ms;
// What one event may be: the words of a failure many times over.
inline constexpr std::size_t event_bytes_max = 256 * 1024;

}  // namespace cpprun::bounds

// SPDX-License-Identifier: BSD-3-Clause
// The written rules. To add one: find or add its cause in causes.cpp, add a line here, above what
// is more general, and stage the failure in tests/failures. docs/failures.md has the whole way.

#include <cerrno>
#include <csignal>

#include "launcher/failure/cause_rules.h"

namespace cpprun {

namespace {

constexpr auto about_ends = std::to_array<EndRule>({
    // --- it could not be started: what was found wrong, then the errno alone --------------------
    {.cause = "noexec_mount", .exec_fault = ExecFault::noexec_mount},
    {.cause = "wrong_machine", .exec_fault = ExecFault::wrong_machine},
    {.cause = "interpreter_missing", .exec_fault = ExecFault::missing_interpreter},
    {.cause = "not_a_program", .exec_fault = ExecFault::no_magic},
    {.cause = "program_missing", .error_number = ENOENT},
    {.cause = "program_missing", .error_number = ENOTDIR},
    {.cause = "not_executable", .error_number = EACCES},
    {.cause = "not_a_program", .error_number = ENOEXEC},
    {.cause = "library_missing", .error_number = ELIBBAD},
    {.cause = "program_busy", .error_number = ETXTBSY},
    {.cause = "arguments_too_long", .error_number = E2BIG},
    {.cause = "start_forbidden", .error_number = EPERM},
    {.cause = "too_many_processes", .error_number = EAGAIN, .any_stage = true},
    {.cause = "too_many_files", .error_number = EMFILE, .any_stage = true},
    {.cause = "too_many_files", .error_number = ENFILE, .any_stage = true},
    {.cause = "memory_refused", .error_number = ENOMEM, .any_stage = true},
    {.cause = "disk_full", .error_number = ENOSPC, .any_stage = true},
    {.cause = "disk_full", .error_number = EDQUOT, .any_stage = true},
    {.cause = "disk_error", .error_number = EIO, .any_stage = true},
    {.cause = "read_only", .error_number = EROFS, .any_stage = true},
    // --- signals that nobody here sent ----------------------------------------------------------
    {.cause = "out_of_memory", .signal = SIGKILL, .kernel = {"Killed process", "oom-kill"}},
    {.cause = "out_of_memory", .signal = SIGKILL, .fact = Fact::oom_kill},
    {.cause = "out_of_memory", .signal = SIGKILL, .fact = Fact::oom_kill_nearby},
    {.cause = "killed", .signal = SIGKILL},
    {.cause = "shared_memory_full", .signal = SIGBUS, .fact = Fact::shm_full},
    {.cause = "disk_full", .signal = SIGBUS, .fact = Fact::disk_full},
    {.cause = "shared_memory_small", .signal = SIGBUS, .fact = Fact::shm_small},
    {.cause = "bus_error", .signal = SIGBUS},
    {.cause = "segfault", .signal = SIGSEGV},
    {.cause = "wrong_cpu", .signal = SIGILL},
    {.cause = "arithmetic_error", .signal = SIGFPE},
    {.cause = "forbidden_call", .signal = SIGSYS},
    {.cause = "cpu_time_limit", .signal = SIGXCPU},
    {.cause = "file_too_large", .signal = SIGXFSZ},
    {.cause = "pipe_closed", .signal = SIGPIPE},
    {.cause = "terminated", .signal = SIGTERM},
    {.cause = "interrupted", .signal = SIGINT},
    {.cause = "terminated", .signal = SIGHUP},
    {.cause = "terminated", .signal = SIGQUIT},
    // --- codes that a shell or the loader gives, where no words said more -----------------------
    {.cause = "command_missing", .code = 127},
    {.cause = "not_executable", .code = 126},
});

constexpr auto about_words = std::to_array<WordRule>({
    // --- memory ---------------------------------------------------------------------------------
    {"cuda_out_of_memory",
     {"CUDA out of memory", "CUDA error: out of memory", "Cuda failure 'out of memory'",
      "HIP out of memory", "CUDA_ERROR_OUT_OF_MEMORY"}},
    {"shared_memory_full",
     {"insufficient shared memory (shm)", "out of shared memory", "unable to open shared memory",
      "unable to write to file </torch_", "unable to allocate shared memory(shm)"}},
    {"shared_memory_full", {"/dev/shm"}, {"No space left on device"}},
    {"memory_refused",
     {"std::bad_alloc", "DefaultCPUAllocator: can't allocate memory",
      "DefaultCPUAllocator: not enough memory", "MemoryError", "Cannot allocate memory",
      "out of memory"}},
    {"memory_corrupted",
     {"stack smashing detected", "double free or corruption", "corrupted size vs. prev_size",
      "buffer overflow detected", "AddressSanitizer:", "munmap_chunk(): invalid pointer"}},
    {"memory_corrupted", {"malloc(): ", "free(): ", "realloc(): ", "malloc_consolidate(): "}},
    // --- known to follow from somebody else's end -----------------------------------------------
    {"peer_gone",
     {"Connection closed by peer", "Connection reset by peer", "Connection closed by remote peer",
      "ncclRemoteError", "NCCL communicator was aborted", "ConnectionResetError"}},
    {"store_gone",
     {"Failed to recv, got 0 bytes", "failed to recv, got 0 bytes", "TCPStore", "DistNetworkError",
      "recvValue failed", "sendBytes failed"},
     {"Broken pipe", "Connection reset", "got 0 bytes", "Connection was likely closed",
      "Connection refused"}},
    {"pipe_closed", {"Broken pipe", "BrokenPipeError"}},
    {"peer_gone", {"ProcessGroupGloo", "gloo", "c10d", "tcp/pair.cc"}, {"Connection refused"}},
    {"peer_silent",
     {"Watchdog caught collective operation timeout", "failed to pass monitoredBarrier",
      "Timeout waiting for key", "but received errors"}},
    {"peer_silent",
     {"Timed out waiting", "timed out waiting"},
     {"recv operation", "send operation"}},
    {"peer_silent", {"gloo", "Gloo"}, {"Connect timeout", "timed out", "Timed out"}},
    {"told_to_end", {"SignalException", "got signal: 15"}},
    // --- disagreements between ranks ------------------------------------------------------------
    {"peer_missing",
     {"wait timeout after", "waiting for clients.", "Socket Timeout", "clients joined",
      "Timed out after"}},
    {"world_disagrees",
     {"rank < size", "is not less than world size", "world_size mismatch", "WORLD_SIZE",
      "invalid rank", "Invalid rank"},
     {"enforce fail", "ValueError", "RuntimeError", "AssertionError", "KeyError", "expected"}},
    {"collectives_disagree",
     {"op.preamble.length <= op.nbytes", "Detected mismatch between collectives",
      "running different collectives", "Detected mismatch in collective"}},
    {"unused_parameters", {"Expected to have finished reduction in the prior iteration"}},
    // --- devices --------------------------------------------------------------------------------
    {"gpu_broken",
     {"uncorrectable ECC error", "fallen off the bus", "unspecified launch failure", "NVLink error",
      "CUDA error: hardware"}},
    {"cuda_missing",
     {"No CUDA GPUs are available", "Torch not compiled with CUDA enabled",
      "Found no NVIDIA driver", "no CUDA-capable device is detected",
      "torch.cuda.is_available() is False", "Could not run 'aten::empty"}},
    {"cuda_too_new",
     {"driver version is insufficient", "NVIDIA driver on your system is too old",
      "no kernel image is available", "forward compatibility was attempted"}},
    {"cuda_device_number", {"invalid device ordinal", "Duplicate GPU detected"}},
    {"cuda_fault",
     {"device-side assert triggered", "illegal memory access was encountered", "misaligned address",
      "CUBLAS_STATUS_", "CUDNN_STATUS_", "cuDNN error"}},
    {"nccl_setup",
     {"ncclSystemError", "ncclInternalError", "ncclInvalidUsage", "ncclUnhandledCudaError",
      "NCCL WARN Bootstrap"}},
    {"cuda_fault", {"CUDA error:", "CUDA driver error:"}},
    // --- disks ----------------------------------------------------------------------------------
    {"disk_full", {"No space left on device", "Disk quota exceeded"}},
    {"disk_error", {"Input/output error"}},
    {"read_only", {"Read-only file system"}},
    {"stale_mount", {"Stale file handle", "Transport endpoint is not connected"}},
    {"file_too_large", {"File too large"}},
    {"checkpoint_broken",
     {"PytorchStreamReader failed", "pickle data was truncated", "invalid load key",
      "Ran out of input", "UnpicklingError", "MetadataIncompleteBuffer"}},
    {"checkpoint_mismatch", {"Error(s) in loading state_dict", "size mismatch for"}},
    // --- libraries and interpreters -------------------------------------------------------------
    {"libc_too_old", {"GLIBC_", "GLIBCXX_", "CXXABI_"}, {"not found"}},
    {"library_missing", {"cannot open shared object file", "error while loading shared libraries"}},
    {"library_mismatch", {"undefined symbol", "symbol lookup error"}},
    {"python_module_missing", {"ModuleNotFoundError", "No module named"}},
    {"python_syntax", {"SyntaxError:", "IndentationError:", "TabError:"}},
    {"usage",
     {"error: unrecognized arguments", "error: the following arguments are required",
      "error: argument", "unrecognized option", "invalid option"}},
    // --- limits ---------------------------------------------------------------------------------
    {"too_many_files", {"Too many open files"}},
    {"too_many_processes",
     {"can't start new thread", "pthread_create failed", "fork: retry", "Cannot fork",
      "libgomp: Thread creation failed"}},
    {"too_many_processes", {"Resource temporarily unavailable"}, {"thread", "fork", "process"}},
    {"recursion", {"RecursionError", "maximum recursion depth"}},
    // --- the network, for its own sake ----------------------------------------------------------
    {"address_in_use", {"Address already in use", "EADDRINUSE"}},
    {"network_interface", {"Unable to find address for", "no socket interface found"}},
    {"name_unknown",
     {"Name or service not known", "Temporary failure in name resolution", "nodename nor servname",
      "No address associated with hostname"}},
    {"network_unreachable",
     {"No route to host", "Network is unreachable", "Connection timed out",
      "Cannot assign requested address"}},
    {"connection_refused", {"Connection refused"}},
    // --- what its own code did ------------------------------------------------------------------
    {"dataloader_worker", {"DataLoader worker"}, {"exited unexpectedly", "is killed by signal"}},
    {"shapes_disagree",
     {"shapes cannot be multiplied", "must match the size of tensor", "Expected all tensors to be",
      "The size of tensor"}},
    {"assertion_failed", {"Assertion `", "AssertionError", "Assertion failed"}},
    {"interrupted", {"KeyboardInterrupt"}},
    {"command_missing", {": command not found", ": not found"}},
    {"file_missing", {"FileNotFoundError", "No such file or directory"}},
    {"permission_denied", {"PermissionError", "Permission denied", "Operation not permitted"}},
});

}  // namespace

std::span<const EndRule> end_rules() {
  return about_ends;
}

std::span<const WordRule> word_rules() {
  return about_words;
}

}  // namespace cpprun

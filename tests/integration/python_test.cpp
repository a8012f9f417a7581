// SPDX-License-Identifier: BSD-3-Clause
// Unmodified PyTorch scripts, torch 2.13 or newer, under cpprun: nothing in them knows of it.

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/integration/command.h"
#include "tests/integration/directory.h"
#include "tests/integration/hosts.h"

namespace python_test {

using namespace cpprun::integration;

namespace {

// Sums the ranks over gloo; on the first attempt the last rank fails half way if requested.
constexpr const char* sum_ranks = R"(
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1) * dist.get_rank()
dist.all_reduce(total)
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
if "fail_once" in sys.argv and attempt == 0 and dist.get_rank() == dist.get_world_size() - 1:
    sys.exit(9)
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {int(total)} in attempt {attempt}",
      flush=True)
dist.destroy_process_group()
)";

// Saves when it is asked to end, a few batches later: the processes of its DataLoader have to live.
// The given rank fails when the fifo is opened.
constexpr const char* saves_at_the_end = R"(
import os, signal, sys, torch
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self): return 1 << 24
    def __getitem__(self, index): return torch.tensor(float(index))

left = None
def ask(number, frame):
    global left
    left = left or 50
signal.signal(signal.SIGTERM, ask)
signal.signal(signal.SIGINT, ask)
directory, failing, bell = sys.argv[1:4]
rank = os.environ["RANK"]
for step, batch in enumerate(DataLoader(Numbers(), batch_size=4, num_workers=2)):
    if step == 3:
        print("ready", flush=True)
        if rank == failing:
            open(bell).read()
            os._exit(7)
    if left is not None:
        left -= 1
        if left == 0:
            torch.save({"step": step}, f"{directory}/{rank}.pt")
            print("saved", rank, flush=True)
            sys.exit(0)
)";

const std::string no_python = "no Python with torch was found when this was configured";

Options with_torch(const std::string& path = "") {
  Options options{.variables = {{"PYTHON_EXEC", from_build("CPPRUN_PYTHON")}}};
  if (!path.empty()) options.variables["PYTHONPATH"] = path;
  return options;
}

bool has_torch() {
  return !from_build("CPPRUN_PYTHON").empty();
}

Words node(int rank, int port, const Words& program) {
  Words words = {"--nnodes=2",
                 "--nproc_per_node=1",
                 "--node_rank=" + std::to_string(rank),
                 "--master_addr=127.0.0.1",
                 "--master_port=" + std::to_string(port),
                 "--max-restarts=1"};
  words.insert(words.end(), program.begin(), program.end());
  return with_cpprun(words);
}

}  // namespace

TEST_CASE("an unmodified PyTorch training runs on two workers that end with the same model") {
  if (!has_torch()) return skip(no_python);
  const auto ended =
      run(with_cpprun({"--standalone", "--nproc-per-node=2", from_build("CPPRUN_TRAIN_SCRIPT")}),
          with_torch());
  CHECK_MESSAGE(ended.code == 0, ended.err);
  const auto sum_of = [&ended](const std::string& rank) {
    const std::string before = rank + ": done, the parameters sum up to ";
    const auto at = ended.out.find(before);
    return at == std::string::npos ? rank : ended.out.substr(at + before.size(), 12);
  };
  CHECK(sum_of("rank 0") == sum_of("rank 1"));
}

TEST_CASE("a Python module runs with -m") {
  if (!has_torch()) return skip(no_python);
  Directory directory;
  directory.write("sum_ranks.py", sum_ranks);
  const auto ended = run(with_cpprun({"--standalone", "--nproc-per-node=2", "-m", "sum_ranks"}),
                         with_torch(directory.path()));
  CHECK_MESSAGE(ended.code == 0, ended.err);
  CHECK(contains(ended.out, "rank 0 of 2: 2 in attempt 0"));
  CHECK(contains(ended.out, "rank 1 of 2: 2 in attempt 0"));
}

TEST_CASE("Python on two nodes meets in one group, and again after a failure") {
  if (!has_torch()) return skip(no_python);
  Directory directory;
  const Words program = {directory.write("sum_ranks.py", sum_ranks), "fail_once"};
  const int port = free_port();
  Command second(node(1, port, program), with_torch());
  Command first(node(0, port, program), with_torch());
  const auto of_first = first.wait();
  const auto of_second = second.wait();
  CHECK_MESSAGE(of_first.code == 0, of_first.err);
  CHECK_MESSAGE(of_second.code == 0, of_second.err);
  CHECK(contains(of_first.out, "rank 0 of 2: 2 in attempt 1"));
  CHECK(contains(of_second.out, "rank 1 of 2: 2 in attempt 1"));
}

TEST_CASE("a c10d rendezvous restarts an unmodified gloo script on one node and on two") {
  if (!has_torch()) return skip(no_python);
  const Directory directory;
  const auto script = directory.write("sum_ranks.py", sum_ranks);
  const int port = free_port();
  const auto agent = [&](const std::string& nodes, const std::string& workers) {
    return with_cpprun({"--nnodes=" + nodes, "--nproc-per-node=" + workers, "--rdzv-backend=c10d",
                        "--rdzv-endpoint=localhost:" + std::to_string(port), "--rdzv-id=sums",
                        "--max-restarts=1", script, "fail_once"});
  };
  const auto alone = run(agent("1", "2"), with_torch());
  CHECK_MESSAGE(alone.code == 0, alone.err);
  CHECK(contains(alone.out, "rank 0 of 2: 2 in attempt 1"));
  CHECK(contains(alone.out, "rank 1 of 2: 2 in attempt 1"));
  Command first(agent("2", "1"), with_torch());
  Command second(agent("2", "1"), with_torch());
  const auto of_first = first.wait();
  const auto of_second = second.wait();
  CHECK_MESSAGE(of_first.code == 0, of_first.err);
  CHECK_MESSAGE(of_second.code == 0, of_second.err);
  CHECK(contains(of_first.out + of_second.out, "rank 0 of 2: 2 in attempt 1"));
  CHECK(contains(of_first.out + of_second.out, "rank 1 of 2: 2 in attempt 1"));
}

TEST_CASE("gloo of Python workers on two hosts uses the card between them") {
  if (!has_torch()) return skip(no_python);
  const Hosts hosts(2);
  if (!hosts.why_not().empty()) return skip(hosts.why_not());
  Directory directory;
  const auto script = directory.write("sum_ranks.py", sum_ranks);
  const auto on_host = [&](int rank) {
    return hosts.on(
        rank,
        with_cpprun({"--nnodes=2", "--nproc_per_node=2", "--node_rank=" + std::to_string(rank),
                     "--master_addr=" + Hosts::address(0), "--master_port=29500", script}));
  };
  Command second(on_host(1), with_torch());
  Command first(on_host(0), with_torch());
  const auto of_first = first.wait();
  const auto of_second = second.wait();
  CHECK_MESSAGE(of_first.code == 0, of_first.err);
  CHECK_MESSAGE(of_second.code == 0, of_second.err);
  // The hosts have no other connection, so the sum used it.
  CHECK(contains(of_first.out, "rank 0 of 4: 24 in attempt 0"));
  CHECK(contains(of_second.out, "rank 3 of 4: 24 in attempt 0"));
}

TEST_CASE("a Python exception is in the report with its text") {
  if (!has_torch()) return skip(no_python);
  Directory directory;
  const auto script =
      directory.write("raises.py",
                      "from torch.distributed.elastic.multiprocessing.errors import "
                      "record\n@record\ndef main():\n    raise ValueError('seven')\n"
                      "main()\n");
  const auto ended = run(with_cpprun({"--standalone", script}), with_torch());
  CHECK(ended.code == 1);
  CHECK(contains(ended.err, "ValueError: seven"));
}

// --- the end of a training whose DataLoader has processes of its own

namespace {

struct Saving {
  Directory directory;
  std::string script = directory.write("saves.py", saves_at_the_end);
  std::string bell = directory.path() + "/bell";
  std::string checkpoints = directory.path() + "/checkpoints";

  Saving() {
    REQUIRE(::mkfifo(bell.c_str(), 0600) == 0);
    std::filesystem::create_directory(checkpoints);
  }
  Words job(const Words& options, const std::string& failing = "none") const {
    Words words = {"--nproc-per-node=2"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {script, checkpoints, failing, bell});
    return with_cpprun(words);
  }
  // The ranks that have saved, in order.
  std::string saved() const {
    std::string ranks;
    for (const std::string rank : {"0", "1"}) {
      if (std::filesystem::exists(checkpoints + "/" + rank + ".pt")) ranks += rank;
    }
    return ranks;
  }
};

}  // namespace

TEST_CASE("every rank saves on SIGTERM and on Ctrl-C, though its DataLoader has processes") {
  if (!has_torch()) return skip(no_python);
  for (const int signal : {SIGTERM, SIGINT}) {
    const Saving saving;
    Command job(saving.job({"--standalone"}), with_torch());
    job.expect_out("ready\n", 2);
    job.signal(signal);
    const auto ended = job.wait();
    CHECK(ended.code == 128 + signal);
    CHECK_MESSAGE(saving.saved() == "01", ended.err);
    job.expect_no_worker_left();
  }
}

TEST_CASE("the remaining ranks save when another one fails") {
  if (!has_torch()) return skip(no_python);
  const Saving saving;
  Command job(saving.job({"--standalone"}, "1"), with_torch());
  job.expect_out("ready\n", 2);
  std::ofstream(saving.bell) << "\n";
  const auto ended = job.wait();
  CHECK(ended.code == 7);
  CHECK_MESSAGE(saving.saved() == "0", ended.err);
  job.expect_no_worker_left();
}

TEST_CASE("every rank saves on cpprunctl stop") {
  if (!has_torch()) return skip(no_python);
  const Saving saving;
  const auto place = "localhost:" + std::to_string(free_port());
  Command job(saving.job({"--nnodes=1", "--rdzv-backend=c10d", "--rdzv-endpoint=" + place,
                          "--rdzv-id=saves"}),
              with_torch());
  job.expect_out("ready\n", 2);
  CHECK(run({from_build("CPPRUNCTL"), "--address=" + place, "stop", "saves"}).code == 0);
  const auto ended = job.wait();
  CHECK(ended.code == 143);
  CHECK_MESSAGE(saving.saved() == "01", ended.err);
  job.expect_no_worker_left();
}

}  // namespace python_test

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""cpprun under a real Slurm of four hosts:

    slurm_test.py CPPRUN

Skipped, with the reason, if Slurm or network namespaces are unavailable (`./dev test
--schedulers` installs what Debian has). Only the standard library."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import unittest

from hosts import why_not
import slurm

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lab"))
from scenes import play

CPPRUN = sys.argv[1]
PAGE = os.path.join(HERE, "..", "..", "docs", "slurm.md")
REASON = why_not(*slurm.PROGRAMS)
SAY = 'echo "rank $RANK of $WORLD_SIZE on node $GROUP_RANK at $MASTER_ADDR"'


@unittest.skipIf(REASON, REASON)
class SlurmTest(unittest.TestCase):
    """Each name is a sentence about cpprun under Slurm."""

    @classmethod
    def setUpClass(cls):
        cls.slurm = slurm.Slurm()
        cls.addClassCleanup(cls.slurm.remove)
        print(cls.slurm.run("srun", "--version").stdout, end="", flush=True)

    def workers(self, text):
        return ["--no-python", "sh", "-c", text]

    def expect_no_process(self):
        """No process of a job is left on any host."""
        def only_slurmd():
            for node in self.slurm.nodes:
                for pid in self.slurm.hosts.pids(node):
                    try:
                        with open(f"/proc/{pid}/cmdline", "rb") as file:
                            words = file.read()
                    except OSError:
                        continue
                    if words and b"slurm" not in words:
                        return False
            return True
        self.slurm.wait_until(only_slurmd, "no process is left on the hosts")

    def test_the_commands_of_its_page_do_what_it_says(self):
        self.slurm.script("train", 'echo "rank $RANK of $WORLD_SIZE"\n')

        def typed(_, command):
            path = f"PATH={os.path.dirname(CPPRUN)}:$PATH; "
            done = self.slurm.run("sh", "-c", path + command)
            return done.returncode, done.stdout
        faults = play(PAGE, self.slurm.directory, typed)
        self.assertEqual(faults, [], "\n".join(faults))

    def test_host_lists_mean_the_same_to_cpprun_and_to_slurm(self):
        # Slurm 22.05 itself rejects a name that continues after its brackets, which other programs
        # write.
        lists = ["n[1-3,07]", "gpu[07-09,12],login", "n[098-101]", "r[0-1]n[1-2]", "b,a,b", "n[3]",
                 "a1,a[2-3],b[001-003,9]"]
        dice = random.Random(7)
        number = lambda width: f"{dice.randrange(10 ** width):0{width}}"
        for _ in range(60):
            parts = []
            for _ in range(dice.randint(1, 3)):
                width, low = dice.randint(1, 3), dice.randint(0, 90)
                span = f"{low:0{width}}-{low + dice.randint(0, 12):0{width}}"
                inside = ",".join(dice.sample([span, number(width), number(4)],
                                              dice.randint(1, 3)))
                parts.append(f"{dice.choice(['n', 'gpu-a', 'r1c'])}[{inside}]")
            lists.append(",".join(parts))
        done = subprocess.run([os.environ["CPPRUN_HOST_NAMES"]], input="\n".join(lists), text=True,
                              stdout=subprocess.PIPE, check=True)
        script = 'for list in "$@"; do echo $(scontrol show hostnames "$list"); done'
        theirs = self.slurm.run("sh", "-c", script, "sh", *lists).stdout.splitlines()
        self.assertEqual(len(theirs), len(lists))
        for written, ours, said in zip(lists, done.stdout.splitlines(), theirs):
            self.assertEqual(ours, said, written)

    def test_srun_needs_no_flags(self):
        done = self.slurm.run("srun", "-N4", "--ntasks-per-node=1", CPPRUN, "--nproc-per-node=2",
                              *self.workers(SAY))
        self.assertEqual(done.returncode, 0, done.stdout)
        said = sorted(re.findall(r"rank (\d) of 8 on node (\d) at n1$", done.stdout, re.MULTILINE))
        self.assertEqual(said, [(str(rank), str(rank // 2)) for rank in range(8)], done.stdout)
        self.assertEqual(len(re.findall(
            r"settings from Slurm: 4 nodes \(SLURM_STEP_NUM_NODES\), node rank 0 "
            r"\(SLURM_NODEID\), master n1:2\d{4} \(SLURM_STEP_NODELIST\)",
            done.stdout)), 1, done.stdout)
        self.expect_no_process()

    def test_a_step_on_some_of_the_nodes_is_a_job_of_those(self):
        script = self.slurm.script("some", f"srun -N2 -n2 -w n3,n4 {CPPRUN} --no-python "
                                   f"sh -c '{SAY}'\n")
        done = self.slurm.run("sbatch", "-N4", "-W", "-o", self.slurm.path("some.out"), script)
        said = self.slurm.text("some.out")
        self.assertEqual(done.returncode, 0, said)
        self.assertIn("rank 1 of 2 on node 1 at n3\n", said)

    def test_two_tasks_on_a_node_are_rejected_on_each(self):
        done = self.slurm.run("srun", "-N2", "-n4", CPPRUN, *self.workers(SAY))
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertEqual(done.stdout.count("Slurm started 4 tasks on 2 nodes"), 4, done.stdout)
        self.assertNotIn("rank", done.stdout)

    def test_more_nodes_than_srun_started_are_rejected_at_once(self):
        done = self.slurm.run("srun", "-N2", "-n2", CPPRUN, "--nnodes=3", *self.workers(SAY))
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("--nnodes=3, but Slurm started cpprun on 2 nodes (SLURM_STEP_NUM_NODES)",
                      done.stdout)

    def test_a_job_may_consist_of_several_steps(self):
        start = (f"srun -N1 -n1 -w %s {CPPRUN} --nnodes=2 --rdzv-backend=c10d "
                 "--rdzv-endpoint=n1:29400 --no-python sh -c 'echo rank $RANK of $WORLD_SIZE' &\n")
        script = self.slurm.script("parts", start % "n1" + start % "n2" + "wait\n")
        self.slurm.run("sbatch", "--wait", "-N2", "-n2", "-w", "n1,n2", "-o",
                       self.slurm.path("parts.out"), script)
        said = self.slurm.text("parts.out")
        self.assertEqual(sorted(re.findall(r"^rank \d of 2", said, re.M)),
                         ["rank 0 of 2", "rank 1 of 2"], said)

    def test_a_rank_that_the_batch_shell_expanded_is_an_error(self):
        script = self.slurm.script(
            "expanded", f"srun {CPPRUN} --rdzv-conf=join_timeout=5 --node-rank=$SLURM_NODEID "
            "--no-python true\n")
        done = self.slurm.run("sbatch", "-N2", "-n2", "-W", "-o",
                              self.slurm.path("expanded.out"), script)
        said = self.slurm.text("expanded.out")
        self.assertNotEqual(done.returncode, 0, said)
        self.assertIn("--node-rank=0, but this is node 1 according to SLURM_NODEID", said)

    def test_a_script_without_srun_gets_a_warning_that_it_is_alone(self):
        script = self.slurm.script("alone", f"{CPPRUN} --no-python sh -c '{SAY}'\n")
        self.slurm.run("sbatch", "-N2", "-W", "-o", self.slurm.path("alone.out"), script)
        said = self.slurm.text("alone.out")
        self.assertIn("this Slurm job has 2 nodes (SLURM_JOB_NUM_NODES), but cpprun was started "
                      "without srun", said)
        self.assertIn("rank 0 of 1", said)

    def test_tasks_of_an_array_are_separate_jobs(self):
        script = self.slurm.script("array", f"srun {CPPRUN} --no-python sh -c "
                                   "'echo run $TORCHELASTIC_RUN_ID rank $RANK of $WORLD_SIZE'\n")
        done = self.slurm.run("sbatch", "-N2", "-n2", "--array=0-1", "-W", "-o",
                              self.slurm.path("array-%a.out"), script)
        for task in range(2):
            said = self.slurm.text(f"array-{task}.out")
            self.assertEqual(done.returncode, 0, said)
            self.assertEqual(len(re.findall(rf"run slurm-\d+_{task}\.0 rank \d of 2", said)), 2,
                             said)

    def test_a_lost_node_is_replaced(self):
        script = 'echo "world $WORLD_SIZE"; test $WORLD_SIZE = 3 || exec sleep 1000'
        started = self.slurm.start("srun", "--no-kill", "-N4", "--ntasks-per-node=1", CPPRUN,
                                   "--nnodes=3:4", "--rdzv-conf=last_call_timeout=1",
                                   *self.workers(script))
        said = ""
        for line in started.stdout:
            said += line
            if said.count("world 4") == 4:
                break
        self.addCleanup(self.slurm.power_on, "n4")
        self.slurm.hosts.power_off("n4")
        said += started.communicate(timeout=slurm.SECONDS_MAX)[0]
        self.assertEqual(said.count("world 3"), 3, said)
        self.assertIn("node 3 on n4 is lost: no response for 3 s", said)
        self.expect_no_process()

    def requeue(self, job):
        """It runs again in a moment and not in two minutes; nor in the same second, for which what
        Slurm gave it before is void on its nodes ("Job credential revoked")."""
        self.assertEqual(self.slurm.run("scontrol", "requeue", job).returncode, 0)
        self.slurm.wait_until(
            lambda: "JobState=PENDING" in self.slurm.run("scontrol", "show", "job", job).stdout,
            "the job waits for its second run")
        self.slurm.run("scontrol", "update", f"JobId={job}", "StartTime=now+2seconds")

    def test_a_job_that_is_requeued_meets_again(self):
        flag = self.slurm.path("requeued-once")
        script = self.slurm.script(
            "requeue", f"srun {CPPRUN} --no-python sh -c 'echo start $SLURM_RESTART_COUNT; "
            f"test -e {flag} || exec sleep 1000'\n")
        job = re.search(r"\d+", self.slurm.run(
            "sbatch", "-N2", "-n2", "--requeue", "--open-mode=append", "-o",
            self.slurm.path("requeue.out"), script).stdout)[0]
        self.slurm.wait_until(lambda: self.slurm.text("requeue.out").count("start") == 2, "a start")
        open(flag, "w", encoding="utf-8").close()
        self.requeue(job)
        self.slurm.wait_until(lambda: self.slurm.text("requeue.out").count("start 1") == 2,
                              "a second start")
        self.slurm.wait_until(
            lambda: "JobState=COMPLETED" in self.slurm.run("scontrol", "show", "job", job).stdout,
            "its end")
        self.expect_no_process()

    def test_a_requeued_job_keeps_its_remaining_restarts(self):
        state = self.slurm.path("restarts.state")
        script = self.slurm.script(
            "budget", f"srun {CPPRUN} --max-restarts=1 --restart-state={state} --no-python sh -c "
            "'echo run $SLURM_RESTART_COUNT restart $TORCHELASTIC_RESTART_COUNT; "
            "test \"$SLURM_RESTART_COUNT\" = 1 && exit 7; "
            "test $TORCHELASTIC_RESTART_COUNT = 1 && exec sleep 1000; test $RANK = 1 && exit 7; "
            "exec sleep 1000'\n")
        job = re.search(r"\d+", self.slurm.run(
            "sbatch", "-N2", "-n2", "--requeue", "--open-mode=append", "-o",
            self.slurm.path("budget.out"), script).stdout)[0]
        said = lambda: self.slurm.text("budget.out")
        self.slurm.wait_until(lambda: said().count("run restart 1") == 2, "a restart")
        self.requeue(job)
        self.slurm.wait_until(
            lambda: "JobState=FAILED" in self.slurm.run("scontrol", "show", "job", job).stdout,
            "its end")
        self.assertIn("this job continues: 1 of its restarts was used before", said())
        self.assertIn("all 1 restarts are used", said())
        self.assertIn("run 1 restart 1", said())
        self.expect_no_process()

    def test_a_notice_reaches_the_workers_and_ends_nothing(self):
        script = self.slurm.script(
            "notice", f"srun {CPPRUN} --no-python sh -c "
            "'trap \"echo saved; touch $SLURM_SUBMIT_DIR/saved-$RANK\" USR1; echo ready; "
            "until test -e $SLURM_SUBMIT_DIR/go-on; do sleep 0.1; done; echo done'\n")
        job = re.search(r"\d+", self.slurm.run("sbatch", "-N2", "-n2", "-o", self.slurm.path(
            "notice.out"), script).stdout)[0]
        said = lambda: self.slurm.text("notice.out")
        self.slurm.wait_until(lambda: said().count("ready") == 2, "workers")
        self.slurm.run("scancel", "-s", "USR1", job)
        self.slurm.wait_until(lambda: said().count("saved") >= 2 or "rror" in said(), "notices")
        with open(self.slurm.path("go-on"), "w", encoding="utf-8"):
            pass
        self.slurm.wait_until(lambda: "JobState=COMPLETED" in self.slurm.run(
            "scontrol", "show", "job", job).stdout, f"its end; {said()}")
        self.assertEqual(said().count("done"), 2, said())
        self.expect_no_process()

    def test_the_time_limit_leaves_a_report_and_no_process(self):
        report = self.slurm.path("late.json")
        script = self.slurm.script(
            "late", f"exec srun {CPPRUN} --report={report} --no-python sh -c "
            "'trap \": >$SLURM_SUBMIT_DIR/late-$RANK; exit 0\" TERM; "
            "while :; do sleep 0.1; done'\n")
        job = re.search(r"\d+", self.slurm.run("sbatch", "-N2", "-n2", "--time=1", "-o",
                                               self.slurm.path("late.out"), script).stdout)[0]
        # A minute is the least that Slurm counts, and it checks its jobs periodically.
        self.slurm.wait_until(lambda: "JobState=TIMEOUT" in self.slurm.run(
            "scontrol", "show", "job", job).stdout, "the end of its time", seconds=240)
        self.slurm.wait_until(lambda: '"ended"' in self.slurm.text("late.json"), "a report")
        self.assertEqual(json.loads(self.slurm.text("late.json"))["exit_code"], 143)
        # The report is node 0's: the other node's worker may be a moment behind.
        self.slurm.wait_until(lambda: all(os.path.exists(self.slurm.path(f"late-{rank}"))
                                          for rank in (0, 1)), "each worker has saved")
        self.expect_no_process()

    def test_scancel_leaves_a_report_and_no_process(self):
        report = self.slurm.path("cancelled.json")
        script = self.slurm.script(
            "cancel", f"exec srun {CPPRUN} --report={report} --no-python sh -c "
            # The child also gets Slurm's TERM: the shell must not exit because the child has. Its
            # output may not arrive, as srun is ended, too.
            "'trap \": >$SLURM_SUBMIT_DIR/cancelled-$RANK; exit 0\" TERM; echo ready; "
            "while :; do sleep 0.1; done'\n")
        job = re.search(r"\d+", self.slurm.run("sbatch", "-N2", "-n2", "-o", self.slurm.path(
            "cancel.out"), script).stdout)[0]
        self.slurm.wait_until(lambda: self.slurm.text("cancel.out").count("ready") == 2, "workers")
        self.slurm.run("scancel", job)
        self.slurm.wait_until(lambda: self.slurm.text("cancelled.json") != "", "a report")
        self.slurm.wait_until(lambda: all(os.path.exists(self.slurm.path(f"cancelled-{rank}"))
                                          for rank in (0, 1)), "each worker has saved")
        self.assertNotEqual(json.loads(self.slurm.text("cancelled.json"))["exit_code"], 0)
        self.expect_no_process()


# A worker with a loader that it needs for its checkpoint, as a DataLoader's processes are needed.
SAVES = """
import multiprocessing, os, signal, sys, time
asked = []
loader = multiprocessing.Process(target=time.sleep, args=(1000,), daemon=True)
loader.start()
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
print("ready", flush=True)
while not asked:
    time.sleep(0.05)
time.sleep(0.5)
if loader.is_alive():
    open(sys.argv[1] + "-" + os.environ["RANK"], "w").close()
"""


@unittest.skipIf(REASON, REASON)
class TasksAloneTest(unittest.TestCase):
    """Slurm signals its own tasks and nothing below them, as proctrack/cgroup does."""

    def test_scancel_lets_each_worker_save_before_its_loader_ends(self):
        cluster = slurm.Slurm(nodes=2, proctrack="pgid")
        self.addCleanup(cluster.remove)
        with open(cluster.path("saves.py"), "w", encoding="utf-8") as file:
            file.write(SAVES)
        script = cluster.script("saving", f"exec srun {CPPRUN} {cluster.path('saves.py')} "
                                          f"{cluster.path('saved')}\n")
        job = re.search(r"\d+", cluster.run("sbatch", "-N2", "-n2", "-o", cluster.path(
            "saving.out"), script).stdout)[0]
        said = lambda: cluster.text("saving.out")
        cluster.wait_until(lambda: said().count("ready") == 2, "workers")
        cluster.run("scancel", job)
        cluster.wait_until(lambda: "JobState=CANCELLED" in cluster.run(
            "scontrol", "show", "job", job).stdout, "its end")
        cluster.wait_until(lambda: all(os.path.exists(cluster.path(f"saved-{rank}"))
                                       for rank in (0, 1)), f"each worker has saved; {said()}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # CTest's: the hosts are removed
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)

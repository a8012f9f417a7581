#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`digits` dies, is stopped, is damaged, and resumes: digits_resume_test.py cpprun digits

The launcher restarts it; what a run prints of its epochs must not depend on what happened to it."""

import os
import re
import signal
import subprocess
import sys
import tempfile

CPPRUN, DIGITS = sys.argv[1:3]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
WAIT_SECONDS_MAX = 120
EPOCH = re.compile(r"epoch .*?%")
FROM = re.compile(r"resuming at step (\d+), epoch (\d+), after (\d+) images of that epoch, "
                  r"world size (\d+) \(was (\d+)\)")


def command(ranks, *options, restarts=1):
    return [CPPRUN, "--standalone", f"--nproc-per-node={ranks}", f"--max-restarts={restarts}",
            DIGITS, "--epochs=4", *options]


def environment():
    return dict(os.environ, OMP_NUM_THREADS="1")


def run(ranks, *options, code=0, restarts=1):
    with tempfile.NamedTemporaryFile() as events:
        ended = subprocess.run(command(ranks, *options, restarts=restarts),
                               env=dict(environment(), PET_EVENTS=events.name),
                               stdin=subprocess.DEVNULL, capture_output=True, text=True,
                               timeout=WAIT_SECONDS_MAX, check=False)
        happened = events.read().decode()
    output = ended.stdout + ended.stderr
    check('"job_ended"' in happened and '"worker_killed"' not in happened,
          "a rank that has lost its peer ends by itself, and need not be killed", happened)
    check(ended.returncode == code, f"exit {ended.returncode}, expected {code}", output)
    return output


def check(condition, what, output=""):
    if not condition:
        print(output)
        sys.exit(f"digits_resume_test: {what}")


def epochs_of(output):
    return EPOCH.findall(output)


def resumed_from(output):
    found = FROM.search(output)
    check(found, "it must say where it goes on", output)
    return tuple(int(number) for number in found.groups())


def newest(directory):
    return os.path.join(directory, sorted(os.listdir(directory))[-1])


def killed_rank_resumes(directory, expected):
    options = ["--checkpoint", directory, "--resume", "--save_every=10",
               "--fail-at-step=57", "--fail-rank=1"]
    output = run(2, *options)
    check(resumed_from(output) == (50, 3, 256, 2, 2), "the last checkpoint is of step 50", output)
    check(epochs_of(output) == expected, f"the losses must be those of {expected}", output)
    check(len(os.listdir(directory)) == 3, "three checkpoints are kept")


def damaged_one_is_passed_over(directory):
    torn = newest(directory)
    os.truncate(torn, os.path.getsize(torn) - 100)
    output = run(2, "--checkpoint", directory, "--resume")
    check(f'skipped "{torn}"' in output, "the damaged file must be named", output)
    check(resumed_from(output)[0] == 90, "and the one before it loaded", output)


def other_world_size_goes_on(directory):
    output = run(3, "--checkpoint", directory, "--resume", "--epochs=5")
    check(resumed_from(output) == (92, 5, 0, 3, 2), "three ranks go on", output)
    check(len(epochs_of(output)) == 1, "with the one epoch that is left", output)


def end_after_lines(count, number, ranks, *options):
    """Sends a signal once so many lines were printed; returns all output."""
    process = subprocess.Popen(command(ranks, *options), env=environment(),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    try:
        said = "".join(process.stdout.readline() for _ in range(count))
        process.send_signal(number)
        return said + process.communicate(timeout=WAIT_SECONDS_MAX)[0]
    finally:
        process.kill()
        process.wait()


def killed_while_saving_leaves_whole_ones(directory):
    # A checkpoint after every step: most of the time one is being written.
    options = ["--checkpoint", directory, "--resume", "--save-every=1", "--epochs=500"]
    for lines in (2, 3, 4):
        end_after_lines(lines, signal.SIGKILL, 1, *options)
    output = run(1, "--checkpoint", directory, "--resume", "--epochs=1")
    check("skipped" not in output, "what has its name is whole", output)
    check(resumed_from(output)[0] > 0, "and there is one", output)
    check(all(name.endswith(".safetensors") for name in os.listdir(directory)),
          "nothing half-written")


def stopped_one_saves(directory):
    said = end_after_lines(2, signal.SIGTERM, 2, "--checkpoint", directory, "--resume",
                           "--save-every=100000", "--epochs=500")
    stopped = re.search(r"stopped by a signal in epoch \d+, after step (\d+) \(saved\)", said)
    check(stopped, "SIGTERM must save and say so", said)
    output = run(1, "--checkpoint", directory, "--resume", "--epochs=1")
    check(resumed_from(output)[0] == int(stopped[1]), "it goes on from there", output)


def other_run_is_refused(directory):
    output = run(1, "--checkpoint", directory, code=1, restarts=0)
    check("contains checkpoints of an earlier run: use --resume" in output, "refused", output)
    output = run(1, "--checkpoint", directory, code=1)
    check("checkpoint needs --resume" in output, "what could not go on is refused at once", output)


def python_reads(directory):
    python = os.environ.get("CPPRUN_PYTHON") or os.path.join(ROOT, ".venv/bin/python")
    probe = [python, "-c", "import safetensors.torch"]
    if not os.path.exists(python) or subprocess.run(probe, capture_output=True).returncode != 0:
        print("Python's safetensors is not here: its reading is not checked")
        return
    script = ("import sys, safetensors, safetensors.torch\n"
              "print(safetensors.torch.load_file(sys.argv[1])['state.model.body.0.weight'].shape)\n"
              "print('step', safetensors.safe_open(sys.argv[1], 'pt').metadata()['step'])\n")
    read = subprocess.run([python, "-c", script, newest(directory)], capture_output=True, text=True,
                          timeout=WAIT_SECONDS_MAX, check=False)
    check(read.stdout == "torch.Size([16, 1, 3, 3])\nstep 92\n",
          "Python must read the checkpoint", read.stdout + read.stderr)


def main():
    expected = epochs_of(run(2))
    with tempfile.TemporaryDirectory() as parent:
        directory = os.path.join(parent, "killed")
        killed_rank_resumes(directory, expected)
        python_reads(directory)
        other_run_is_refused(directory)
        damaged_one_is_passed_over(directory)
        other_world_size_goes_on(directory)
        stopped_one_saves(os.path.join(parent, "stopped"))
        killed_while_saving_leaves_whole_ones(os.path.join(parent, "saving"))
    print("digits: " + expected[-1] + ", killed or not")


main()

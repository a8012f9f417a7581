# SPDX-License-Identifier: BSD-3-Clause
"""The usual worker: writes its start-up environment into $TOLD, and does what its arguments say.

say=TEXT       prints TEXT and the rank, on both streams
fail=RANK:CODE ends with CODE if it is RANK and this is the first attempt
always=RANK:CODE  the same in every attempt
kill=RANK      ends by SIGKILL if it is RANK
until=RANK     sleeps for two seconds if it is RANK, as a peer that has work to do
json=RANK:TEXT writes TEXT into its error file if it is RANK, and fails with 1
child          leaves a child behind that sleeps
stubborn       ignores SIGTERM
hold           waits to be ended
"""

import glob
import json
import os
import signal
import subprocess
import sys
import time

rank = int(os.environ["RANK"])
restart = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
told = f"{os.environ['TOLD']}/{restart}.{rank}"


def tell(name, value):
    with open(f"{told}.draft", "w") as file:
        file.write(value)
    os.rename(f"{told}.draft", f"{told}.{name}")


def terminated(number, frame):
    tell(signal.Signals(number).name, "")
    sys.exit(0)


def await_the_others():
    """So that no worker is ended before it has written its record."""
    workers = int(os.environ["WORLD_SIZE"])
    for _ in range(500):
        if len(glob.glob(f"{os.environ['TOLD']}/{restart}.*.json")) == workers:
            return
        time.sleep(0.01)


words = sys.argv[1:]
for name in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
    signal.signal(name, terminated)
if "stubborn" in words:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "child" in words:
    subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
report = {"rank": rank, "restart": restart, "argv": words, "env": dict(os.environ),
          "forked": "wsgiref" in sys.modules}
tell("json", json.dumps(report))

for word in words:
    verb, _, rest = word.partition("=")
    who, _, what = rest.partition(":")
    if verb == "say":
        # In one write each: under python -u, print() makes two, and two workers share a console.
        sys.stdout.write(f"{rest} said {rank}\n")
        sys.stdout.flush()
        sys.stderr.write(f"{rest} said {rank} aloud\n")
        sys.stderr.flush()
    elif verb == "fail" and rank == int(who) and restart == 0:
        await_the_others()
        sys.exit(int(what))
    elif verb == "always" and rank == int(who):
        sys.exit(int(what))
    elif verb == "kill" and rank == int(who):
        os.kill(os.getpid(), signal.SIGKILL)
    elif verb == "json" and rank == int(who):
        with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
            file.write(what)
        sys.exit(1)
    elif verb == "until" and rank == int(who):
        time.sleep(2)
    elif verb == "hold":
        while True:
            time.sleep(600)

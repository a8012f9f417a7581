# SPDX-License-Identifier: BSD-3-Clause
"""Cases about the end of a job: codes, reports, error files, signals, restarts, leftover
processes."""

import json
import signal

from cases import Case, Differs, both, code, files, lines, none_left, refused, report, variables

TELL = "{workers}/tell.py"
LOGS = "--log-dir={dir}/logs"
TWO = "--nproc-per-node=2"
OWN_CODE = "the exit code is that of the root cause"
STOPPED = "asked to stop is 128 + the signal, as every shell has it"
HINT = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
NESTED = json.dumps({"message": {"message": "ValueError: no such data", "extraInfo": {
    "py_callstack": "Traceback:\n  line 7", "timestamp": "1700000000"}}})
FLAT = json.dumps({"message": "no such data", "timestamp": 1700000000})


def left_error_file(run):
    path = run.directory / "agent_error.json"
    return {"agent's error file": json.loads(path.read_text()) if path.exists() else None}


def attempts(run):
    return {"attempts": [(each["restart"], each["rank"]) for each in run.workers()]}


def attempts_of_rank_0(run):
    """For cases in which the others may be ended before they have written their record."""
    return {"attempts": [each["restart"] for each in run.workers() if each["rank"] == 0]}


def received(run):
    """The signals that the workers report."""
    return {"signals": sorted(path.name for path in run.told.glob("*.SIG*"))}


def after_start(number, workers=2):
    def during(run):
        run.wait_for("0.*.json", workers)
        run.signal(number)

    return during


def failed(name, *words, cpprun_code, look, differs=None, **more):
    """Two workers, of which one fails; torchrun's own code is 1 then."""
    differs = dict(differs or {})
    if cpprun_code != 1:
        differs["exit"] = Differs(1, cpprun_code, OWN_CODE)
    return Case(name, [LOGS, TWO, TELL, *words], both(code, none_left, look), differs=differs,
                **more)


CASES = [
    Case("all workers succeed", [TWO, TELL], both(code, none_left)),
    failed("a worker exits with a code", "fail=1:3", "hold", cpprun_code=3,
           look=report("title", "time", "rank", "exitcode", "error_file")),
    failed("a worker is killed", "kill=0", "hold", cpprun_code=137,
           look=report("time", "rank", "exitcode", "error_file")),
    failed("two workers fail, the first is the cause", "always=1:4", cpprun_code=4,
           look=report("rank", "exitcode")),
    failed("without an error file the report says what it can", "fail=0:1", "hold", cpprun_code=1,
           look=report("traceback"), differs={
               "report: traceback": Differs(HINT, "exited with code 1",
                                            "what happened, and not a link")}),
    failed("an error file of the record decorator", f"json=1:{NESTED}", "hold", cpprun_code=1,
           look=both(left_error_file, report("rank", "exitcode", "error_file"), files),
           env={"TORCHELASTIC_ERROR_FILE": "{dir}/agent_error.json"}),
    failed("an error file of the flat kind", f"json=0:{FLAT}", "hold", cpprun_code=1,
           look=both(left_error_file, report("rank", "exitcode", "error_file")),
           env={"TORCHELASTIC_ERROR_FILE": "{dir}/agent_error.json"}),
    failed("an error file full of garbage", "json=1:garbage", "hold", cpprun_code=1,
           look=report("rank"), differs={
               "report: rank": Differs(None, "1 (local_rank: 1)",
                                       "garbage is reported as such, the report still exists")}),
    Case("a missing program", ["--no-python", "no-such-program"], refused,
         differs={"exit": Differs(1, 2, "an error is found before anything starts")}),
    Case("a missing script", ["no_such_script.py"], refused,
         differs={"exit": Differs(1, 2, "an error is found before anything starts")}),
    Case("one worker ends early, the others continue", [TWO, TELL, "always=0:0", "say=x"],
         both(code, lines)),
    Case("a restart", [LOGS, "-r1", TWO, "--max-restarts=2", TELL, "say=x", "fail=1:3"],
         both(code, attempts, files, none_left,
              variables("TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS",
                        "TORCHELASTIC_ERROR_FILE"))),
    Case("restarts run out", [LOGS, TWO, "--max-restarts=1", TELL, "always=0:5", "hold"],
         both(code, attempts_of_rank_0, report("rank", "exitcode"), none_left),
         differs={"exit": Differs(1, 5, OWN_CODE)}),
    Case("TERM to the launcher", [TWO, TELL, "hold"], both(code, received, none_left),
         differs={"exit": Differs(1, 143, STOPPED)}, during=after_start(signal.SIGTERM)),
    Case("INT to the launcher", [TWO, TELL, "hold"], both(code, none_left),
         differs={"exit": Differs(1, 130, STOPPED)}, during=after_start(signal.SIGINT)),
    Case("a worker that ignores TERM gets the grace period",
         ["--shutdown-timeout=1", TELL, "stubborn", "hold"], both(code, none_left),
         differs={"exit": Differs(1, 143, STOPPED)}, during=after_start(signal.SIGTERM, 1)),
    Case("KILL to the launcher", [TWO, TELL, "hold"], both(code, none_left),
         differs={"left over": Differs("processes", "none",
                                       "cpprun's watchdog ends the workers")},
         during=after_start(signal.SIGKILL)),
    Case("a failed worker's children", [TELL, "child", "fail=0:1"], both(code, none_left),
         differs={"left over": Differs("processes", "none", "no child of a worker holds a GPU")}),
    Case("the children of a worker that succeeded", [TELL, "child"], both(code, none_left),
         differs={"left over": Differs("processes", "none", "no child of a worker holds a GPU")}),
]

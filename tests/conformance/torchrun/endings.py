# SPDX-License-Identifier: BSD-3-Clause
"""Cases about how a job ends: codes, reports, error files, signals, restarts, who is left."""

import json
import signal

from cases import Case, Differs, both, code, files, lines, nobody_left, refused, report, variables

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
    """Where the others may be ended before they have told anything."""
    return {"attempts": [each["restart"] for each in run.workers() if each["rank"] == 0]}


def heard(run):
    """Which signals the workers say that they were sent."""
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
    return Case(name, [LOGS, TWO, TELL, *words], both(code, nobody_left, look), differs=differs,
                **more)


CASES = [
    Case("everybody ends well", [TWO, TELL], both(code, nobody_left)),
    failed("a worker exits with a code", "fail=1:3", "hold", cpprun_code=3,
           look=report("title", "time", "rank", "exitcode", "error_file")),
    failed("a worker is killed", "kill=0", "hold", cpprun_code=137,
           look=report("time", "rank", "exitcode", "error_file")),
    failed("two fail, the first is the cause", "always=1:4", cpprun_code=4,
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
                                       "garbage is told as such, and the report is still there")}),
    Case("a program that is not there", ["--no-python", "no-such-program"], refused,
         differs={"exit": Differs(1, 2, "a mistake is seen before anything starts")}),
    Case("a script that is not there", ["no_such_script.py"], refused,
         differs={"exit": Differs(1, 2, "a mistake is seen before anything starts")}),
    Case("one ends early, the others go on", [TWO, TELL, "always=0:0", "say=x"],
         both(code, lines)),
    Case("a restart", [LOGS, "-r1", TWO, "--max-restarts=2", TELL, "say=x", "fail=1:3"],
         both(code, attempts, files, nobody_left,
              variables("TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS",
                        "TORCHELASTIC_ERROR_FILE"))),
    Case("restarts run out", [LOGS, TWO, "--max-restarts=1", TELL, "always=0:5", "hold"],
         both(code, attempts_of_rank_0, report("rank", "exitcode"), nobody_left),
         differs={"exit": Differs(1, 5, OWN_CODE)}),
    Case("TERM to the launcher", [TWO, TELL, "hold"], both(code, heard, nobody_left),
         differs={"exit": Differs(1, 143, STOPPED)}, during=after_start(signal.SIGTERM)),
    Case("INT to the launcher", [TWO, TELL, "hold"], both(code, nobody_left),
         differs={"exit": Differs(1, 130, STOPPED)}, during=after_start(signal.SIGINT)),
    Case("a worker that ignores TERM has its grace",
         ["--shutdown-timeout=1", TELL, "stubborn", "hold"], both(code, nobody_left),
         differs={"exit": Differs(1, 143, STOPPED)}, during=after_start(signal.SIGTERM, 1)),
    Case("KILL to the launcher", [TWO, TELL, "hold"], both(code, nobody_left),
         differs={"left over": Differs("processes", "nobody",
                                       "whoever ends the launcher ends the workers")},
         during=after_start(signal.SIGKILL)),
    Case("a failed worker's children", [TELL, "child", "fail=0:1"], both(code, nobody_left),
         differs={"left over": Differs("processes", "nobody", "no child of a worker holds a GPU")}),
    Case("children of a worker that ended well", [TELL, "child"], both(code, nobody_left),
         differs={"left over": Differs("processes", "nobody", "no child of a worker holds a GPU")}),
]

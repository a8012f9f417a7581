# SPDX-License-Identifier: BSD-3-Clause
# Counts test cases, not test programs: reads CTest's list of failed tests and its log of one run and
# prints "passed N", "failed N", one "skip WHY" for each case that could not run here, and one
# "bad WHO" for each program with failures: also if it succeeded but a copy of it failed.
#
#   awk -v suite=NAME -f tally.awk LastTestsFailed.log LastTest.log…
#
# A program that is in two logs ran again after it had failed: the later run counts, and if that one
# passed an "again WHO" says so.
#
# A program that says how many cases it ran is believed (doctest's closing line, unittest's
# "Ran N tests"); any other program is one case. A case that cannot run here prints a line
# "skipped: REASON" and returns; it then counts as skipped and not as passed. A program that CTest
# calls failed counts as a failure even when its own count knows of none: it crashed or ran too long.

FILENAME ~ /LastTestsFailed/ { sub(/^[0-9]+:/, ""); failed_names[$0] = 1; next }

/^[0-9]+\/[0-9]+ Test: / {
  close_program()
  name = $0
  sub(/^[0-9]+\/[0-9]+ Test: /, "", name)
  inside = 1
  next
}
!inside { next }

# By itself, or as doctest prints a MESSAGE: FILE:LINE: MESSAGE: skipped: REASON
/^([^ ]+: MESSAGE: )?skipped: / {
  reasons[++reason_count] = substr($0, index($0, "skipped: ") + 9)
  next
}

# [doctest] test cases:  5 |  4 passed | 1 failed | 0 skipped
/^\[doctest\] test cases:/ {
  counted = 1
  for (i = 1; i < NF; ++i) {
    if ($(i + 1) == "passed") cases_passed += $i
    if ($(i + 1) == "failed") cases_failed += $i
  }
  next
}

# unittest, when it is verbose: test_queues (…) ... skipped 'this torch has none'
/ \.\.\. skipped / {
  reason = $0
  sub(/.* \.\.\. skipped /, "", reason)
  reasons[++reason_count] = reason
  ++told
  next
}
# Ran 12 tests in 0.5s … FAILED (failures=1, errors=2, skipped=3)
/^Ran [0-9]+ tests? in / { counted = unittest = 1; cases_passed += $2; next }
unittest && /^(OK|FAILED)/ {
  bad = number_after("failures=") + number_after("errors=")
  cases_failed += bad
  skipped = number_after("skipped=")
  cases_passed -= bad + skipped
  for (; told < skipped; ++told) reasons[++reason_count] = "by the test program itself"
  told = 0
  next
}

END {
  close_program()
  for (p = 1; p <= program_count; ++p) {
    who = programs[p]
    passed += passed_of[who]
    failed += failed_of[who]
    if (failed_of[who] > 0) print "bad " suite ", " who ": " failed_of[who] " failed"
    if (failed_of[who] == 0 && runs_of[who] > 1) print "again " suite ", " who
    for (i = 1; i <= reasons_of[who]; ++i) print "skip " suite ", " who ": " reason_of[who, i]
  }
  print "passed " passed + 0
  print "failed " failed + 0
}

function number_after(word) {
  return match($0, word "[0-9]+") ? substr($0, RSTART + length(word), RLENGTH - length(word)) + 0 : 0
}

function close_program(i) {
  if (name == "") return
  if (!counted && reason_count == 0 && !(name in failed_names)) cases_passed = 1
  # doctest counts a case that returned early as passed.
  if (counted && !unittest) cases_passed -= reason_count
  if (cases_passed < 0) cases_passed = 0
  if ((name in failed_names) && cases_failed == 0) cases_failed = 1
  if (runs_of[name]++ == 0) programs[++program_count] = name
  passed_of[name] = cases_passed
  failed_of[name] = cases_failed
  reasons_of[name] = reason_count
  for (i = 1; i <= reason_count; ++i) reason_of[name, i] = reasons[i]
  name = ""
  inside = counted = unittest = told = cases_passed = cases_failed = reason_count = 0
}

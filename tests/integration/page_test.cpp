// SPDX-License-Identifier: BSD-3-Clause
// The page in a real Chromium, with real jobs: what a person would see of them. Without Chromium
// these tests print the reason and skip.

#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tests/integration/browser.h"
#include "tests/integration/command.h"
#include "tests/integration/directory.h"

namespace page_test {

using namespace cpprun::integration;
using nlohmann::json;

namespace {

// Two nodes with two workers each, which print their pids and stay.
Words node(int rank, int port, const Words& program = {worker(), "pid", "hang"},
           const std::string& job = "seen") {
  Words words = {"--nnodes=2",
                 "--nproc-per-node=2",
                 "--rdzv-id=" + job,
                 "--max-restarts=3",
                 "--no-python",
                 "--node-rank=" + std::to_string(rank),
                 "--master-addr=127.0.0.1",
                 "--master-port=" + std::to_string(port)};
  words.insert(words.end(), program.begin(), program.end());
  return with_cpprun(words);
}

// Trains two ranks of 5,000 steps from step 1,200 on, and reports two metrics, one of them NaN.
// <cpprun/heartbeat_file.h> describes the file.
constexpr std::string_view training = R"(
import mmap, os, struct, sys, time
rank = int(os.environ["RANK"])
file = mmap.mmap(os.open(os.environ["CPPRUN_HEARTBEAT_FILE"], os.O_RDWR), 264)
struct.pack_into("8sIii", file, 0, b"CPPRUNHB", 2, rank, os.getpid())
struct.pack_into("I", file, 20, int(time.monotonic()))
struct.pack_into("Q", file, 56, 1000)
struct.pack_into("=Q16sd16sd", file, 64, 5000, b"loss", 0.25 + rank, b"grad_norm", float("nan"))
print("epoch 1 of rank %d" % rank, file=sys.stderr, flush=True)
print("pid of rank %d: %d" % (rank, os.getpid()), flush=True)
step = 1200
while True:
    step += 1
    struct.pack_into("QqQ", file, 24, step, time.monotonic_ns(), step)
    time.sleep(0.1)
)";

std::string page_at(int port) {
  return "http://127.0.0.1:" + std::to_string(port) + "/";
}

pid_t pid_of(const Command& command, int rank) {
  const std::string begin = "pid of rank " + std::to_string(rank) + ": ";
  const auto at = command.out().rfind(begin);
  REQUIRE(at != std::string::npos);
  return static_cast<pid_t>(std::stol(command.out().substr(at + begin.size())));
}

double milliseconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

std::string text_of(Browser& browser, const std::string& selector) {
  return browser.value_of("document.querySelector('" + selector + "').textContent")
      .get<std::string>();
}

const std::string runs = "document.getElementById('sentence').textContent.startsWith('Running')";
const std::string four_run = "document.querySelectorAll('#grid i.running').length === 4";

}  // namespace

TEST_CASE("a killed worker is on the page within a second, with its cause") {
  if (const auto why = no_browser(); !why.empty()) return skip(why);
  const int port = free_port();
  Command first(node(0, port));
  Command second(node(1, port));
  first.expect_out("\n", 2);
  second.expect_out("\n", 2);
  Browser browser;
  browser.open(page_at(port));
  browser.until(runs + " && " + four_run);
  browser.until("document.getElementById('link').textContent === 'live'");
  CHECK(text_of(browser, "#jobs").starts_with("seen"));

  browser.look_out_for("document.querySelector('#rounds .failed') !== null");
  const double killed = milliseconds_now();
  ::kill(pid_of(second, 3), SIGKILL);
  const double shown = browser.seen() - killed;
  const double again =
      browser.until(runs + " && document.querySelectorAll('#rounds tr').length === 2") - killed;
  std::printf("after a kill the page shows the failure in %.0f ms, the next round in %.0f ms\n",
              shown, again);
  // The requirement is a second; two busy cores may need more once.
  CHECK(shown < 5000);
  const std::string broke = text_of(browser, "#rounds .failed");
  CHECK(contains(broke, "rank 3 on "));
  CHECK(contains(broke, "SIGKILL"));
  CHECK(browser.value_of("document.querySelectorAll('#timeline .failed').length") == 1);

  first.signal(SIGTERM);
  first.wait();
  second.wait();
  browser.until("document.getElementById('link').classList.contains('lost')");
  CHECK(contains(text_of(browser, "#link"), "connection lost; last heard"));
  Command third(node(0, port));
  Command fourth(node(1, port));
  browser.until("document.getElementById('link').textContent === 'live'");
  browser.until(runs + " && " + four_run);
  third.signal(SIGTERM);
  third.wait();
  fourth.wait();
}

TEST_CASE("cpprunctl view makes a page of a report, which shows the failure without a server") {
  const Directory directory;
  const std::string report = directory.path() + "/report.json";
  const auto view = [&](const Words& words) {
    Words all = {from_build("CPPRUNCTL"), "view"};
    all.insert(all.end(), words.begin(), words.end());
    return run(all);
  };
  const std::string script =
      "test $RANK = 1 || exec sleep 1000; echo 'a </p><script>document.title=1</script>' >&2; exit "
      "7";
  CHECK(run(with_cpprun({"--standalone", "--nproc-per-node=2", "--max-restarts=1", "--no-python",
                         "--report=" + report, "sh", "-c", script}))
            .code == 7);
  const Ended viewed = view({report});
  CHECK(viewed.out == "wrote " + directory.path() + "/report.html; open it in a browser\n");
  CHECK(viewed.code == 0);
  CHECK(contains(view({report, "-o", "-"}).out, "<!DOCTYPE html>"));
  const std::string link = directory.path() + "/link.html";
  REQUIRE(::symlink(report.c_str(), link.c_str()) == 0);
  for (const std::string& same : {report, directory.path() + "/./report.json", link}) {
    const Ended itself = view({report, "--output=" + same});
    CHECK(itself.code == 2);
    CHECK(contains(itself.err, " is the report itself; use --output FILE"));
  }
  CHECK(view({report}).code == 0);  // once more, over the existing page
  const std::string of_node = directory.write("run.json.node1", "{}");
  CHECK(run({"cp", report, of_node}).code == 0);
  directory.write("run.json.node1.html", "another program's");
  CHECK(
      contains(view({of_node}).err, "run.json.node1.html exists, and is not the page of a report"));
  CHECK(contains(view({report, "-o", "/dev/full"}).err, "cannot write /dev/full: No space left"));
  CHECK(contains(view({directory.path() + "/report.html"}).err, "not a report of cpprun"));
  CHECK(contains(view({directory.path() + "/none"}).err, "No such file or directory"));
  CHECK(contains(view({directory.path()}).err, ": not a regular file"));

  if (const auto why = no_browser(); !why.empty()) return skip(why);
  Browser browser;
  browser.open("file://" + directory.path() + "/report.html");
  browser.until("document.getElementById('sentence').textContent.startsWith('\u2717 Ended')");
  CHECK(contains(text_of(browser, "#sentence"), "exit code 7: rank 1 on "));
  CHECK(contains(text_of(browser, "#result"), "a </p><script>document.title=1</script>"));
  CHECK(contains(text_of(browser, "#others"), "told_to_end (consequence)"));
  browser.value_of("document.dispatchEvent(new Event('visibilitychange'))");
  browser.value_of("new Promise(done => requestAnimationFrame(done)).then(() => 0)");
  CHECK(text_of(browser, "#link").starts_with("report of "));
  CHECK(browser.value_of("document.querySelectorAll('#rounds tr').length") == 2);
  CHECK(browser.value_of("document.title").get<std::string>().ends_with("over, exit code 7"));
  CHECK(browser.value_of("getComputedStyle(document.getElementById('events')).height") == "auto");
}

TEST_CASE("the page of a cpprund shows the leader, the standby and transfers of leadership") {
  if (const auto why = no_browser(); !why.empty()) return skip(why);
  if (Command({"/bin/sh", "-c", "command -v etcd"}).wait().code != 0) {
    return skip("etcd is not installed (Debian's etcd-server)");
  }
  const Directory temporary;  // for etcd, and for the sockets by which cpprunctl finds them
  const std::string etcd_at = "http://127.0.0.1:" + std::to_string(free_port());
  const std::string peer_at = "http://127.0.0.1:" + std::to_string(free_port());
  Command etcd({"/usr/bin/env", "etcd", "--data-dir=" + temporary.path() + "/etcd",
                "--log-level=warn", "--listen-client-urls=" + etcd_at,
                "--advertise-client-urls=" + etcd_at, "--listen-peer-urls=" + peer_at,
                "--initial-advertise-peer-urls=" + peer_at,
                "--initial-cluster=default=" + peer_at});
  const Options options{.variables = {{"TMPDIR", temporary.path()}, {"XDG_RUNTIME_DIR", ""}}};
  const std::string first_at = "127.0.0.1:" + std::to_string(free_port());
  const std::string second_at = "127.0.0.1:" + std::to_string(free_port());
  const auto daemon = [&etcd_at](const std::string& at, const std::string& name) {
    const std::string port = at.substr(at.find(':') + 1);
    return Words{from_build("CPPRUND"), "--host=127.0.0.1", "--port=" + port,
                 "--name=" + name,      "--no-secret",      "--etcd=" + etcd_at};
  };
  Command first(daemon(first_at, "first"), options);
  first.expect_err("this cpprund is the leader");
  Browser browser;
  browser.open("http://" + first_at + "/");
  const std::string role = "document.getElementById('role').textContent";
  browser.until(role + ".includes('has been the leader for')");
  CHECK(contains(text_of(browser, "#warnings"), "no standby"));
  Command second(daemon(second_at, "second"), options);
  const std::string kept = "document.getElementById('kept').textContent";
  browser.until(kept + ".includes('is a standby: in sync')");
  CHECK(contains(text_of(browser, "#role"), "“first” at " + first_at));
  CHECK(contains(text_of(browser, "#role"), "has been the leader for"));
  CHECK(contains(text_of(browser, "#kept"), "“second” at " + second_at));
  if (const char* const picture = std::getenv("CPPRUN_PICTURE")) browser.take_picture(picture);

  // By its address: other daemons of this user may be here.
  Command hand_over({from_build("CPPRUNCTL"), "--address=" + first_at, "handover"}, options);
  const Ended handed = hand_over.wait();
  CHECK_MESSAGE(handed.code == 0, handed.err);
  browser.until(role + ".includes('is a standby, in sync')");
  CHECK(contains(text_of(browser, "#role a"), "“second” at " + second_at));
  CHECK(contains(text_of(browser, "#kept"), "“second” became the leader, replacing “first”"));
  browser.open("http://" + second_at + "/");
  browser.until(role + ".includes('“second” at " + second_at + "')");
  CHECK(contains(text_of(browser, "#role"), "has been the leader for"));
  for (Command* const each : {&first, &second}) {
    each->signal(SIGTERM);
    CHECK(each->wait().code == 0);
  }
  etcd.signal(SIGKILL);
  (void)etcd.wait();
}

TEST_CASE("keys move through the grid, the time accounting adds up, and events are filtered") {
  if (const auto why = no_browser(); !why.empty()) return skip(why);
  const int port = free_port();
  Command first(node(0, port));
  Command second(node(1, port));
  first.expect_out("\n", 2);
  second.expect_out("\n", 2);
  Browser browser;
  browser.open(page_at(port));
  browser.until(runs + " && " + four_run);
  browser.value_of("document.querySelector('#grid i').focus()");
  const auto shows = [](int rank, const Command& of) {
    return "document.getElementById('node').textContent.startsWith('rank " + std::to_string(rank) +
           ", pid " + std::to_string(pid_of(of, rank)) + ", running')";
  };
  browser.until(shows(0, first));
  browser.press("ArrowRight");
  browser.until(shows(1, first));
  browser.press("ArrowRight");
  browser.until(shows(2, second));
  browser.press("ArrowUp");
  browser.until(shows(0, first));
  browser.value_of("document.querySelectorAll('#grid i')[3].click()");
  browser.until(shows(3, second));
  CHECK(browser.value_of("document.querySelectorAll('#ranks tbody tr:not(:has(.line))').length") ==
        2);

  // Nine accounts, each with a sign, a name and a share; the shares are rounded.
  const json shares = browser.value_of(
      "[...document.querySelectorAll('#shares li')].map(li => parseFloat(/([0-9.]+) %/.exec("
      "li.textContent)[1]))");
  REQUIRE(shares.size() == 9);
  double sum = 0;
  for (const json& share : shares) sum += share.get<double>();
  CHECK(sum == doctest::Approx(100).epsilon(0.005));
  CHECK(browser.value_of("[...document.querySelectorAll('#shares b')].every(b => b.textContent)"));
  CHECK(text_of(browser, "#shares").find("waiting for nodes") != std::string::npos);

  const auto all = browser.value_of("document.querySelectorAll('#events tbody tr').length");
  CHECK(all.get<int>() >= 4);
  browser.value_of(
      "document.getElementById('filter').value = 'WORKER_started rank';"
      "document.getElementById('filter').dispatchEvent(new Event('input')); true");
  browser.until("document.getElementById('told').textContent.includes(' of ')");
  CHECK(
      browser.value_of("[...document.querySelectorAll('#events tbody tr')].every(row =>"
                       " row.textContent.includes('worker_started'))"));
  CHECK(browser.value_of("document.querySelectorAll('#events tbody tr').length") == 2);
  first.signal(SIGTERM);
  first.wait();
  second.wait();
}

TEST_CASE("on a narrow screen nothing exceeds the page, and wide tables scroll by themselves") {
  if (const auto why = no_browser(); !why.empty()) return skip(why);
  const int port = free_port();
  Command first(node(0, port));
  Command second(node(1, port));
  Browser browser;
  browser.show(360, 740, /*dark=*/true);
  browser.open(page_at(port));
  browser.until(runs + " && " + four_run);
  browser.until("document.querySelector('#events tbody tr') !== null");
  CHECK(browser.value_of("document.documentElement.scrollWidth") == 360);
  const std::string paper = "getComputedStyle(document.body).backgroundColor";
  const json dark = browser.value_of(paper);
  browser.show(360, 740, /*dark=*/false);
  CHECK(browser.value_of(paper) != dark);
  first.signal(SIGTERM);
  first.wait();
  second.wait();
}

TEST_CASE("the page shows the progress and the metrics of a job, and keeps its result") {
  if (const auto why = no_browser(); !why.empty()) return skip(why);
  const Directory directory;
  const int port = free_port();
  Command command(with_cpprun({"--nnodes=1", "--nproc-per-node=2", "--rdzv-id=seen",
                               "--master-addr=127.0.0.1", "--master-port=" + std::to_string(port),
                               directory.write("train.py", training)}));
  command.expect_out("\n", 2);
  Browser browser;
  browser.show(360, 740, /*dark=*/false);
  browser.open(page_at(port));
  const std::string pace = "document.getElementById('pace').textContent";
  browser.until(pace + ".includes(' of 5\\u202f000 (')");
  browser.until(pace + ".includes(' steps/s') && " + pace + ".includes(' left')");
  CHECK(browser.value_of(pace + ".includes('checkpoint at step 1\\u202f000')"));
  const json bar = browser.value_of(
      "[document.getElementById('track')].map(track => [track.getAttribute('aria-valuemax'),"
      " Number(track.getAttribute('aria-valuenow')) > 1200])[0]");
  CHECK(bar == json::array({"5000", true}));

  browser.until("document.querySelectorAll('#plots li').length === 2");
  browser.until(
      "[...document.querySelectorAll('#plots path')].some("
      "path => path.getAttribute('d').split('L').length > 3)");
  const json plots = browser.value_of(
      "[...document.querySelectorAll('#plots li')].map(card =>"
      " [card.querySelector('h3').textContent, card.querySelector('b').textContent,"
      " card.querySelector('b').className, card.querySelector('span').textContent])"
      ".sort((a, b) => a[1] < b[1] ? -1 : 1)");
  CHECK(plots == json::array({json::array({"loss", "0.25", "", "rank 0"}),
                              json::array({"grad_norm", "NaN", "failed", "rank 0"})}));
  CHECK(browser.value_of("document.querySelector('#plots svg[aria-label^=loss]').ariaLabel") ==
        "loss since this page was opened: min 0.25, max 0.25, last 0.25");
  browser.value_of("document.querySelector('#grid i').click()");
  browser.until("document.querySelector('#ranks .line') !== null");
  CHECK(text_of(browser, "#ranks .line") == "epoch 1 of rank 0");
  CHECK(browser.value_of("document.documentElement.scrollWidth") == 360);

  ::kill(pid_of(command, 1), SIGKILL);
  command.wait();
  browser.until("document.getElementById('link').className === 'lost over'");
  CHECK(contains(text_of(browser, "#link"), "the job is over; connection lost"));
  CHECK(contains(text_of(browser, "#sentence"), "Ended with exit code 137: "));
  CHECK_FALSE(browser.value_of("document.getElementById('result').hidden").get<bool>());
  const std::string result = text_of(browser, "#result");
  CHECK(contains(result, "Root failure: rank 1 on "));
  CHECK(contains(result, "SIGKILL"));
  CHECK(contains(result, "1 other rank was stopped"));
  CHECK(contains(text_of(browser, "#rounds .root"), "rank 1 on "));
  CHECK(contains(text_of(browser, "#rounds .soft"), "1 other rank was stopped"));
  browser.until("document.querySelector('#events td.soft') !== null");
  CHECK(contains(text_of(browser, "#events td.root:last-child"), "rank 1 on "));
  CHECK(browser.value_of(pace + ".includes(' of 5\\u202f000 (')"));
}

TEST_CASE("the page shows the command of the job, and stops it for the user who started it") {
  if (const auto why = no_browser(); !why.empty()) return skip(why);
  const int port = free_port();
  Command command(with_cpprun({"--nnodes=1", "--rdzv-id=seen", "--master-addr=127.0.0.1",
                               "--master-port=" + std::to_string(port), "--no-python", worker(),
                               "pid", "hang", "--api-key=s3cret"}));
  command.expect_out("pid of rank 0");
  Browser browser;
  browser.open(page_at(port));
  browser.until("!document.getElementById('orders').hidden");
  CHECK(contains(text_of(browser, "#about"), "integration_worker pid hang --api-key=…"));
  browser.value_of("window.confirm = () => false; document.getElementById('stop').click()");
  CHECK(text_of(browser, "#said").empty());
  browser.value_of("window.confirm = () => true; document.getElementById('stop').click()");
  const auto ended = command.wait();
  CHECK(ended.code == 128 + SIGTERM);
  CHECK(contains(ended.err, "stopped the job: from the status page"));
  browser.until("document.getElementById('orders').hidden");
}

TEST_CASE("the button Stacks shows the verdict and the groups, and why it cannot") {
  if (const auto why = no_browser(); !why.empty()) return skip(why);
  const int port = free_port();
  Command first(node(0, port));
  Command second(node(1, port));
  first.expect_out("\n", 2);
  second.expect_out("\n", 2);
  Browser browser;
  browser.open(page_at(port));
  browser.until(runs + " && " + four_run + " && !document.getElementById('orders').hidden");
  REQUIRE(::kill(pid_of(second, 3), SIGSTOP) == 0);
  run({"sh", "-c", "until grep -q '^State:.T' /proc/$0/status; do :; done",
       std::to_string(pid_of(second, 3))});
  CHECK(browser.value_of("document.getElementById('stacks').hidden").get<bool>());
  browser.value_of("document.getElementById('capture').click()");
  browser.until("!document.getElementById('stacks').hidden");
  CHECK(contains(text_of(browser, "#verdict"), "rank 3 is stopped by a signal"));
  const json groups = browser.value_of(
      "[...document.querySelectorAll('#stacks tbody tr')].map(row =>"
      " [...row.cells].slice(0, 2).map(cell => cell.textContent.split(',')[0]))");
  CHECK(groups == json::array({json::array({"3", "stopped"}), json::array({"0-2", "blocked"})}));
  CHECK(text_of(browser, "#said").empty());
  if (const char* const picture = std::getenv("CPPRUN_PICTURE")) browser.take_picture(picture);

  // The server's own rejection.
  browser.value_of(
      "window.ask = window.fetch; window.fetch = (path, options) => ask(path, {...options,"
      " headers: {}}); document.getElementById('capture').click()");
  const std::string said = "document.getElementById('said').textContent";
  browser.until(said + ".startsWith('error: Content-Type must be')");
  // The stacks cannot be fetched, though the command arrived.
  browser.value_of(
      "window.fetch = (path, options) => ask(options ? path : '/api/v1/jobs/other/stacks', "
      "options);"
      " document.getElementById('capture').click()");
  browser.until(said + ".startsWith('error: unknown job ')");
  browser.value_of("window.fetch = ask; true");
  ::kill(pid_of(second, 3), SIGCONT);
  first.signal(SIGTERM);
  first.wait();
  second.wait();
  browser.value_of("document.getElementById('capture').click()");
  browser.until(said + ".startsWith('no response')");
}

TEST_CASE("hostile text of a worker is shown as text") {
  if (const auto why = no_browser(); !why.empty()) return skip(why);
  // U+202E would reverse the rest of the line.
  const std::string message =
      "<script>owned = 1</script><img src=x onerror='owned = 1'>\xE2\x80\xAE txt.exe</td>";
  const std::string script =
      "if [ \"$TORCHELASTIC_RESTART_COUNT\" = 0 ]; then printf '%s' \"$1\" "
      ">\"$TORCHELASTIC_ERROR_FILE\"; exit 3; fi; exec sleep 1000";
  const int port = free_port();
  const Words program = {"sh", "-c", script, "sh", json({{"message", message}}).dump()};
  const std::string job = "<img src=x onerror=owned=1>#&\"'";
  Command first(node(0, port, program, job));
  Command second(node(1, port, program, job));
  Browser browser;
  browser.open(page_at(port));
  browser.until("document.querySelector('#rounds .failed') !== null");
  const std::string words = text_of(browser, "#rounds tr:last-child .words");
  CHECK(contains(words, "<script>owned = 1</script><img src=x onerror='owned = 1'>"));
  CHECK_FALSE(contains(words, "\xE2\x80\xAE"));
  CHECK(text_of(browser, "#jobs a").starts_with(job));
  CHECK(browser.value_of("document.title").get<std::string>().starts_with(job));
  // The link leads to it.
  browser.value_of("document.querySelector('#jobs a').click()");
  browser.until("location.hash.length > 20");
  CHECK(text_of(browser, "#jobs a[aria-current]").starts_with(job));
  CHECK(browser.value_of("document.querySelectorAll('script').length") == 1);
  CHECK(browser.value_of("document.images.length") == 0);
  CHECK(browser.value_of("typeof owned") == "undefined");
  first.signal(SIGTERM);
  first.wait();
  second.wait();
}

}  // namespace page_test

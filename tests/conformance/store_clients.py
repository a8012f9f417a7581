# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's own store clients against cpprund, or against the store of a node that serves them
through its link: clients of another project.

    python store_clients.py PATH_TO_CPPRUND
    python store_clients.py PATH_TO_CPPRUN

Runs with whatever torch this Python imports, from 1.13 on: every operation the client has, with and
without libuv where there is a choice. Exits 77 (skipped) where there is no torch.
"""

import datetime
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

# A client that is closed on purpose needs no C++ stack on the screen.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

try:
    import torch
    from torch.distributed import PrefixStore, TCPStore
except ImportError as error:
    print(f"skipped: no torch in {sys.executable}: {error}")
    sys.exit(77)

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
HAS_CHOICE = VERSION >= (2, 2)  # of the client's own back end
HAS_LISTS = VERSION >= (2, 1)  # append, multi_get, multi_set
PROGRAM = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else ""


def seconds(count):
    return datetime.timedelta(seconds=count)


class Daemon:
    """One cpprund on a port of its own."""

    def __init__(self):
        self.process = subprocess.Popen(
            [PROGRAM, "--host", "127.0.0.1", "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])

    def end(self):
        self.process.terminate()
        _, log = self.process.communicate(timeout=10)
        return self.process.returncode, log


class Node:
    """The second node of a job here: its workers' port, from which all goes to the first node."""

    def __init__(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        first, self.process = (
            subprocess.Popen(
                [PROGRAM, "--nnodes=2", f"--node-rank={rank}", "--master-addr=127.0.0.1",
                 f"--master-port={port}", "--insecure", "--store=local",
                 "--no-python", "sh", "-c", "echo $MASTER_PORT; exec sleep 600"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in (0, 1)
        )
        self.first = first
        self.port = int(self.process.stdout.readline())

    def end(self):
        self.process.terminate()
        _, log = self.process.communicate(timeout=20)
        self.first.communicate(timeout=20)
        # As a shell reports it, or at once after a second signal.
        ended_as_asked = self.process.returncode in (128 + signal.SIGTERM, -signal.SIGTERM)
        return 0 if ended_as_asked else self.process.returncode, log


class StoreClients:
    """Every operation; the classes below say which client is used."""

    use_libuv = None

    def setUp(self):
        self.daemon = Node() if os.path.basename(PROGRAM) == "cpprun" else Daemon()

    def tearDown(self):
        code, log = self.daemon.end()
        self.assertEqual(code, 0, log)

    def client(self, timeout=10):
        choice = {} if self.use_libuv is None else {"use_libuv": self.use_libuv}
        return TCPStore("127.0.0.1", self.daemon.port, 4, False, seconds(timeout), **choice)

    def needs(self, client, name):
        if not hasattr(client, name):
            self.skipTest(f"torch {torch.__version__} has no {name}")

    def needs_queues(self, client):
        self.needs(client, "queue_push")
        if self.use_libuv is False:
            self.skipTest("this client refuses queues without libuv")

    def together(self, count, work):
        """Runs work(index, client) in that many threads, each with a client of its own."""
        failures = []

        def run(index):
            try:
                work(index, self.client(30))
            except Exception as error:  # noqa: BLE001, the main thread reports it
                failures.append(f"{index}: {error}")

        threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            self.assertFalse(thread.is_alive(), "a client hangs")
        self.assertEqual(failures, [])

    def test_set_and_get(self):
        client = self.client()
        client.set("key", "value")
        client.set("key", "another")
        client.set("-odd key/", "")
        self.assertEqual(client.get("key"), b"another")
        self.assertEqual(client.get("-odd key/"), b"")

    def test_any_bytes(self):
        client = self.client()
        everything = bytes(range(256)) * 10
        if VERSION < (2, 0):
            everything = everything.decode("latin1").encode("utf-8")
            client.set("bytes", everything.decode("utf-8"))
        else:
            client.set("bytes", everything)
        self.assertEqual(client.get("bytes"), everything)

    def test_add(self):
        client = self.client()
        self.assertEqual(client.add("n", 5), 5)
        self.assertEqual(client.add("n", -7), -2)
        self.assertEqual(client.get("n"), b"-2")
        client.set("text", "20")
        self.assertEqual(client.add("text", 1), 21)

    def test_add_to_text_ends_only_that_client(self):
        client, other = self.client(), self.client()
        client.set("text", "abc")
        self.assertEqual(client.get("text"), b"abc")
        with self.assertRaises(Exception):
            client.add("text", 1)
        self.assertEqual(other.get("text"), b"abc")

    def test_compare_set(self):
        client = self.client()
        self.assertEqual(client.compare_set("c", "x", "y"), b"x")
        self.assertEqual(client.compare_set("c", "", "one"), b"one")
        self.assertEqual(client.compare_set("c", "one", "two"), b"two")
        self.assertEqual(client.compare_set("c", "one", "three"), b"two")

    def test_check(self):
        client = self.client()
        self.needs(client, "check")
        client.set("a", "1")
        self.assertTrue(client.check(["a"]))
        self.assertFalse(client.check(["a", "b"]))
        self.assertTrue(client.check([]))

    def test_count_and_delete(self):
        client = self.client()
        self.assertEqual(client.num_keys(), 1)  # init/, from connecting
        client.set("a", "1")
        client.set("b", "1")
        self.assertEqual(client.num_keys(), 3)
        self.assertTrue(client.delete_key("a"))
        self.assertFalse(client.delete_key("a"))
        self.assertEqual(client.num_keys(), 2)
        with self.assertRaises(Exception):
            client.set_timeout(seconds(1))
            client.get("a")
        if VERSION >= (2, 1):
            self.assertEqual(client.get("b"), b"1")

    def test_append(self):
        client = self.client()
        self.needs(client, "append")
        client.append("a", "one")
        client.append("a", "two")
        self.assertEqual(client.get("a"), b"onetwo")

    def test_many_keys_at_once(self):
        client = self.client()
        self.needs(client, "multi_get")
        client.multi_set(["a", "b", "c"], ["1", "22", ""])
        self.assertEqual(client.multi_get(["c", "b", "a"]), [b"", b"22", b"1"])
        names = [f"key{index}" for index in range(2000)]
        client.multi_set(names, [f"value{index}" for index in range(2000)])
        self.assertEqual(client.multi_get(names)[1999], b"value1999")

    def test_a_wait_is_answered_by_the_set(self):
        waiting, other = self.client(), self.client()
        late = threading.Timer(0.1, lambda: other.set("late", "value"))
        late.start()
        waiting.wait(["late"], seconds(10))
        self.assertEqual(waiting.get("late"), b"value")
        late.join()

    def test_a_wait_is_answered_by_compare_set(self):
        waiting, other = self.client(), self.client()
        late = threading.Timer(0.1, lambda: other.compare_set("late", "", "value"))
        late.start()
        waiting.wait(["late"], seconds(10))
        late.join()

    def test_a_wait_times_out_and_the_client_continues(self):
        waiting, other = self.client(), self.client()
        start = time.monotonic()
        with self.assertRaises(Exception):
            waiting.wait(["unset"], seconds(1))
        self.assertLess(time.monotonic() - start, 5)
        # A 1.13 client gives up silently. Its next request shows that to the server; upstream's
        # would still answer the wait later, in the place of another answer.
        self.assertEqual(waiting.add("n", 7), 7)
        other.set("unset", "but now")
        self.assertEqual(other.get("unset"), b"but now")
        self.assertEqual(waiting.add("n", 1), 8)

    def test_large_values(self):
        client, other = self.client(30), self.client(30)
        big = "x" * (8 * 1024 * 1024)
        client.set("big", big)
        client.set("bigger", big + big)
        self.assertEqual(len(other.get("big")), len(big))
        self.assertEqual(len(other.get("bigger")), 2 * len(big))
        if HAS_LISTS:
            self.assertEqual([len(v) for v in other.multi_get(["big"] * 3)], [len(big)] * 3)

    def test_prefixes(self):
        client = self.client()
        outer = PrefixStore("outer", client)
        inner = PrefixStore("inner", outer)
        inner.set("key", "value")
        self.assertEqual(client.get("outer/inner/key"), b"value")
        self.assertEqual(inner.add("n", 2), 2)

    def test_queues(self):
        client, other = self.client(), self.client()
        self.needs_queues(client)
        self.assertFalse(client.check(["q"]))
        client.queue_push("q", "one")
        client.queue_push("q", "two")
        self.assertTrue(other.check(["q"]))
        other.wait(["q"])
        self.assertEqual(other.queue_len("q"), 2)
        self.assertEqual(other.queue_pop("q"), b"one")
        self.assertEqual(other.queue_pop("q"), b"two")
        self.assertEqual(other.queue_len("q"), 0)
        with self.assertRaises(Exception):
            other.queue_pop("q", False)
        late = threading.Timer(0.1, lambda: client.queue_push("q", "late"))
        late.start()
        self.assertEqual(other.queue_pop("q"), b"late")
        late.join()

    def test_list_keys(self):
        client = self.client()
        self.needs(client, "list_keys")
        client.set("a", "1")
        client.set("b", "1")
        self.assertEqual(sorted(client.list_keys()), ["a", "b"])

    def test_barrier(self):
        probe = self.client()
        self.needs(probe, "barrier")
        self.together(4, lambda index, client: client.barrier("all", 4))
        with self.assertRaises(Exception):
            probe.barrier("alone", 2, seconds(1))
        self.assertEqual(probe.add("n", 1), 1)

    def test_clone(self):
        client = self.client()
        self.needs(client, "clone")
        client.set("a", "1")
        self.assertEqual(client.clone().get("a"), b"1")

    def test_many_clients_at_once(self):
        def work(index, client):
            for step in range(200):
                client.add("sum", 1)
                client.set(f"{index}/{step}", f"{index * step}")
            for step in range(0, 200, 20):
                other = (index + 1) % 8
                found = client.get(f"{other}/{step}")
                if found != str(other * step).encode():
                    raise AssertionError(f"{found} for {other}/{step}")
            client.add("done", 1)

        self.together(8, work)
        self.assertEqual(self.client().add("sum", 0), 1600)

    def test_all_clients_wait_for_all_others(self):
        def work(index, client):
            client.set(f"here/{index}", "1")
            client.wait([f"here/{other}" for other in range(16)], seconds(30))

        self.together(16, work)

    def test_garbage_on_the_port_affects_no_other_client(self):
        client = self.client()
        hostile = []
        for garbage in (
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01",
            b"\x00\xce\xf7\x85\x3c\x01" + b"\xff" * 16,
            b"\x03" + (2**62).to_bytes(8, "little"),
            b"\x00\xce\xf7\x85\x3c\x01\x05\x00\x00",
        ):
            peer = socket.create_connection(("127.0.0.1", self.daemon.port))
            peer.sendall(garbage)
            hostile.append(peer)
            self.assertEqual(client.add("n", 1), len(hostile))
        for peer in hostile:
            peer.close()

    def test_a_store_that_exits_is_noticed_at_once(self):
        client = self.client(60)
        self.daemon.process.terminate()
        start = time.monotonic()
        with self.assertRaises(Exception):
            client.get("never")
        self.assertLess(time.monotonic() - start, 10)


if HAS_CHOICE:

    class WithLibuv(StoreClients, unittest.TestCase):
        use_libuv = True

    class WithoutLibuv(StoreClients, unittest.TestCase):
        use_libuv = False

else:

    class OldClient(StoreClients, unittest.TestCase):
        pass


if __name__ == "__main__":
    print(f"torch {torch.__version__} in {sys.executable}", flush=True)
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)

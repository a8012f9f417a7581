# SPDX-License-Identifier: BSD-3-Clause
"""A Python program that hosts a store and uses it: store.py LIBRARY

LIBRARY is the path of libcpprun_store.so. Needs only the standard library.
"""
import ctypes
import sys

store = ctypes.CDLL(sys.argv[1])
store.cpprun_store_error.restype = ctypes.c_char_p
store.cpprun_store_serve.restype = ctypes.c_void_p
store.cpprun_store_serve.argtypes = [ctypes.c_char_p, ctypes.c_uint16]
store.cpprun_store_port.restype = ctypes.c_uint16
store.cpprun_store_port.argtypes = [ctypes.c_void_p]
store.cpprun_store_stop.argtypes = [ctypes.c_void_p]
store.cpprun_store_connect.restype = ctypes.c_void_p
store.cpprun_store_connect.argtypes = [ctypes.c_char_p, ctypes.c_uint16, ctypes.c_int64]
store.cpprun_store_disconnect.argtypes = [ctypes.c_void_p]
store.cpprun_store_set.argtypes = [
    ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
store.cpprun_store_get.argtypes = [
    ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64,
    ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t)]
store.cpprun_store_add.argtypes = [
    ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64)]
store.cpprun_store_wait.argtypes = [
    ctypes.c_void_p, ctypes.POINTER(ctypes.c_char_p), ctypes.c_size_t, ctypes.c_int64]
store.cpprun_store_free.argtypes = [ctypes.c_void_p]


def done(outcome):
    """Raises the library's error if the result is neither 0 nor a pointer."""
    if outcome is None or outcome == -1:
        raise RuntimeError(store.cpprun_store_error().decode())
    return outcome


server = done(store.cpprun_store_serve(b"127.0.0.1", 0))
port = store.cpprun_store_port(server)
client = done(store.cpprun_store_connect(b"127.0.0.1", port, 5000))

value, size, visitors = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_int64()
done(store.cpprun_store_set(client, b"greeting", b"hello", 5))
done(store.cpprun_store_get(client, b"greeting", -1, value, size))
done(store.cpprun_store_add(client, b"visitors", 1, visitors))
print(f"{ctypes.string_at(value, size.value).decode()}, visitor {visitors.value}")
store.cpprun_store_free(value)

keys = (ctypes.c_char_p * 2)(b"greeting", b"goodbye")
try:
    done(store.cpprun_store_wait(client, keys, 2, 50))
except RuntimeError as error:
    print(error)

store.cpprun_store_disconnect(client)
store.cpprun_store_stop(server)

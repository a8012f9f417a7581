// SPDX-License-Identifier: BSD-3-Clause

// A Go program that hosts a store and uses it. Set CGO_CFLAGS and CGO_LDFLAGS as pkg-config has them.
package main

// #include <cpprun/store.h>
// #include <stdlib.h>
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"
)

// The error belongs to the thread that made the call, on which the goroutine has to stay.
func checked(call func() bool) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if call() {
		return nil
	}
	return errors.New(C.GoString(C.cpprun_store_error()))
}

func run() error {
	host := C.CString("127.0.0.1")
	defer C.free(unsafe.Pointer(host))
	var server *C.cpprun_store_server
	if err := checked(func() bool {
		server = C.cpprun_store_serve(host, 0)
		return server != nil
	}); err != nil {
		return err
	}
	defer C.cpprun_store_stop(server)
	var client *C.cpprun_store_client
	if err := checked(func() bool {
		client = C.cpprun_store_connect(host, C.cpprun_store_port(server), 5000)
		return client != nil
	}); err != nil {
		return err
	}
	defer C.cpprun_store_disconnect(client)

	greeting, visitors := C.CString("greeting"), C.CString("visitors")
	defer C.free(unsafe.Pointer(greeting))
	defer C.free(unsafe.Pointer(visitors))
	hello := C.CBytes([]byte("hello"))
	defer C.free(hello)
	var value *C.char
	var size C.size_t
	var sum C.int64_t
	if err := checked(func() bool {
		return C.cpprun_store_set(client, greeting, hello, 5) == 0 &&
			C.cpprun_store_get(client, greeting, -1, &value, &size) == 0 &&
			C.cpprun_store_add(client, visitors, 1, &sum) == 0
	}); err != nil {
		return err
	}
	fmt.Printf("%s, visitor %d\n", C.GoStringN(value, C.int(size)), int64(sum))
	C.cpprun_store_free(unsafe.Pointer(value))

	// C code gets an array in C's memory.
	goodbye := C.CString("goodbye")
	defer C.free(unsafe.Pointer(goodbye))
	keys := (**C.char)(C.malloc(2 * C.size_t(unsafe.Sizeof(greeting))))
	defer C.free(unsafe.Pointer(keys))
	list := (*[2]*C.char)(unsafe.Pointer(keys))
	list[0], list[1] = greeting, goodbye
	if err := checked(func() bool { return C.cpprun_store_wait(client, keys, 2, 50) == 0 }); err != nil {
		fmt.Println(err)
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// SPDX-License-Identifier: BSD-3-Clause
// A Rust program that hosts a store and uses it. Link with -lcpprun_store.
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::ptr;

#[repr(C)]
struct Server {
    _private: [u8; 0],
}
#[repr(C)]
struct Client {
    _private: [u8; 0],
}

extern "C" {
    fn cpprun_store_error() -> *const c_char;
    fn cpprun_store_serve(host: *const c_char, port: u16) -> *mut Server;
    fn cpprun_store_port(server: *const Server) -> u16;
    fn cpprun_store_stop(server: *mut Server);
    fn cpprun_store_connect(host: *const c_char, port: u16, timeout_ms: i64) -> *mut Client;
    fn cpprun_store_disconnect(client: *mut Client);
    fn cpprun_store_set(client: *mut Client, key: *const c_char, value: *const c_void,
                        size: usize) -> c_int;
    fn cpprun_store_get(client: *mut Client, key: *const c_char, timeout_ms: i64,
                        value: *mut *mut c_char, size: *mut usize) -> c_int;
    fn cpprun_store_add(client: *mut Client, key: *const c_char, delta: i64,
                        sum: *mut i64) -> c_int;
    fn cpprun_store_wait(client: *mut Client, keys: *const *const c_char, count: usize,
                         timeout_ms: i64) -> c_int;
    fn cpprun_store_free(value: *mut c_void);
}

fn last_error() -> String {
    unsafe { CStr::from_ptr(cpprun_store_error()) }.to_string_lossy().into_owned()
}

struct Store {
    server: *mut Server,
    client: *mut Client,
}

impl Store {
    fn open() -> Result<Store, String> {
        let host = CString::new("127.0.0.1").unwrap();
        let server = unsafe { cpprun_store_serve(host.as_ptr(), 0) };
        if server.is_null() {
            return Err(last_error());
        }
        let client = unsafe { cpprun_store_connect(host.as_ptr(), cpprun_store_port(server), 5000) };
        let store = Store { server, client };
        if client.is_null() { Err(last_error()) } else { Ok(store) }
    }
    fn set(&self, key: &str, value: &[u8]) -> Result<(), String> {
        let key = CString::new(key).map_err(|e| e.to_string())?;
        let data = value.as_ptr() as *const c_void;
        let done = unsafe { cpprun_store_set(self.client, key.as_ptr(), data, value.len()) };
        if done == 0 { Ok(()) } else { Err(last_error()) }
    }
    fn get(&self, key: &str) -> Result<Vec<u8>, String> {
        let key = CString::new(key).map_err(|e| e.to_string())?;
        let (mut value, mut size) = (ptr::null_mut(), 0);
        unsafe {
            if cpprun_store_get(self.client, key.as_ptr(), -1, &mut value, &mut size) != 0 {
                return Err(last_error());
            }
            let bytes = std::slice::from_raw_parts(value as *const u8, size).to_vec();
            cpprun_store_free(value as *mut c_void);
            Ok(bytes)
        }
    }
    fn add(&self, key: &str, delta: i64) -> Result<i64, String> {
        let key = CString::new(key).map_err(|e| e.to_string())?;
        let mut sum = 0;
        let done = unsafe { cpprun_store_add(self.client, key.as_ptr(), delta, &mut sum) };
        if done == 0 { Ok(sum) } else { Err(last_error()) }
    }
    fn wait(&self, keys: &[&str], timeout_ms: i64) -> Result<(), String> {
        let keys: Vec<CString> = keys.iter().map(|key| CString::new(*key).unwrap()).collect();
        let pointers: Vec<*const c_char> = keys.iter().map(|key| key.as_ptr()).collect();
        let done = unsafe {
            cpprun_store_wait(self.client, pointers.as_ptr(), pointers.len(), timeout_ms)
        };
        if done == 0 { Ok(()) } else { Err(last_error()) }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        unsafe {
            cpprun_store_disconnect(self.client);
            cpprun_store_stop(self.server);
        }
    }
}

fn main() -> Result<(), String> {
    let store = Store::open()?;
    store.set("greeting", b"hello")?;
    let greeting = String::from_utf8_lossy(&store.get("greeting")?).into_owned();
    println!("{}, visitor {}", greeting, store.add("visitors", 1)?);
    if let Err(late) = store.wait(&["greeting", "goodbye"], 50) {
        println!("{}", late);
    }
    Ok(())
}

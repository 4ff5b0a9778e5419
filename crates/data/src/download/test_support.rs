//! A small HTTP server on the loopback address that misbehaves as told, and entries that point at it.
//!
//! It answers a bounded number of requests, one per connection, and stops when it is dropped.

use crate::catalogue::{Checks, Entry, KnownSizes, RemoteFile};
use crate::formats::Format;
use harmonia_graph::dataset::Level;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const MAX_REQUESTS: usize = 40;

/// Where real files would be: HARMONIA_DATA, or a folder beside the workspace.
pub(crate) fn data_folder() -> PathBuf {
    let beside = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"));
    std::env::var_os("HARMONIA_DATA").map_or_else(beside, PathBuf::from)
}

/// The folder of real files, or `None` after saying so.
pub(crate) fn shared_data() -> Option<PathBuf> {
    let data = data_folder();
    if data.join("Cora").is_dir() {
        return Some(data);
    }
    println!("skipped: no real files in {}", data.display());
    None
}

/// What a client asked for.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub path: String,
    /// N of `Range: bytes=N-`.
    pub range: Option<usize>,
    pub if_range: Option<String>,
}

/// What it gets.
#[derive(Clone, Default)]
pub(crate) struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// Close the connection after so many bytes of the body.
    pub cut: Option<usize>,
    /// Fall silent for so long after `cut`.
    pub stall: Duration,
}

impl Reply {
    pub(crate) fn status(status: u16) -> Reply {
        Reply { status, headers: vec![("Content-Length", "0".into())], ..Reply::default() }
    }

    pub(crate) fn full(body: &[u8], etag: &str) -> Reply {
        let headers = vec![("Content-Length", body.len().to_string()), ("ETag", etag.to_string())];
        Reply { status: 200, headers, body: body.to_vec(), ..Reply::default() }
    }

    pub(crate) fn cut(self, at: usize) -> Reply {
        Reply { cut: Some(at), ..self }
    }

    /// As a good server answers: the rest if the version is still the one the client knows.
    pub(crate) fn content(request: &Request, body: &[u8], etag: &str) -> Reply {
        match request.range {
            Some(start) if request.if_range.as_deref() == Some(etag) => match body.get(start..) {
                Some(rest) if !rest.is_empty() => {
                    let range = format!("bytes {start}-{}/{}", body.len() - 1, body.len());
                    let mut reply = Reply::full(rest, etag);
                    reply.status = 206;
                    reply.headers.push(("Content-Range", range));
                    reply
                }
                _ => Reply::status(416),
            },
            _ => Reply::full(body, etag),
        }
    }
}

pub(crate) struct Server {
    pub address: String,
    requests: Arc<Mutex<Vec<Request>>>,
    served: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// `answer` gets the number of the request and the request.
    pub(crate) fn start(answer: impl Fn(usize, &Request) -> Reply + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (requests, served, stop) = (Arc::default(), Arc::default(), Arc::new(AtomicBool::new(false)));
        let (seen, sent, stopped) = (Arc::clone(&requests), Arc::clone(&served), Arc::clone(&stop));
        let answer = Arc::new(answer);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().take(MAX_REQUESTS) {
                if stopped.load(Ordering::SeqCst) {
                    break;
                }
                let (seen, sent, answer) = (Arc::clone(&seen), Arc::clone(&sent), Arc::clone(&answer));
                // A thread each: one that stalls must not hold up the retry.
                std::thread::spawn(move || handle(stream.unwrap(), &*answer, &seen, &sent));
            }
        });
        Server { address, requests, served, stop, thread: Some(thread) }
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// Bytes of bodies sent so far.
    pub(crate) fn served(&self) -> u64 {
        self.served.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the thread so that it sees the flag.
        let _ = TcpStream::connect(self.address.trim_start_matches("http://"));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn handle(
    mut stream: TcpStream,
    answer: &dyn Fn(usize, &Request) -> Reply,
    seen: &Mutex<Vec<Request>>,
    sent: &AtomicU64,
) {
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let Some(first) = lines.next() else { return };
    let path = first.split_whitespace().nth(1).unwrap_or_default().to_string();
    let mut request = Request { path, range: None, if_range: None };
    for line in lines.take_while(|line| !line.is_empty()) {
        let Some((name, value)) = line.split_once(':') else { continue };
        match name.to_lowercase().as_str() {
            "range" => {
                request.range = value.trim().strip_prefix("bytes=").unwrap().strip_suffix('-').unwrap().parse().ok()
            }
            "if-range" => request.if_range = Some(value.trim().to_string()),
            _ => {}
        }
    }
    let number = {
        let mut seen = seen.lock().unwrap();
        seen.push(request.clone());
        seen.len() - 1
    };
    let reply = answer(number, &request);
    let mut head = format!("HTTP/1.1 {} Test\r\nConnection: close\r\n", reply.status);
    reply.headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
    head += "\r\n";
    let body = &reply.body[..reply.cut.unwrap_or(reply.body.len())];
    if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).is_ok() {
        sent.fetch_add(body.len() as u64, Ordering::SeqCst);
        std::thread::sleep(reply.stall);
    }
}

/// An entry whose one file, `raw/data.bin`, comes from `url`.
pub(crate) fn entry(url: &str, bytes: u64, checks: Checks) -> Entry {
    entry_of(vec![RemoteFile { path: "raw/data.bin", url: leak(url), bytes, approximate: true, checks }])
}

pub(crate) fn entry_of(files: Vec<RemoteFile>) -> Entry {
    Entry {
        name: "toy",
        folder: "Toy",
        other_folders: &[],
        format: Format::Table,
        task: Level::Node,
        licence: "CC0",
        home: "https://example.org",
        files: Box::leak(files.into_boxed_slice()),
        layouts: &[],
        shape: KnownSizes { nodes: 1, edge_rows: 1, features: 1, classes: 2, graphs: 1 },
        notes: "for tests",
    }
}

/// Catalogue text is static; a test's lives as long as the test process.
pub(crate) fn leak(text: &str) -> &'static str {
    Box::leak(text.to_string().into_boxed_str())
}

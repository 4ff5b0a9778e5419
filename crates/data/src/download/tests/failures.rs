//! What goes wrong, and what the user is told.

use super::*;
use crate::catalogue::{self, RemoteFile};
use crate::download::test_support::{entry_of, leak};
use harmonia_graph::stop::Stop;

/// The message names the address, the place, and how to go on.
fn assert_helps(message: &str, url: &str, place: &Place) {
    assert!(message.contains(url), "{message}");
    assert!(message.contains(&format!("-> {}", place.target.display())), "{message}");
    assert!(message.contains("put each file here"), "{message}");
}

#[test]
fn offline_makes_no_connection_and_lists_every_file() {
    let server = Server::start(|_, _| Reply::status(200));
    let place = Place::new();
    let access = Access { offline: true, yes: true, mirror: Some(server.address.clone()) };
    let cora = catalogue::find("cora").unwrap();
    let error = fetch(cora, place.home.path(), &access, &Stop::new(), &|_| ()).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    let message = error.to_string();
    assert!(message.contains("set offline = false"), "{message}");
    for file in cora.files {
        let path = place.home.path().join("Cora").join("raw").join(file.file_name());
        assert!(message.contains(file.url) && message.contains(&format!("-> {}", path.display())), "{message}");
    }
    let mut out = Vec::new();
    assert!(consent(cora, place.home.path(), &access, &mut "y\n".as_bytes(), true, &mut out).is_err());
    assert_eq!((server.requests().len(), out.len()), (0, 0));
    assert!(!place.home.path().join("Cora").exists(), "nothing is created either");
}

#[test]
fn a_missing_file_is_not_asked_for_twice() {
    for status in [403, 404, 410, 204, 304] {
        let server = Server::start(move |_, _| Reply::status(status));
        let place = Place::new();
        let message = place.fetch_error(&plain(&server));
        assert_helps(&message, &format!("{}/data.bin", server.address), &place);
        assert!(message.contains(&format!("the server answers {status}")), "{message}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[test]
fn a_server_in_trouble_is_asked_three_times_more() {
    for status in [500, 503, 429] {
        let server = Server::start(move |number, request| match number {
            0..=2 => Reply::status(status),
            _ => Reply::content(request, b"abc", ETAG),
        });
        let place = Place::new();
        place.fetch(&plain(&server)).unwrap();
        assert_eq!((server.requests().len(), place.content()), (4, b"abc".to_vec()));
    }
    let server = Server::start(|_, _| Reply::status(500));
    let message = Place::new().fetch_error(&plain(&server));
    assert!(message.contains("500") && message.contains("after 3 retries"), "{message}");
    assert!(!message.contains("kept"), "nothing is: {message}");
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn redirects_are_followed_but_only_to_http() {
    let server = Server::start(|_, request| match request.path.as_str() {
        "/moved" => Reply::content(request, b"abc", ETAG),
        "/data.bin" => Reply { headers: vec![("Location", "/moved".into())], ..Reply::status(302) },
        "/loop" => Reply { headers: vec![("Location", "/loop".into())], ..Reply::status(302) },
        "/ftp" => Reply { headers: vec![("Location", "ftp://127.0.0.1/x".into())], ..Reply::status(302) },
        _ => Reply { headers: vec![("Location", "file:///etc/hostname".into())], ..Reply::status(302) },
    });
    let place = Place::new();
    place.fetch(&plain(&server)).unwrap();
    assert_eq!(place.content(), b"abc");
    for path in ["loop", "file", "ftp"] {
        let place = Place::new();
        let url = format!("{}/{path}", server.address);
        assert_helps(&place.fetch_error(&entry(&url, 10, Checks::NONE)), &url, &place);
        assert!(!place.target.exists() && !place.part().exists());
    }
}

#[test]
fn far_too_much_is_refused_announced_or_not() {
    let announced = Server::start(|_, _| Reply {
        headers: vec![("Content-Length", (70u64 << 20).to_string())],
        ..Reply::full(b"", ETAG)
    });
    let place = Place::new();
    let message = place.fetch_error(&plain(&announced));
    assert!(message.contains("announces 73.4 MB, expected about 1.0 kB"), "{message}");
    assert_eq!(announced.requests().len(), 1);

    // Not announced: the end of the connection is the end of the body.
    let silent = Server::start(|_, _| Reply { headers: Vec::new(), ..Reply::full(&vec![7; 66 << 20], ETAG) });
    let place = Place::new();
    let message = place.fetch_error(&plain(&silent));
    assert!(message.contains("sends more than"), "{message}");
    assert!(!place.part().exists(), "64 MiB of nonsense are not kept");
}

#[test]
fn a_body_without_length_that_ends_early_is_noticed_by_the_known_size() {
    let server = Server::start(|_, _| Reply { headers: Vec::new(), ..Reply::full(&bytes(900), ETAG) });
    let url = leak(&format!("{}/data.bin", server.address));
    let file = RemoteFile { path: "raw/data.bin", url, bytes: 1000, approximate: false, checks: Checks::NONE };
    let message = Place::new().fetch_error(&entry_of(vec![file]));
    assert!(message.contains("stopped after 900 bytes"), "{message}");
}

#[test]
fn compressed_bytes_are_not_taken_for_the_file() {
    let server = Server::start(|_, _| {
        let mut reply = Reply::full(b"abc", ETAG);
        reply.headers.push(("Content-Encoding", "br".into()));
        reply
    });
    let message = Place::new().fetch_error(&plain(&server));
    assert!(message.contains("compressed"), "{message}");
}

#[test]
fn nobody_there_gives_one_clear_message() {
    let without_tls = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let plain_http = format!("https://{}", without_tls.local_addr().unwrap());
    let answer = std::thread::spawn(move || {
        let (mut stream, _) = without_tls.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]).unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // Refused; a name that cannot exist; TLS spoken to a server that has none.
    for (url, reason) in [
        (format!("http://{closed}/x"), "refused"),
        ("http://nothing.invalid/x".to_string(), "is this machine online?"),
        (format!("{plain_http}/x"), "no secure connection"),
    ] {
        let place = Place::new();
        let message = place.fetch_error(&entry(&url, 10, Checks::NONE));
        assert_helps(&message, &url, &place);
        assert_eq!(message.matches("could not be downloaded").count(), 1, "{message}");
        assert!(message.contains(reason) && !message.contains("retries"), "{message}");
    }
    answer.join().unwrap();
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let server = Server::start(|_, request| Reply::content(request, b"abc", ETAG));
    let place = Place::new();
    // Works for any user, root too: a file where a folder should be.
    std::fs::write(place.home.path().join("Toy"), b"").unwrap();
    let message = place.fetch_error(&plain(&server));
    assert!(message.contains("cannot create directory") && message.contains("set data.dir = DIR"), "{message}");
    assert_helps(&message, &server.address, &place);
    assert_eq!(server.requests().len(), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_not_the_users_fault() {
    let server = Server::start(|_, request| Reply::content(request, &bytes(5000), ETAG));
    let place = Place::new();
    std::fs::create_dir_all(place.target.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink("/dev/full", place.part()).unwrap();
    let error = place.fetch(&plain(&server)).unwrap_err();
    assert_eq!(error.exit_code(), 1);
    let message = error.to_string();
    assert!(message.contains("free some space") && message.contains("goes on where it stopped"), "{message}");
    assert_helps(&message, &server.address, &place);
}

#[test]
fn a_mirror_is_http_and_its_password_is_never_shown() {
    let place = Place::new();
    let cora = catalogue::find("cora").unwrap();
    let attempt = |mirror: &str| {
        let access = Access { mirror: Some(mirror.to_string()), ..Access::default() };
        fetch_within(cora, place.home.path(), &access, &limits(), &Stop::new(), &|_| ()).unwrap_err().to_string()
    };
    for mirror in
        ["ftp://example.org", "file:///etc", "example.org", "https://", "/data", "", "http://a b/", "http://h/?x=1"]
    {
        let message = attempt(mirror);
        assert!(
            message.starts_with("mirror")
                && message.contains("set mirror = URL")
                && message.contains("https://example.org/datasets"),
            "{message}"
        );
    }
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let message = attempt(&format!("http://someone:secret@{closed}/data/"));
    assert!(message.contains(&format!("http://{closed}/data/Cora/raw/ind.cora.x")), "{message}");
    assert!(!message.contains("secret") && !message.contains("someone"), "{message}");
    assert!(message.contains(cora.files[7].url), "the publisher's addresses are listed: {message}");
}

#[test]
fn consent_is_asked_once_and_only_on_a_terminal() {
    let home = tempfile::tempdir().unwrap();
    let products = catalogue::find("ogbn-products").unwrap();
    let ask = |answer: &str, is_terminal: bool, access: &Access| {
        let mut out = Vec::new();
        let answer = consent(products, home.path(), access, &mut answer.as_bytes(), is_terminal, &mut out);
        (answer, String::from_utf8(out).unwrap())
    };
    let access = Access::default();
    for (answer, expected) in
        [("y\n", true), ("YES\n", true), ("n\n", false), ("\n", false), ("", false), ("yo\n", false)]
    {
        let (agreed, question) = ask(answer, true, &access);
        assert_eq!(agreed.unwrap(), expected, "{answer:?}");
        let folder = home.path().join("ogbn-products");
        assert_eq!(
            question,
            format!(
                "ogbn-products: about 1.5 GB from snap.stanford.edu to {}, licence: Amazon licence; download? [y/N] ",
                folder.display()
            )
        );
    }
    let (refused, question) = ask("y\n", false, &access);
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("set yes = true") && message.contains("products.zip") && question.is_empty(), "{message}");
    let (agreed, question) = ask("", false, &Access { yes: true, ..Access::default() });
    assert!(agreed.unwrap() && question.is_empty());
    let mirror = Some("http://user:secret@mirror.example:8080/d".to_string());
    let (_, question) = ask("n\n", true, &Access { mirror, ..Access::default() });
    assert!(question.contains("from mirror.example:8080 to"), "{question}");
    assert!(ask("y\n", true, &Access { mirror: Some("gopher://x".into()), ..Access::default() }).0.is_err());
}

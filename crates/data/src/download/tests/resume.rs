//! Transfers that stop and go on.

use super::*;
use harmonia_graph::stop::Stop;
use proptest::prelude::*;
use std::sync::Mutex;

#[test]
fn a_file_arrives_and_nothing_else_is_left() {
    let body = bytes(300_000);
    let sent = body.clone();
    let server = Server::start(move |_, request| Reply::content(request, &sent, ETAG));
    let place = Place::new();
    let seen = Mutex::new(Vec::new());
    let progress = |progress: Transfer<'_>| {
        seen.lock().unwrap().push((progress.file.to_string(), progress.stage, progress.done, progress.total));
    };
    let raw = fetch_within(&plain(&server), place.home.path(), &Access::default(), &limits(), &Stop::new(), &progress)
        .unwrap();
    assert_eq!(raw.path, place.target);
    assert_eq!(place.content(), body);
    assert_eq!(place.names(), ["data.bin", "data.bin.sha256"]);
    let seen = seen.into_inner().unwrap();
    let end = |stage| ("data.bin".to_string(), stage, 300_000, Some(300_000));
    assert!(seen.contains(&end(Stage::Download)) && seen.contains(&end(Stage::Check)), "{seen:?}");
    assert!(seen.windows(2).all(|pair| pair[0].1 != pair[1].1 || pair[0].2 <= pair[1].2), "done never falls");

    place.fetch(&plain(&server)).unwrap();
    assert_eq!(server.requests().len(), 1, "a file that is there is not fetched again");
}

#[test]
fn a_dropped_connection_goes_on_where_it_stopped() {
    let body = bytes(1000);
    let sent = body.clone();
    let server = Server::start(move |number, request| {
        let reply = Reply::content(request, &sent, ETAG);
        if number == 0 { reply.cut(600) } else { reply }
    });
    let place = Place::new();
    place.fetch(&plain(&server)).unwrap();
    assert_eq!(place.content(), body);
    let requests = server.requests();
    assert_eq!((requests.len(), requests[1].range), (2, Some(600)));
    assert_eq!(requests[1].if_range.as_deref(), Some(ETAG));
    assert_eq!(server.served(), 1000, "no byte was sent twice");
}

#[test]
fn a_redirect_keeps_the_range() {
    let body = bytes(1000);
    let sent = body.clone();
    let server = Server::start(move |number, request| match request.path.as_str() {
        "/data.bin" => Reply { headers: vec![("Location", "/moved".into())], ..Reply::status(303) },
        _ if number == 1 => Reply::content(request, &sent, ETAG).cut(600),
        _ => Reply::content(request, &sent, ETAG),
    });
    let place = Place::new();
    place.fetch(&plain(&server)).unwrap();
    assert_eq!((place.content(), server.served(), server.requests().len()), (body, 1000, 4));
}

#[test]
fn a_later_call_transfers_only_the_rest() {
    let body = bytes(1000);
    let sent = body.clone();
    let server = Server::start(move |number, request| match number {
        0 => Reply::content(request, &sent, ETAG).cut(700),
        1..=3 => Reply::status(503),
        _ => Reply::content(request, &sent, ETAG),
    });
    let place = Place::new();
    let message = place.fetch_error(&plain(&server));
    assert!(message.contains("503") && message.contains("after 3 retries"), "{message}");
    assert!(message.contains("700 B are kept, the same command goes on from there"), "{message}");
    assert!(message.contains(&server.address) && message.contains(place.target.to_str().unwrap()), "{message}");
    assert!(!place.target.exists());
    place.fetch(&plain(&server)).unwrap();
    assert_eq!(place.content(), body);
    assert_eq!((server.requests().len(), server.served()), (5, 1000));
    assert_eq!(place.names(), ["data.bin", "data.bin.sha256"]);
}

#[test]
fn the_date_serves_where_there_is_no_strong_etag() {
    const DATE: &str = "Tue, 03 Mar 2020 10:00:00 GMT";
    let body = bytes(1000);
    let sent = body.clone();
    let server = Server::start(move |number, request| {
        // `content` compares what the client sends with the date, then the tag is made weak.
        let mut reply = Reply::content(request, &sent, DATE);
        reply.headers.retain(|(name, _)| *name != "ETag");
        reply.headers.extend([("ETag", "W/\"v1\"".to_string()), ("Last-Modified", DATE.to_string())]);
        if number == 0 { reply.cut(300) } else { reply }
    });
    let place = Place::new();
    place.fetch(&plain(&server)).unwrap();
    assert_eq!((place.content(), server.served()), (body, 1000));
}

#[test]
fn without_any_version_a_transfer_starts_over() {
    let body = bytes(1000);
    let sent = body.clone();
    let server = Server::start(move |number, request| {
        let mut reply = Reply::content(request, &sent, ETAG);
        reply.headers.retain(|(name, _)| *name != "ETag");
        if number == 0 { reply.cut(300) } else { reply }
    });
    let place = Place::new();
    place.fetch(&plain(&server)).unwrap();
    assert_eq!(place.content(), body);
    assert_eq!(server.requests()[1].range, None);
}

/// Serves 600 bytes of one version, then `second` to whoever asks to go on, then the new version.
fn new_version(second: impl Fn(&Request, &[u8]) -> Reply + Send + Sync + 'static) -> (Vec<u8>, Place, Server) {
    let (old, new) = (bytes(1000), bytes(1500).split_off(500));
    let sent = new.clone();
    let server = Server::start(move |number, request| match number {
        0 => Reply::content(request, &old, ETAG).cut(600),
        1 => second(request, &sent),
        _ => Reply::content(request, &sent, "\"v2\""),
    });
    (new, Place::new(), server)
}

#[test]
fn a_new_version_starts_over() {
    let (new, place, server) = new_version(|request, new| Reply::content(request, new, "\"v2\""));
    place.fetch(&plain(&server)).unwrap();
    assert_eq!(place.content(), new);
    assert_eq!(server.requests().len(), 2, "the answer to If-Range is the whole new file");
}

#[test]
fn a_server_that_ignores_if_range_does_not_mix_two_versions() {
    let (new, place, server) = new_version(|request, new| {
        let request = Request { if_range: Some("\"v2\"".into()), ..request.clone() };
        Reply::content(&request, new, "\"v2\"")
    });
    place.fetch(&plain(&server)).unwrap();
    assert_eq!(place.content(), new);
}

#[test]
fn bytes_from_another_address_are_not_continued() {
    let (old, new) = (bytes(1000), bytes(1500).split_off(500));
    let sent = new.clone();
    // Two servers may well call different files by one tag.
    let first = Server::start(move |number, request| match number {
        0 => Reply::content(request, &old, ETAG).cut(600),
        _ => Reply::status(500),
    });
    let second = Server::start(move |_, request| Reply::content(request, &sent, ETAG));
    let place = Place::new();
    place.fetch(&plain(&first)).unwrap_err();
    assert_eq!(std::fs::metadata(place.part()).unwrap().len(), 600);
    place.fetch(&plain(&second)).unwrap();
    assert_eq!(place.content(), new);
}

#[test]
fn a_wrong_range_or_none_starts_over() {
    for range in ["bytes 0-999/1000", "bytes 600-998/1000", "bytes 600-1998/1999", "bytes */1000", "nonsense"] {
        let (new, place, server) = new_version(move |_, new| {
            let mut reply = Reply::full(&new[600..], ETAG);
            reply.status = 206;
            reply.headers.push(("Content-Range", range.to_string()));
            reply
        });
        place.fetch(&plain(&server)).unwrap();
        assert_eq!(place.content(), new, "{range}");
    }
    let (new, place, server) = new_version(|_, _| Reply::status(416));
    place.fetch(&plain(&server)).unwrap();
    assert_eq!(place.content(), new);
}

#[test]
fn a_server_that_never_fits_is_given_up() {
    let server = Server::start(|_, request| match request.range {
        None => Reply::full(&bytes(1000), ETAG).cut(600),
        Some(_) => Reply::status(416),
    });
    let message = Place::new().fetch_error(&plain(&server));
    assert!(message.contains("ranges that do not fit"), "{message}");
}

#[test]
fn a_silent_connection_is_given_up_and_continued() {
    let body = bytes(1000);
    let sent = body.clone();
    let server = Server::start(move |number, request| {
        let reply = Reply::content(request, &sent, ETAG);
        if number == 0 { Reply { stall: Duration::from_secs(60), ..reply.cut(100) } } else { reply }
    });
    let place = Place::new();
    let limits = TransferLimits { stall: Duration::from_secs(1), ..limits() };
    let begin = std::time::Instant::now();
    fetch_within(&plain(&server), place.home.path(), &Access::default(), &limits, &Stop::new(), &|_| ()).unwrap();
    // Far from both the limit and the silence: a busy disk may take seconds to flush.
    assert!(begin.elapsed() < Duration::from_secs(30), "the limit on silence did not work");
    assert_eq!((place.content(), server.served()), (body, 1000));
}

#[test]
fn a_transfer_killed_before_the_rename_needs_no_network() {
    let body = bytes(1000);
    let (place, server) = (Place::new(), Server::start(|_, _| Reply::status(404)));
    std::fs::create_dir_all(place.target.parent().unwrap()).unwrap();
    std::fs::write(place.part(), &body).unwrap();
    let url = format!("{}/data.bin", server.address);
    let description = format!(r#"{{"url":"{url}","etag":"\"v1\"","last_modified":null,"total":1000}}"#);
    std::fs::write(place.part().with_extension("part.json"), description).unwrap();
    place.fetch(&plain(&server)).unwrap();
    assert_eq!((place.content(), server.requests().len()), (body, 0));
}

#[test]
fn two_at_once_download_once() {
    let body = bytes(1000);
    let sent = body.clone();
    let server = Server::start(move |_, request| {
        std::thread::sleep(Duration::from_millis(400));
        Reply::content(request, &sent, ETAG)
    });
    let (place, entry) = (Place::new(), plain(&server));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| place.fetch(&entry).map(|raw| raw.path))).collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap().unwrap(), place.target);
        }
    });
    assert_eq!((server.requests().len(), place.content()), (1, body));
    assert_eq!(place.names(), ["data.bin", "data.bin.sha256"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Whatever lies in the two files of an unfinished transfer, the download ends with the right bytes.
    #[test]
    fn damaged_leftovers_do_no_harm(
        part in proptest::collection::vec(any::<u8>(), 0..1500),
        description in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..80),
            Just(br#"{"url":"URL","etag":"\"old\"","last_modified":null,"total":5000}"#.to_vec()),
            Just(br#"{"url":"URL","etag":"\"\n","last_modified":"x","total":18446744073709551615}"#.to_vec()),
            Just(br#"{"url":"URL","etag":null,"last_modified":null,"total":null}"#.to_vec()),
        ],
    ) {
        let body = bytes(1000);
        let sent = body.clone();
        let server = Server::start(move |_, request| Reply::content(request, &sent, ETAG));
        let place = Place::new();
        std::fs::create_dir_all(place.target.parent().unwrap()).unwrap();
        std::fs::write(place.part(), &part).unwrap();
        let url = format!("{}/data.bin", server.address);
        let description = match String::from_utf8(description) {
            Ok(text) => text.replace("URL", &url).into_bytes(),
            Err(error) => error.into_bytes(),
        };
        std::fs::write(place.part().with_extension("part.json"), description).unwrap();
        place.fetch(&plain(&server)).unwrap();
        prop_assert_eq!(place.content(), body);
    }
}

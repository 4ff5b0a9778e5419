//! Checksums: published, of members, recorded; and the real files through a mirror.

use super::*;
use crate::catalogue::{self, RemoteFile};
use crate::download::test_support::{entry_of, leak, shared_data};
use harmonia_graph::stop::Stop;
use proptest::prelude::*;
use std::io::Write;

const ABC_SHA256: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const ABC_MD5: &str = "900150983cd24fb0d6963f7d28e17f72";
const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Serves `body` under any name.
fn serving(body: &'static [u8]) -> Server {
    Server::start(move |_, request| Reply::content(request, body, ETAG))
}

fn checked(server: &Server, checks: Checks) -> Entry {
    entry(&format!("{}/data.bin", server.address), 3, checks)
}

#[test]
fn published_checksums_hold_or_the_file_is_removed() {
    let server = serving(b"abc");
    for checks in [Checks::sha256(ABC_SHA256), Checks::md5(ABC_MD5)] {
        let place = Place::new();
        place.fetch(&checked(&server, checks)).unwrap();
        assert_eq!(place.content(), b"abc");
    }
    let wrong_md5 = "00000000000000000000000000000000";
    for (checks, what, expected, found) in [
        (Checks::sha256(EMPTY_SHA256), "SHA-256", EMPTY_SHA256, ABC_SHA256),
        (Checks::md5(wrong_md5), "MD5", wrong_md5, ABC_MD5),
        (Checks { md5: Some(wrong_md5), ..Checks::sha256(ABC_SHA256) }, "MD5", wrong_md5, ABC_MD5),
    ] {
        let place = Place::new();
        let message = place.fetch_error(&checked(&server, checks));
        assert!(message.contains(&format!("{what} should be {expected}, found {found}; it was removed")), "{message}");
        assert!(message.contains(&server.address) && message.contains("put each file here"), "{message}");
        assert_eq!(place.names(), Vec::<String>::new(), "nothing of the wrong file is left");
    }
}

#[test]
fn the_first_download_is_recorded_and_holds_from_then_on() {
    let (first, second) = (serving(b"abc"), serving(b"abd"));
    let place = Place::new();
    place.fetch(&checked(&first, Checks::NONE)).unwrap();
    let record = place.target.with_extension("bin.sha256");
    assert_eq!(std::fs::read_to_string(&record).unwrap(), format!("{ABC_SHA256}  data.bin\n"));
    let verdict = |place: &Place| {
        verify(&checked(&first, Checks::NONE), place.home.path(), &Stop::new()).unwrap()[0].verdict.clone()
    };
    assert_eq!(verdict(&place), FileCheck::Matches);

    std::fs::remove_file(&place.target).unwrap();
    let message = place.fetch_error(&checked(&second, Checks::NONE));
    assert!(message.contains(ABC_SHA256) && message.contains(record.to_str().unwrap()), "{message}");
    std::fs::remove_file(&record).unwrap();
    place.fetch(&checked(&second, Checks::NONE)).unwrap();
    std::fs::write(&place.target, b"abx").unwrap();
    assert!(matches!(verdict(&place), FileCheck::Differs { .. }));

    std::fs::write(&record, "not a checksum").unwrap();
    let message = verify(&checked(&first, Checks::NONE), place.home.path(), &Stop::new()).unwrap_err().to_string();
    assert!(message.contains(record.to_str().unwrap()) && message.contains("line 1: expected a SHA-256"), "{message}");
    std::fs::remove_file(&record).unwrap();
    assert_eq!(verdict(&place), FileCheck::Unknown, "put there by hand, nothing known");
}

#[test]
fn an_error_page_is_not_recorded_as_an_archive() {
    let page = serving(b"<!DOCTYPE html><p>Please log in");
    for (path, kind) in [("raw/data.zip", "a zip archive"), ("raw/data.tar.gz", "a gzip file")] {
        let url = leak(&format!("{}/{path}", page.address));
        let entry = entry_of(vec![RemoteFile { path, url, bytes: 100, approximate: true, checks: Checks::NONE }]);
        let home = tempfile::tempdir().unwrap();
        let error =
            fetch_within(&entry, home.path(), &Access::default(), &limits(), &Stop::new(), &|_| ()).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(&format!("should be {kind}")) && message.contains("<!DOCTYPE"), "{message}");
        assert!(!home.path().join("Toy").join(format!("{path}.sha256")).exists());
    }
}

/// A zip with these members.
fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in members {
        writer.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn verdict_of(content: &[u8], checks: Checks) -> FileCheck {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("data.zip");
    std::fs::write(&path, content).unwrap();
    checks::check(&path, "data.zip", &checks, &home.path().join("none"), &Stop::new(), &|_, _| ()).unwrap().1
}

#[test]
fn members_are_checked_wherever_they_lie_in_the_archive() {
    const CHECKS: Checks = Checks::members(&[("a.txt", ABC_SHA256), ("b.txt", EMPTY_SHA256)]);
    for names in [["a.txt", "b.txt"], ["D/a.txt", "D/b.txt"], ["D//a.txt", "D//b.txt"]] {
        let zip = archive(&[(names[0], b"abc"), (names[1], b""), ("README", b"anything")]);
        assert_eq!(verdict_of(&zip, CHECKS), FileCheck::Matches, "{names:?}");
    }
    let what = |content: &[u8]| match verdict_of(content, CHECKS) {
        FileCheck::Differs { what, expected, found } => format!("{what}: {expected}, {found}"),
        other => panic!("{other:?}"),
    };
    let wrong = what(&archive(&[("a.txt", b"abd"), ("b.txt", b"")]));
    assert!(wrong.starts_with(&format!("SHA-256 of its member a.txt: {ABC_SHA256}, a52d")), "{wrong}");
    // A reader might take either of two members of one name, so both must be right.
    let twice = what(&archive(&[("D/a.txt", b"abc"), ("E/a.txt", b"abd"), ("b.txt", b"")]));
    assert!(twice.starts_with("SHA-256 of its member a.txt"), "{twice}");
    assert!(what(&archive(&[("a.txt", b"abc")])).contains("an archive with b.txt"));
    assert!(what(b"PK and then nothing").contains("a zip archive"));
}

proptest! {
    #[test]
    fn damaged_archives_are_refused_without_a_panic(
        at in 0usize..400, value in any::<u8>(), length in 0usize..400, noise in proptest::collection::vec(any::<u8>(), 0..300)
    ) {
        const CHECKS: Checks = Checks::members(&[("a.txt", ABC_SHA256)]);
        let mut zip = archive(&[("D/a.txt", b"abc"), ("D/b.txt", b"other")]);
        let whole = zip.len();
        if let Some(byte) = zip.get_mut(at) {
            *byte = value;
        }
        zip.truncate(length);
        let verdict = verdict_of(&zip, CHECKS);
        // The directory of a zip stands at its end, so any truncation loses it.
        if length < whole {
            prop_assert!(matches!(verdict, FileCheck::Differs { .. }), "{verdict:?}");
        }
        let refused = matches!(verdict_of(&noise, CHECKS), FileCheck::Differs { .. });
        prop_assert!(refused);
        verdict_of(&noise, Checks::NONE);
    }

    #[test]
    fn no_mirror_makes_it_panic(mirror in "\\PC{0,40}", scheme in prop_oneof![Just(""), Just("http://"), Just("https://u:p@")]) {
        let mirror = format!("{scheme}{mirror}");
        if let Ok(checked) = checked_mirror(&mirror) {
            prop_assert!(checked.to_lowercase().starts_with("http"));
        }
        host(&mirror);
        without_password(&mirror);
    }
}

/// A mirror of the real files.
fn mirror(data: PathBuf) -> Server {
    Server::start(move |_, request| match std::fs::read(data.join(request.path.trim_start_matches('/'))) {
        Ok(body) => Reply::content(request, &body, ETAG),
        Err(_) => Reply::status(404),
    })
}

#[test]
fn real_files_come_through_a_mirror_and_verify() {
    let Some(data) = shared_data() else { return };
    let server = mirror(data);
    let home = tempfile::tempdir().unwrap();
    let access = Access { mirror: Some(format!("{}/", server.address)), ..Access::default() };
    for name in ["cora", "citeseer", "tolokers", "mutag", "proteins", "dd", "aids", "mutagenicity", "herg-karim"] {
        let entry = catalogue::find(name).unwrap();
        let raw = fetch_within(entry, home.path(), &access, &limits(), &Stop::new(), &|_| ())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(raw.files.len(), entry.files.len());
        for (path, file) in raw.files.iter().zip(entry.files) {
            assert_eq!(std::fs::metadata(path).unwrap().len(), file.bytes, "{}", file.path);
        }
        let verified = verify(entry, home.path(), &Stop::new()).unwrap();
        assert!(verified.iter().all(|file| file.verdict == FileCheck::Matches), "{verified:?}");
    }
    let cora = crate::planetoid::load("Cora", &home.path().join("Cora").join("raw")).unwrap();
    assert_eq!(cora.graph.nodes() as u64, catalogue::find("cora").unwrap().shape.nodes);

    let path = home.path().join("Cora/raw/ind.cora.x");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[1000] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let verified = verify(catalogue::find("cora").unwrap(), home.path(), &Stop::new()).unwrap();
    let wrong: Vec<_> = verified.iter().filter(|file| file.verdict != FileCheck::Matches).collect();
    assert_eq!((verified.len(), wrong.len()), (8, 1));
    assert!(wrong[0].path.ends_with("ind.cora.x"));
}

#[test]
fn the_real_files_are_what_the_catalogue_says() {
    let Some(data) = shared_data() else { return };
    for name in ["tolokers", "mutag", "aids"] {
        let verified = verify(catalogue::find(name).unwrap(), &data, &Stop::new()).unwrap();
        assert!(!verified.is_empty() && verified.iter().all(|file| file.verdict == FileCheck::Matches), "{verified:?}");
    }
}

#[test]
fn extracted_tables_are_checked_by_the_checksums_of_the_members() {
    let Some(data) = shared_data() else { return };
    let home = tempfile::tempdir().unwrap();
    let zip = std::fs::File::open(data.join("MUTAG/raw/MUTAG.zip")).unwrap();
    zip::ZipArchive::new(zip).unwrap().extract(home.path()).unwrap();
    let mutag = catalogue::find("mutag").unwrap();
    let verified = verify(mutag, home.path(), &Stop::new()).unwrap();
    assert_eq!(verified.len(), 4);
    assert!(verified.iter().all(|file| file.verdict == FileCheck::Matches), "{verified:?}");
}

#[test]
fn what_is_missing_of_a_set_is_fetched_and_the_rest_left_alone() {
    let Some(data) = shared_data() else { return };
    let server = mirror(data.clone());
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("Cora/raw");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(data.join("Cora/raw/ind.cora.x"), folder.join("ind.cora.x")).unwrap();
    let access = Access { mirror: Some(server.address.clone()), ..Access::default() };
    fetch_within(catalogue::find("cora").unwrap(), home.path(), &access, &limits(), &Stop::new(), &|_| ()).unwrap();
    let asked: Vec<_> = server.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(asked.len(), 7);
    assert!(asked.contains(&"/Cora/raw/ind.cora.graph".to_string()) && !asked.contains(&"/Cora/raw/ind.cora.x".into()));
}

//! Archives: hand-made zips and directories, traps, damage.

use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use std::io::Write;
use zip::write::{SimpleFileOptions, ZipWriter};

fn zip_of(members: &[(&str, &[u8])], deflate: bool) -> Vec<u8> {
    let method = if deflate { CompressionMethod::DEFLATE } else { CompressionMethod::Stored };
    let options = SimpleFileOptions::default().compression_method(method);
    let mut writer = ZipWriter::new(io::Cursor::new(Vec::new()));
    for (name, bytes) in members {
        writer.start_file(*name, options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A directory with one file `name`; the directory lives as long as the first part.
fn stored(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    (directory, path)
}

fn open_bytes(bytes: &[u8]) -> Result<Archive> {
    let (_directory, path) = stored("a.zip", bytes);
    Archive::open(&path)
}

#[test]
fn a_zip_and_a_directory_read_alike() {
    let two = [gz(b"1,2\n"), gz(b"3,4\n")].concat();
    let members: [(&str, &[u8]); 3] =
        [("MUTAG//MUTAG_A.txt", b"1, 2\n"), ("raw/edge.csv.gz", &two), ("deep/raw/edge.csv.gz", &two)];
    for deflate in [false, true] {
        let (_directory, path) = stored("set.zip", &zip_of(&members, deflate));
        let archive = Archive::open(&path).unwrap();
        assert_eq!(archive.names(), ["MUTAG/MUTAG_A.txt", "deep/raw/edge.csv.gz", "raw/edge.csv.gz"]);
        assert_eq!(archive.find("MUTAG_A.txt"), Some("MUTAG/MUTAG_A.txt"));
        assert_eq!(archive.find("raw/edge.csv.gz"), Some("raw/edge.csv.gz"), "the shallowest");
        assert_eq!(archive.find("deep//raw/edge.csv.gz"), Some("deep/raw/edge.csv.gz"));
        assert_eq!((archive.find("UTAG_A.txt"), archive.find("dge.csv.gz"), archive.find("x")), (None, None, None));
        // More than one gzip member in a file is one text.
        assert_eq!(archive.read("raw/edge.csv.gz", 100).unwrap(), b"1,2\n3,4\n");
        assert_eq!(archive.read("MUTAG/MUTAG_A.txt", 5).unwrap(), b"1, 2\n");
        assert!(archive.location("raw/edge.csv.gz").ends_with("set.zip/raw/edge.csv.gz"));
        let text = archive.read("MUTAG/MUTAG_A.txt", 4).unwrap_err().to_string();
        assert!(text.contains("set.zip/MUTAG/MUTAG_A.txt: expected at most 4 bytes"), "{text}");
        let text = archive.read("raw/edge.csv", 4).unwrap_err().to_string();
        assert!(text.contains("expected a member `raw/edge.csv`") && text.contains("did you mean"), "{text}");
        let mut reader = archive.reader("raw/edge.csv.gz").unwrap();
        drop(archive);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "1,2\n3,4\n");
    }

    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(directory.path().join("MUTAG/raw")).unwrap();
    std::fs::write(directory.path().join("MUTAG/MUTAG_A.txt"), b"1, 2\n").unwrap();
    std::fs::write(directory.path().join("MUTAG/raw/edge.csv.gz"), &two).unwrap();
    let archive = Archive::open(directory.path()).unwrap();
    assert_eq!(archive.names(), ["MUTAG/MUTAG_A.txt", "MUTAG/raw/edge.csv.gz"]);
    assert_eq!(archive.read("MUTAG/MUTAG_A.txt", 5).unwrap(), b"1, 2\n");
    assert_eq!(archive.read(archive.find("edge.csv.gz").unwrap(), 8).unwrap(), b"1,2\n3,4\n");
    assert!(archive.read("../secret", 8).is_err());
}

#[cfg(unix)]
#[test]
fn links_are_followed_but_not_in_circles() {
    use std::os::unix::fs::symlink;
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    std::fs::create_dir(root.join("raw")).unwrap();
    std::fs::write(root.join("raw/a.txt"), b"a").unwrap();
    symlink(root.join("raw/a.txt"), root.join("b.txt")).unwrap();
    symlink(root, root.join("raw/up")).unwrap();
    symlink(root.join("nowhere"), root.join("gone")).unwrap();
    let archive = Archive::open(root).unwrap();
    assert_eq!(archive.names(), ["b.txt", "raw/a.txt"]);
    assert_eq!(archive.read("b.txt", 1).unwrap(), b"a");
}

#[test]
fn a_walk_is_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let deep = (0..12).fold(directory.path().to_path_buf(), |path, level| path.join(level.to_string()));
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("a.txt"), b"a").unwrap();
    std::fs::write(directory.path().join("b.txt"), b"b").unwrap();
    assert_eq!(Archive::open(directory.path()).unwrap().names(), ["b.txt"]);
    let text = tree::walk(directory.path(), 3).unwrap_err().to_string();
    assert!(text.contains("expected at most 3 entries"), "{text}");
}

#[test]
fn names_that_lead_outside_are_refused() {
    assert_eq!(tree::clean("a//b/./c.txt").as_deref(), Some("a/b/c.txt"));
    for name in ["/etc/passwd", "../a", "a/../../b", "a\\b", "C:/a", "c:a", "a\0b", ".."] {
        assert_eq!(tree::clean(name), None, "{name:?}");
    }
    // The writer of the tests refuses some of these names itself; the bytes are changed behind its back.
    for (placed, hostile) in [
        ("xx/secret", "../secret"),
        ("x/secret.", "/a/secret"),
        ("x/secret.", "a\\secret."),
        ("x/secret.", "C:/secret"),
    ] {
        let bytes = zip_of(&[(placed, b"a")], true);
        let bytes = replaced(&bytes, placed.as_bytes(), hostile.as_bytes());
        let text = open_bytes(&bytes).unwrap_err().to_string();
        assert!(text.contains("a.zip: member") && text.contains("could lead outside"), "{hostile}: {text}");
    }
    let mut writer = ZipWriter::new(io::Cursor::new(Vec::new()));
    writer.add_symlink("link", "/etc/passwd", SimpleFileOptions::default()).unwrap();
    let text = open_bytes(&writer.finish().unwrap().into_inner()).unwrap_err().to_string();
    assert!(text.contains("\"link\" is a symbolic link"), "{text}");
}

fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    assert_eq!(old.len(), new.len());
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while at + old.len() <= bytes.len() {
        if bytes[at..].starts_with(old) {
            bytes[at..at + old.len()].copy_from_slice(new);
        }
        at += 1;
    }
    bytes
}

#[test]
fn encrypted_and_foreign_members_are_refused() {
    let mut bytes = zip_of(&[("a.txt", b"hello")], true);
    // Bit 0 of the general purpose flags, in the local and in the central header.
    bytes[6] |= 1;
    let central = bytes.windows(4).position(|four| four == b"PK\x01\x02").unwrap();
    bytes[central + 8] |= 1;
    let text = open_bytes(&bytes).unwrap_err().to_string();
    assert!(text.contains("\"a.txt\" is encrypted"), "{text}");

    let mut bytes = zip_of(&[("a.txt", b"hello")], true);
    let central = bytes.windows(4).position(|four| four == b"PK\x01\x02").unwrap();
    // 12 is bzip2.
    (bytes[8], bytes[central + 10]) = (12, 12);
    let text = open_bytes(&bytes).unwrap_err().to_string();
    assert!(text.contains("\"a.txt\" is compressed by") && text.contains("expected deflate"), "{text}");

    let text = open_bytes(b"not a zip").unwrap_err().to_string();
    assert!(text.contains("expected a directory or a .zip"), "{text}");
    assert!(Archive::open(Path::new("no/such/file.zip")).unwrap_err().to_string().contains("no/such/file.zip"));
    let text = open_bytes(&zip_of(&[("a/b.txt", b"1"), ("a//b.txt", b"2")], false)).unwrap_err().to_string();
    assert!(text.contains("found `a/b.txt` twice"), "{text}");
}

#[test]
fn truncated_and_damaged_members_are_errors() {
    let whole = [gz(b"first member, "), gz(b"second member")].concat();
    let first = gz(b"first member, ").len();
    for end in 0..whole.len() {
        let (directory, _) = stored("a.gz", &whole[..end]);
        let read = Archive::open(directory.path()).unwrap().read("a.gz", 100);
        if end == first {
            assert_eq!(read.unwrap(), b"first member, ", "a complete gzip file");
        } else {
            let text = read.unwrap_err().to_string();
            assert!(text.contains("a.gz: ") && text.contains("damaged or truncated"), "{end}: {text}");
        }
    }
    let text: Vec<u8> = (0..5000u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let zip = zip_of(&[("a.txt", &text)], true);
    let mut damaged = zip.clone();
    damaged[1000] ^= 0xff;
    let (_directory, path) = stored("a.zip", &damaged);
    let error = Archive::open(&path).unwrap().read("a.txt", 1 << 20).unwrap_err().to_string();
    assert!(error.contains("a.zip/a.txt: ") && error.contains("damaged or truncated"), "{error}");
    for end in [zip.len() - 1, zip.len() / 2, 10, 0] {
        assert!(open_bytes(&zip[..end]).is_err(), "{end}");
    }
    // A deflate stream that is cut off ends quietly: only the promised size and checksum tell.
    for (size, crc) in [(text.len() as u64 + 1, 0), (text.len() as u64, 0), (3, 0)] {
        let mut sink = Vec::new();
        assert!(Checked::new(&text[..], size, crc).read_to_end(&mut sink).is_err(), "{size}");
    }
}

#[test]
fn a_stream_beyond_the_limit_fails() {
    let mut sink = Vec::new();
    assert_eq!(Limited::with_left(&b"abc"[..], 3).read_to_end(&mut sink).unwrap(), 3);
    let error = Limited::with_left(&b"abcd"[..], 3).read_to_end(&mut sink).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert!(error.to_string().contains("decompress it yourself and pass the directory"), "{error}");

    // Each member is a mebibyte of zeros in about a kilobyte: 256 times the file is less than what comes.
    let mebibytes = 600;
    let mut member = GzEncoder::new(Vec::new(), Compression::default());
    member.write_all(&vec![0; 1 << 20]).unwrap();
    let bomb = member.finish().unwrap().repeat(mebibytes);
    assert!(bomb.len() * 256 + (256 << 20) < mebibytes << 20, "{} bytes are no trap", bomb.len());
    let (directory, path) = stored("zeros.gz", &bomb);
    let mut reader = Archive::open(directory.path()).unwrap().reader("zeros.gz").unwrap();
    let failed = io::copy(&mut reader, &mut io::sink()).unwrap_err();
    assert_eq!(failed.kind(), io::ErrorKind::InvalidData);
    let text = Archive::open(directory.path()).unwrap().failed("zeros.gz", failed).to_string();
    assert!(text.contains(&path.display().to_string()) && text.contains("looks like a trap"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn damaged_zips_never_panic(at in 0usize..400, byte: u8, cut in 0usize..400, more in proptest::collection::vec(any::<u8>(), 0..40)) {
        let mut bytes = zip_of(&[("a/b.txt", b"some text, some text"), ("c.txt.gz", &gz(b"1, 2\n"))], true);
        let length = bytes.len();
        bytes[at % length] = byte;
        if cut % 3 == 0 {
            bytes.truncate(length - cut % length);
        }
        bytes.extend(more);
        let (_directory, path) = stored("a.zip", &bytes);
        if let Ok(archive) = Archive::open(&path) {
            for name in archive.names() {
                // A change that goes unnoticed must be one outside the data.
                if let Ok(text) = archive.read(name, 1000) {
                    prop_assert!(text == b"some text, some text" || text == b"1, 2\n" || !name.ends_with(".txt"), "{name}");
                }
            }
        }
    }
}

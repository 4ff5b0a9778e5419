//! The CUDA driver, as far as the machine goes: without a GPU every failure is a message, with NVRTC the embedded kernels
//! compile, and with a GPU memory, launches and products work. Where there is a C compiler, the last also runs on a fake
//! driver (`fake_cuda/fake.c`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a test may stop at the first surprise

use harmonia::device::cuda::{self, Cuda, nvrtc};
use harmonia::device::launcher::{self, Driver, Gemm, GemmBatch, Launch};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Whether the kernels are there in a form a device can run.
fn has_kernels() -> bool {
    !cuda::embedded().fatbin.is_empty() || nvrtc::version().is_ok()
}

/// A device, or why there is none.
fn device() -> Option<Cuda> {
    match cuda::device_count() {
        Ok(0) => println!("skipped: no CUDA device"),
        Ok(_) if !has_kernels() => println!("skipped: built without nvcc, and libnvrtc is not installed"),
        Ok(_) => return Some(Cuda::new(0).unwrap()),
        Err(reason) => println!("skipped: no CUDA device ({reason})"),
    }
    None
}

#[test]
fn a_machine_without_a_driver_gets_a_message() {
    let Err(error) = cuda::device_count() else {
        println!("skipped: this machine has an NVIDIA driver");
        return;
    };
    assert!(error.to_string().starts_with("no NVIDIA driver (libcuda.so.1 was not found)"), "{error}");
    assert_eq!(error.exit_code(), 1);
    assert_eq!(Cuda::new(0).err().map(|error| error.to_string()), Some(error.to_string()));
    assert_eq!(cuda::devices().err().map(|error| error.to_string()), Some(error.to_string()));
}

/// Kernels by name.
fn kernels() -> BTreeSet<&'static str> {
    launcher::kernels().iter().map(|kernel| kernel.name).collect()
}

fn contains(bytes: &[u8], name: &str) -> bool {
    bytes.windows(name.len()).any(|window| window == name.as_bytes())
}

#[test]
fn the_embedded_source_compiles_with_nvrtc() {
    if let Err(reason) = nvrtc::version() {
        println!("skipped: libnvrtc ({reason})");
        return;
    }
    assert!(!kernels().is_empty());
    for target in [nvrtc::Target::Machine(80), nvrtc::Target::Machine(89), nvrtc::Target::Ptx(80)] {
        let code = nvrtc::compile(cuda::embedded().source, target).unwrap();
        assert_eq!(code.log, "", "warnings for {target}");
        for kernel in kernels() {
            assert!(contains(&code.image, kernel), "{kernel} is missing for {target}");
        }
    }
}

#[test]
fn nvrtc_says_where_a_kernel_is_wrong() {
    if let Err(reason) = nvrtc::version() {
        println!("skipped: libnvrtc ({reason})");
        return;
    }
    let wrong = "#line 7 \"kernels/wrong.cu\"\nextern \"C\" __global__ void wrong() { undeclared = 1; }\n";
    let message = nvrtc::compile(wrong, nvrtc::Target::Machine(80)).unwrap_err().to_string();
    assert!(message.contains("kernels/wrong.cu(7)") && message.contains("undeclared"), "{message}");
    assert!(nvrtc::compile("a\0b", nvrtc::Target::Machine(80)).is_err());
}

#[test]
fn compiled_kernels_are_kept_and_damaged_ones_made_again() {
    if let Err(reason) = nvrtc::version() {
        println!("skipped: libnvrtc ({reason})");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let cache = scratch.path().join("deep/cache");
    let source = "extern \"C\" __global__ void kept(float* x) { x[threadIdx.x] += 1.0f; }\n";
    let compile = |source: &str, cache: &Path| nvrtc::cached(source, nvrtc::Target::Machine(80), Some(cache)).unwrap();
    let first = compile(source, &cache);
    assert!(!first.cached && first.not_kept.is_none());
    let second = compile(source, &cache);
    assert!(second.cached);
    assert_eq!(first.image, second.image);

    // Another source, another target: other files.
    assert!(!compile(&format!("{source}\n"), &cache).cached);
    assert!(!nvrtc::cached(source, nvrtc::Target::Machine(89), Some(&cache)).unwrap().cached);

    let files = || std::fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(files().count(), 3);
    for path in files() {
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    let again = compile(source, &cache);
    assert!(!again.cached);
    assert_eq!(again.image, first.image);
    assert!(compile(source, &cache).cached);
    for path in files() {
        std::fs::write(&path, b"").unwrap();
    }
    assert!(!compile(source, &cache).cached);

    // A file where the directory should be: compiled, not kept, no failure.
    let file = scratch.path().join("file");
    std::fs::write(&file, b"").unwrap();
    assert!(compile(source, &file).not_kept.is_some());
}

#[test]
fn the_fatbin_holds_every_kernel() {
    let embedded = cuda::embedded();
    if embedded.fatbin.is_empty() {
        println!("skipped: built without nvcc");
        return;
    }
    for kernel in kernels() {
        for arch in embedded.archs.split(',') {
            let line = format!("Compiling entry function '{kernel}' for 'sm_{arch}'");
            assert!(embedded.ptxas_report.contains(&line), "ptxas did not compile {kernel} for sm_{arch}");
        }
    }
}

#[test]
fn memory_keeps_what_is_written() {
    let Some(cuda) = device() else { return };
    for size in [0, 1, 255, 1 << 20, (40 << 20) + 3] {
        let bytes: Vec<u8> = (0..size).map(|i: usize| (i % 251) as u8).collect();
        let mut memory = cuda.allocate(size).unwrap();
        assert_eq!(cuda.size(&memory), size);
        assert_eq!(cuda.address(&memory) % 256, 0);
        assert_ne!(cuda.address(&memory), 0);
        cuda.write(&mut memory, &bytes).unwrap();
        let mut back = vec![1; size];
        cuda.read(&mut back, &memory).unwrap();
        assert!(back == bytes, "{size} bytes came back different");
        cuda.clear(&mut memory).unwrap();
        cuda.read(&mut back, &memory).unwrap();
        assert!(back.iter().all(|&byte| byte == 0), "{size} bytes were not cleared");
        assert!(cuda.write(&mut memory, &vec![0; size + 1]).is_err());
        assert!(cuda.read(&mut vec![0; size + 1], &memory).is_err());
    }
    let error = cuda.allocate(1 << 50).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.starts_with("out of memory: needed 1048576.0 GiB, free "), "{error}");
}

#[test]
fn any_thread_may_call() {
    let Some(cuda) = device() else { return };
    std::thread::scope(|scope| {
        for thread in 0..8u8 {
            let cuda = &cuda;
            scope.spawn(move || {
                for size in (1..100_000).step_by(9_973) {
                    let bytes = vec![thread; size];
                    let mut memory = cuda.allocate(size).unwrap();
                    cuda.write(&mut memory, &bytes).unwrap();
                    let mut back = vec![0; size];
                    cuda.read(&mut back, &memory).unwrap();
                    assert!(back == bytes);
                }
            });
        }
    });
}

#[test]
#[allow(unsafe_code)]
fn products_are_row_major() {
    let Some(cuda) = device() else { return };
    let upload = |values: &[f32]| {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut memory = cuda.allocate(bytes.len()).unwrap();
        cuda.write(&mut memory, &bytes).unwrap();
        memory
    };
    const COUNT: usize = 3;
    let (m, n, k) = (2, 3, 4);
    let a = |at: usize, i: usize, l: usize| (i * k + l + at) as f32;
    let b = |at: usize, l: usize, j: usize| (l * n + j) as f32 - 3.0 * at as f32;
    for (transpose_a, transpose_b, beta) in
        [(false, false, 0.0), (true, false, 1.0), (false, true, 0.0), (true, true, 1.0)]
    {
        let of_a = |i: usize| (i / (m * k), i % (m * k));
        let matrices_a: Vec<f32> = (0..COUNT * m * k)
            .map(of_a)
            .map(|(at, i)| if transpose_a { a(at, i % m, i / m) } else { a(at, i / k, i % k) })
            .collect();
        let of_b = |i: usize| (i / (k * n), i % (k * n));
        let matrices_b: Vec<f32> = (0..COUNT * k * n)
            .map(of_b)
            .map(|(at, i)| if transpose_b { b(at, i % k, i / k) } else { b(at, i / n, i % n) })
            .collect();
        let (a_memory, b_memory) = (upload(&matrices_a), upload(&matrices_b));
        for count in [1, COUNT] {
            let c_memory = upload(&vec![100.0; COUNT * m * n]);
            let (a_at, b_at, c_at) = (cuda.address(&a_memory), cuda.address(&b_memory), cuda.address(&c_memory));
            let first = Gemm { m, n, k, a: a_at, transpose_a, b: b_at, transpose_b, beta, c: c_at };
            let batch = GemmBatch { first, count, stride_a: m * k, stride_b: k * n, stride_c: m * n };
            // SAFETY: the three allocations are alive and hold so many matrices of these sizes.
            unsafe { if count == 1 { cuda.gemm(&first) } else { cuda.gemm_batch(&batch) } }.unwrap();
            let mut bytes = vec![0; COUNT * m * n * 4];
            cuda.read(&mut bytes, &c_memory).unwrap();
            let found: Vec<f32> =
                bytes.chunks_exact(4).map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
            let product = |at: usize, i: usize| (0..k).map(|l| a(at, i / n, l) * b(at, l, i % n)).sum::<f32>();
            let expected: Vec<f32> = (0..COUNT * m * n)
                .map(|i| (i / (m * n), i % (m * n)))
                .map(|(at, i)| if at < count { beta * 100.0 + product(at, i) } else { 100.0 })
                .collect();
            assert_eq!(found, expected, "{count}, transpose_a {transpose_a}, transpose_b {transpose_b}, beta {beta}");
        }
    }
}

/// Set for tests that run on the fake driver.
const FAKE: &str = "FAKE_CUDA";

/// The argument of the fake driver's kernels.
#[repr(C)]
struct Fill {
    at: u64,
    count: u64,
    value: f32,
}

#[allow(unsafe_code)]
fn fill(cuda: &Cuda, kernel: &'static str, shared_bytes: u32, count: usize) -> harmonia::Result<Vec<u8>> {
    let memory = cuda.allocate(count * 4)?;
    let fill = Fill { at: cuda.address(&memory), count: count as u64, value: 2.5 };
    let arguments = (&raw const fill).cast();
    // SAFETY: the struct is what the fake kernels take, and the memory holds `count` floats.
    unsafe { cuda.launch(&Launch { kernel, grid: [1, 1, 1], block: [32, 1, 1], shared_bytes, arguments })? };
    let mut bytes = vec![0; count * 4];
    cuda.read(&mut bytes, &memory)?;
    Ok(bytes)
}

#[test]
fn fake_launches_get_their_argument_and_failures_their_kernel() {
    if std::env::var_os(FAKE).is_none() {
        return; // run by `the_adapter_works_on_a_fake_driver`
    }
    let cuda = Cuda::new(0).unwrap();
    println!("kernels: {}", cuda.kernel_origin());
    assert_eq!((cuda.name().as_str(), cuda.shared_limit()), ("Fake GPU", 101_376));
    assert_eq!(cuda.info().capability, (8, 9));
    assert_eq!(cuda::devices().unwrap().len(), 1);
    assert_eq!(cuda.free_bytes().unwrap(), Some(1 << 30));
    assert_eq!(cuda.time(|| Ok(())).unwrap(), 1.5);

    let bytes = fill(&cuda, "fake_fill", 60_000, 1000).unwrap();
    assert!(bytes.chunks_exact(4).all(|word| word == 2.5f32.to_le_bytes()));
    let message = |kernel, shared| fill(&cuda, kernel, shared, 1).unwrap_err().to_string();
    assert!(message("fake_fill", 101_001).contains("`fake_fill` asks for shared memory of 101377 bytes"));
    assert!(message("no_such_kernel", 0).contains("cannot find kernel `no_such_kernel`"));
    let crash = message("fake_crash", 0);
    println!("{crash}");
    assert!(crash.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{crash}");
    // Who has set it is not told to set it.
    if std::env::var("HARMONIA_CUDA_SYNC").is_ok_and(|sync| sync == "1") {
        assert!(crash.ends_with("; it was kernel `fake_crash` that failed"), "{crash}");
    } else {
        assert!(crash.contains("launched last is `fake_crash`: HARMONIA_CUDA_SYNC=1 waits after each"), "{crash}");
    }
}

#[test]
fn fake_new_prints_its_outcome() {
    if std::env::var_os(FAKE).is_some() {
        println!("{}", Cuda::new(0).map_or_else(|error| error.to_string(), |cuda| cuda.kernel_origin().to_string()));
    }
}

#[test]
fn the_adapter_works_on_a_fake_driver() {
    let scratch = tempfile::tempdir().unwrap();
    let library = scratch.path().join("libcuda.so");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_string());
    let arguments = ["-shared", "-fPIC", "-O1", "-pthread", "-o"];
    let compiled = Command::new(compiler).args(arguments).arg(&library).arg("tests/fake_cuda/fake.c").status();
    if !compiled.is_ok_and(|status| status.success()) {
        println!("skipped: no C compiler for the fake driver");
        return;
    }
    // A link, so that the loader opens one library under both names.
    std::os::unix::fs::symlink(&library, scratch.path().join("libcublas.so")).unwrap();

    let run = |tests: &[&str], settings: &[(&str, &str)]| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(tests).args(["--exact", "--show-output", "--test-threads=1"]).env(FAKE, "1");
        command.env("LD_LIBRARY_PATH", scratch.path()).env("HARMONIA_CACHE", scratch.path().join("cache"));
        let output = command.envs(settings.iter().copied()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{tests:?} {settings:?}\n{text}");
        assert!(!text.contains("skipped"), "{text}");
        text
    };
    let outcome = |settings: &[(&str, &str)], expected: &[&str]| {
        let text = run(&["fake_new_prints_its_outcome"], settings);
        assert!(expected.iter().all(|expected| text.contains(expected)), "{settings:?}: {expected:?}\n{text}");
    };
    outcome(&[("FAKE_DEVICES", "0")], &["no CUDA device: "]);
    outcome(&[("FAKE_CAPABILITY", "70")], &["Fake GPU has compute capability 7.0; the kernels need 7.5 (Turing)"]);
    if !has_kernels() {
        outcome(&[], &["built without nvcc", "libnvrtc was not found"]);
        println!("skipped in part: built without nvcc, and libnvrtc is not installed");
        return;
    }

    let works = ["memory_keeps_what_is_written", "any_thread_may_call", "products_are_row_major"];
    for pools in ["0", "1"] {
        run(&works, &[("FAKE_POOLS", pools)]);
    }
    for sync in ["0", "1"] {
        run(&["fake_launches_get_their_argument_and_failures_their_kernel"], &[("HARMONIA_CUDA_SYNC", sync)]);
    }

    let (built, nvrtc) = (!cuda::embedded().fatbin.is_empty(), nvrtc::version().is_ok());
    let (refuse_fatbins, refuse_all, old_driver) =
        (("FAKE_REFUSE", "1"), ("FAKE_REFUSE", "2"), ("FAKE_DRIVER", "10020"));
    if nvrtc {
        let cache = scratch.path().join("fresh");
        let fresh = ("HARMONIA_CACHE", cache.to_str().unwrap());
        outcome(&[refuse_fatbins, fresh], &["NVRTC", "sm_89, compiled now"]);
        outcome(&[refuse_fatbins, fresh], &["NVRTC", "sm_89, cached"]);
        outcome(&[refuse_all], &["the driver refused what NVRTC"]);
        outcome(&[old_driver], &["is newer than the driver, which supports CUDA 10.2"]);
    } else {
        println!("skipped in part: libnvrtc");
        outcome(&[refuse_fatbins], &["libnvrtc was not found"]);
    }
    if built {
        outcome(&[], &["fatbin sm_8"]);
        outcome(&[refuse_all], &["the driver refused the kernels built by nvcc", "NO_BINARY_FOR_GPU"]);
        outcome(&[old_driver], &["the NVIDIA driver supports CUDA 10.2 and these kernels were built with CUDA"]);
    } else {
        outcome(&[old_driver], &["this program was built without nvcc"]);
    }
}

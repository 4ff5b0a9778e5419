//! Memory of this process, as the system counts it.

/// Bytes of memory; nothing where the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// Most that was ever resident, mapped files included.
    pub peak: Option<u64>,
    /// Resident now and in no file: what is left when the pages of a mapped store are not counted.
    pub anonymous: Option<u64>,
}

/// What this process takes; nothing where the system does not say.
pub fn now() -> Memory {
    std::fs::read_to_string("/proc/self/status").map(|text| parse(&text)).unwrap_or_default()
}

/// Reads `/proc/self/status`.
fn parse(text: &str) -> Memory {
    let kibibytes = |key: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    let bytes = |key: &str| kibibytes(key).map(|count| count * 1024);
    Memory { peak: bytes("VmHWM:"), anonymous: bytes("RssAnon:") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_words_are_read() {
        let text = "Name:\tx\nVmHWM:\t    2048 kB\nRssAnon:\t       3 kB\n";
        assert_eq!(parse(text), Memory { peak: Some(2 << 20), anonymous: Some(3072) });
        assert_eq!(parse("nothing here"), Memory::default());
        assert_eq!(parse("VmHWM: many kB"), Memory::default());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_some() {
        let Memory { peak, anonymous } = now();
        assert!(peak.unwrap() >= anonymous.unwrap() && anonymous.unwrap() > 0);
    }
}

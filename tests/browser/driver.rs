//! A browser without a window, driven over W3C WebDriver. Whatever happens, it is closed when it goes out of scope.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One browser at a time: several would slow each other down on a small machine.
static TURN: Mutex<()> = Mutex::new(());
/// Long enough for a busy machine; a page that takes longer is broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// The browser's flags: no window, no network of its own, and usable as root in a container.
const FLAGS: [&str; 10] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-device-scale-factor=1",
];

pub struct Browser {
    driver: Child,
    session: String,
    agent: ureq::Agent,
    scratch: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

fn program(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    names.iter().find_map(|name| std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file()))
}

impl Browser {
    /// `None`, said aloud, on a machine without a browser.
    pub fn start() -> Option<Browser> {
        let (Some(chromium), Some(driver)) =
            (program(&["chromium", "chromium-browser", "google-chrome"]), program(&["chromedriver"]))
        else {
            println!("skipped: chromium and chromedriver");
            return None;
        };
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let scratch = tempfile::tempdir().unwrap();
        let mut child =
            Command::new(driver).arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let port = { lines }.find_map(|line| {
            let (_, port) = line.split_once("started successfully on port ")?;
            port.trim_end_matches('.').parse::<u16>().ok()
        });
        let agent =
            ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE)).build().into();
        let mut browser = Browser { driver: child, session: String::new(), agent, scratch, _turn: turn };
        let base = format!("http://127.0.0.1:{}/session", port.expect("chromedriver names its port"));
        let profile = format!("--user-data-dir={}", browser.scratch.path().join("profile").display());
        let flags: Vec<&str> = FLAGS.into_iter().chain([profile.as_str()]).collect();
        let made = browser.post(
            &base,
            json!({"capabilities": {"alwaysMatch": {
                "browserName": "chrome",
                "goog:loggingPrefs": {"browser": "ALL"},
                "goog:chromeOptions": {"args": flags, "binary": chromium}
            }}}),
        );
        browser.session = format!("{base}/{}", made["sessionId"].as_str().unwrap());
        Some(browser)
    }

    fn post(&self, url: &str, body: Value) -> Value {
        let mut answer = self.agent.post(url).content_type("application/json").send(body.to_string()).unwrap();
        let status = answer.status();
        let value: Value = serde_json::from_str(&answer.body_mut().read_to_string().unwrap()).unwrap();
        assert!(status.is_success(), "{url}: {value:#}");
        value["value"].clone()
    }

    fn command(&self, name: &str, body: Value) -> Value {
        self.post(&format!("{}/{name}", self.session), body)
    }

    /// Opens a page from a file, as a double click would.
    pub fn open(&self, page: &str) {
        let file = self.scratch.path().join("report.html");
        std::fs::write(&file, page).unwrap();
        self.command("url", json!({"url": format!("file://{}", file.display())}));
        assert_eq!(self.run("return document.documentElement.dataset.ready"), "true", "{:?}", self.messages());
    }

    /// The value of a script's `return`.
    pub fn run(&self, script: &str) -> Value {
        self.command("execute/sync", json!({"script": script, "args": []}))
    }

    /// The list of texts that a script returns; most checks list what is wrong.
    pub fn list(&self, script: &str) -> Vec<String> {
        serde_json::from_value(self.run(script)).unwrap()
    }

    /// After the next frame is drawn.
    pub fn settled(&self) {
        self.command(
            "execute/async",
            json!({"script": "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))", "args": []}),
        );
    }

    /// Chooses an option as a user would: by value, with its events.
    pub fn choose(&self, selector: &str, value: &str) {
        let (selector, value) = (json!(selector), json!(value));
        self.run(&format!(
            "const field = document.querySelector({selector}); if (field.disabled) throw new Error('disabled');
             field.value = {value}; if (field.value !== {value}) throw new Error('no such option');
             for (const kind of ['input', 'change']) field.dispatchEvent(new Event(kind, {{bubbles: true}}));"
        ));
    }

    /// A real click in the middle of an element.
    pub fn click(&self, selector: &str) {
        // At once: the page scrolls smoothly, and a click does not wait for that.
        let place = "{behavior: 'instant', block: 'center'}";
        self.run(&format!("document.querySelector({}).scrollIntoView({place})", json!(selector)));
        let element = self.command("element", json!({"using": "css selector", "value": selector}));
        let id = element.as_object().and_then(|map| map.values().next()).and_then(Value::as_str).unwrap().to_string();
        self.command(&format!("element/{id}/click"), json!({}));
    }

    /// Presses and releases a key.
    pub fn press(&self, key: &str) {
        let actions = json!([{"type": "key", "id": "keyboard", "actions": [
            {"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]}]);
        self.command("actions", json!({"actions": actions}));
    }

    /// A command of the developer tools.
    pub fn tools(&self, command: &str, parameters: Value) -> Value {
        self.command("goog/cdp/execute", json!({"cmd": command, "params": parameters}))
    }

    /// Width of the page, as a phone or a screen would have it.
    pub fn width(&self, width: u32) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600});
        self.tools("Emulation.setDeviceMetricsOverride", size);
        self.settled();
    }

    /// Everything the console heard since the last call.
    pub fn messages(&self) -> Vec<String> {
        let log = self.command("se/log", json!({"type": "browser"}));
        log.as_array().unwrap().iter().map(ToString::to_string).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = self.agent.delete(&self.session).call();
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

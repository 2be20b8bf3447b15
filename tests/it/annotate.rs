//! The real pages in a real browser: Chromium without a window, driven through WebDriver. Needs `chromedriver` and
//! Chromium, as Debian's `chromium-driver` brings them.

use crate::gold::drawn;
use aac::annotate::{self, AnnotateOptions, Running};
use aac::job::gold::verify::add_document;
use aac::store::{Journal, Store};
use aac::taxonomy::LabelStatus;
use fantoccini::actions::{InputSource as _, KeyAction, KeyActions};
use fantoccini::key::Key;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long a page may take before the test gives up on it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A driver that ends with the test.
struct Driver(Child);

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A driver and its address, or nothing where there is none on this machine.
fn driver() -> Option<(Driver, String)> {
    let started = Command::new("chromedriver").arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = started else {
        eprintln!("SKIPPED: install chromium and chromium-driver to drive the pages in a browser");
        return None;
    };
    let out = child.stdout.take().unwrap();
    let driver = Driver(child);
    let mut lines = BufReader::new(out).lines().map_while(Result::ok);
    let port = lines
        .find_map(|line| {
            line.split("started successfully on port ").nth(1).map(|rest| rest.trim_end_matches('.').to_owned())
        })
        .expect("chromedriver tells its port");
    // What it says later must not fill the pipe.
    std::thread::spawn(move || lines.for_each(drop));
    Some((driver, format!("http://127.0.0.1:{port}")))
}

async fn browser(driver: &str, dark: bool) -> Client {
    let mut arguments = vec![
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--no-proxy-server",
        "--hide-scrollbars",
    ];
    if dark {
        arguments.push("--force-dark-mode");
        arguments.push("--blink-settings=preferredColorScheme=0");
    }
    let options = json!({ "args": arguments });
    let capabilities = json!({ "browserName": "chrome", "goog:chromeOptions": options });
    let Value::Object(capabilities) = capabilities else { unreachable!("an object was written") };
    ClientBuilder::new(HttpConnector::new()).capabilities(capabilities).connect(driver).await.expect("a browser")
}

/// Press one key on the page, wherever the focus is.
async fn press(page: &Client, key: char) {
    let keys =
        KeyActions::new("keyboard".to_owned()).then(KeyAction::Down { value: key }).then(KeyAction::Up { value: key });
    page.perform_actions(keys).await.unwrap();
}

/// Wait until a script on the page gives something that is true.
async fn until(page: &Client, what: &str) -> Value {
    let script = format!("return ({what}) || null");
    let begun = std::time::Instant::now();
    loop {
        let found = page.execute(&script, vec![]).await.unwrap();
        if !found.is_null() {
            return found;
        }
        if begun.elapsed() > PATIENCE {
            let text = page.find(Locator::Css("body")).await.unwrap().text().await.unwrap();
            panic!("never came: {what}\n{text}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn current(page: &Client) -> String {
    until(page, "document.body.dataset.ready && document.body.dataset.item").await.as_str().unwrap().to_owned()
}

async fn open(page: &Client, running: &Running, path: &str) {
    page.goto(&format!("{}{path}", running.url())).await.unwrap();
    until(page, "document.body.dataset.ready").await;
}

/// Press a key and wait until another item is shown, or the end.
async fn press_on(page: &Client, key: char) {
    let before = current(page).await;
    press(page, key).await;
    until(page, &format!("document.body.dataset.item !== '{before}' || !document.getElementById('done').hidden")).await;
}

async fn shot(page: &Client, width: u32, height: u32, name: &str) {
    let Some(folder) = std::env::var_os("AAC_SCREENSHOTS") else { return };
    page.set_window_size(width, height).await.unwrap();
    // Two frames later the new size is on the screen.
    page.execute_async(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))",
        vec![],
    )
    .await
    .unwrap();
    let image = page.screenshot().await.unwrap();
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(Path::new(&folder).join(format!("{name}-{width}.png")), image).unwrap();
}

async fn shots(page: &Client, name: &str) {
    shot(page, 390, 844, name).await;
    shot(page, 1280, 800, name).await;
}

async fn labelled(store: &Store, who: &str) -> Vec<(String, Option<String>)> {
    let marks = store.marks(Journal::Labels, Some((who, 1))).await.unwrap();
    let done = marks.into_iter().filter(|mark| mark.mark.status == LabelStatus::Labelled);
    done.map(|mark| (mark.item, mark.mark.class)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn people_label_undo_resume_adjudicate_and_see_how_far_they_agree() {
    let Some((_driver, address)) = driver() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.db");
    let store = drawn(&path, 30).await;
    assert_eq!(store.gold_items().await.unwrap().len(), 30);
    let page = browser(&address, false).await;
    page.set_window_size(1280, 800).await.unwrap();
    let serve = |store: Store| annotate::serve(store, AnnotateOptions::default());
    let running = serve(store.clone()).await.unwrap();

    // A name, then the task.
    page.goto(running.url()).await.unwrap();
    until(&page, "document.body.dataset.ready").await;
    page.find(Locator::Css("#name")).await.unwrap().send_keys("ann").await.unwrap();
    page.find(Locator::Css("#name-form button")).await.unwrap().click().await.unwrap();
    until(&page, "document.getElementById('to-label')").await;
    shots(&page, "start").await;
    page.find(Locator::Css("#to-label")).await.unwrap().click().await.unwrap();
    current(&page).await;
    shots(&page, "label").await;

    // Twelve by keyboard; the stored text is text: no element came of it and no script ran.
    for n in 0..12 {
        press_on(&page, ['1', '2', '3', '4', '5', '6'][n % 6]).await;
    }
    assert_eq!(labelled(&store, "ann").await.len(), 12);
    let made =
        page.execute("return document.querySelectorAll('#item img, #item b, #item script').length", vec![]).await;
    assert_eq!(made.unwrap(), json!(0));
    assert_ne!(page.title().await.unwrap(), "hit");

    // Flag and note stay on the item; keys typed into the note are no commands.
    let noted = current(&page).await;
    press(&page, 'f').await;
    until(&page, "document.querySelector('[data-act=flag]').getAttribute('aria-pressed') === 'true'").await;
    press(&page, 'n').await;
    until(&page, "document.activeElement.id === 'note-text'").await;
    let field = page.find(Locator::Css("#note-text")).await.unwrap();
    field.send_keys("12 uskf?").await.unwrap();
    field.send_keys(&Key::Enter.to_string()).await.unwrap();
    until(&page, "document.getElementById('own-note').textContent === '12 uskf?'").await;
    assert_eq!(current(&page).await, noted);
    let kept = store.mark(Journal::Labels, &noted, "ann", 1).await.unwrap().unwrap().mark;
    assert_eq!((kept.flagged, kept.note.as_str(), kept.status), (true, "12 uskf?", LabelStatus::Open));

    // The rubric beside the item, the keys, and one item passed over.
    press(&page, 'h').await;
    until(&page, "document.querySelectorAll('#rubric-text table tr').length > 5").await;
    shots(&page, "rubric").await;
    page.set_window_size(1280, 800).await.unwrap();
    press(&page, 'h').await;
    until(&page, "document.getElementById('rubric').hidden").await;
    press(&page, '?').await;
    until(&page, "document.getElementById('help').open").await;
    press(&page, '1').await;
    press(&page, '?').await;
    until(&page, "!document.getElementById('help').open").await;
    assert_eq!(current(&page).await, noted, "behind the keys nothing is answered");
    press_on(&page, 's').await;

    // Another tab answers the same item first: this one is told and changes nothing unseen.
    let contested = current(&page).await;
    let first = page.window().await.unwrap();
    let second = page.new_window(true).await.unwrap().handle;
    page.switch_to_window(second).await.unwrap();
    open(&page, &running, "label?as=ann").await;
    assert_eq!(current(&page).await, contested);
    press_on(&page, '1').await;
    page.close_window().await.unwrap();
    page.switch_to_window(first).await.unwrap();
    press(&page, '2').await;
    until(&page, "document.getElementById('notice').textContent.includes('another tab')").await;
    let stands = store.mark(Journal::Labels, &contested, "ann", 1).await.unwrap().unwrap().mark;
    assert_eq!(stands.class.as_deref(), Some("constraint"));
    press_on(&page, '2').await;
    let stands = store.mark(Journal::Labels, &contested, "ann", 1).await.unwrap().unwrap().mark;
    assert_eq!(stands.class.as_deref(), Some("procedural"));

    // The server ends and starts anew: work goes on where it was, and undo reaches back over the restart.
    running.shutdown().await.unwrap();
    press(&page, '1').await;
    until(&page, "document.getElementById('notice').textContent.startsWith('Not saved')").await;
    shot(&page, 1280, 800, "not-saved").await;
    store.close().await;
    let store = Store::open(&path).await.unwrap();
    let running = serve(store.clone()).await.unwrap();
    // The page asks before it is left with an answer unsaved; a person would say yes.
    page.execute("window.addEventListener('beforeunload', (e) => e.stopImmediatePropagation(), true)", vec![])
        .await
        .unwrap();
    page.goto(&format!("{}label?as=ann", running.url())).await.unwrap();
    until(&page, "document.body.dataset.ready").await;
    assert_eq!(labelled(&store, "ann").await.len(), 13);
    press(&page, 'u').await;
    until(&page, &format!("document.body.dataset.item === '{contested}' && document.getElementById('state').textContent === 'constraint'")).await;
    press(&page, 'u').await;
    until(&page, "document.getElementById('state').textContent === ''").await;
    assert_eq!(labelled(&store, "ann").await.len(), 12);
    press(&page, 'u').await;
    until(&page, &format!("document.body.dataset.item === '{noted}'")).await;

    // To the end, with j and k on the way.
    let here = current(&page).await;
    press_on(&page, 'j').await;
    press_on(&page, 'k').await;
    assert_eq!(current(&page).await, here);
    let mut answers = 0;
    while until(&page, "document.getElementById('done').hidden ? 'no' : 'yes'").await == "no" {
        press_on(&page, ['1', '2', '3'][answers % 3]).await;
        answers += 1;
        assert!(answers <= 20, "there are no more items than that");
    }
    assert_eq!(labelled(&store, "ann").await.len(), 30);
    shots(&page, "done").await;

    // A second annotator sees nothing of the first, and the pages that would tell stay shut.
    page.set_window_size(1280, 800).await.unwrap();
    open(&page, &running, "label?as=bob").await;
    assert_eq!(page.find(Locator::Css("#count")).await.unwrap().text().await.unwrap(), "0 of 30");
    press_on(&page, '1').await;
    open(&page, &running, "adjudicate?as=bob").await;
    let locked = page.find(Locator::Css("#done-text")).await.unwrap().text().await.unwrap();
    assert!(locked.contains("29 items left"), "{locked}");
    open(&page, &running, "label?as=bob").await;
    for n in 1..30 {
        press_on(&page, ['1', '3', '3', '4'][n % 4]).await;
    }
    assert_eq!(labelled(&store, "bob").await.len(), 30);

    // Disagreements without names, each settled with a reason.
    open(&page, &running, "adjudicate?as=cy").await;
    let sides = page.find(Locator::Css("#sides")).await.unwrap().text().await.unwrap();
    assert!(!sides.contains("ann") && !sides.contains("bob"), "{sides}");
    let count = page.find(Locator::Css("#count")).await.unwrap();
    let left = count.text().await.unwrap();
    let all: usize = left.split(' ').next().unwrap().parse().unwrap();
    assert!(all > 3, "{left}");
    press(&page, '1').await;
    until(&page, "document.activeElement.id === 'why'").await;
    shots(&page, "adjudicate").await;
    page.set_window_size(1280, 800).await.unwrap();
    let item = current(&page).await;
    let why = page.find(Locator::Css("#why")).await.unwrap();
    why.send_keys("it forbids").await.unwrap();
    why.send_keys(&Key::Enter.to_string()).await.unwrap();
    until(&page, &format!("document.body.dataset.item !== '{item}'")).await;
    let settled = store.gold_item(&item).await.unwrap().unwrap();
    assert_eq!(settled.final_type.as_deref(), Some("constraint"));
    assert_eq!(settled.final_why.as_deref(), Some("Question 1: yes. it forbids"));
    let text = page.find(Locator::Css("#count")).await.unwrap().text().await.unwrap();
    assert_eq!(text, format!("{} left of {all}", all - 1));

    // The figures.
    open(&page, &running, "agreement?as=cy").await;
    let figures = page.find(Locator::Css("#figures")).await.unwrap().text().await.unwrap();
    for part in [
        "ann and bob: 30 items",
        "Cohen\u{2019}s \u{3ba}",
        "Krippendorff\u{2019}s \u{3b1}",
        "six types",
        "1 of them settled",
    ] {
        assert!(figures.contains(part), "{part} is missing in\n{figures}");
    }
    assert!(!figures.contains("NaN") && !figures.contains("undefined:"), "{figures}");
    shots(&page, "agreement").await;
    page.close().await.unwrap();
    running.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn people_verify_what_became_of_constraints() {
    let Some((_driver, address)) = driver() else { return };
    let dir = tempfile::tempdir().unwrap();
    let store = drawn(&dir.path().join("c.db"), 30).await;
    let before = "# Safety\n\n- Never push to main without a review.\n- Never log passwords or tokens.\n\
                  - You must not delete tables in production.\n- Never edit generated files by hand.\n";
    let after =
        "# Safety\n\n- Never push to main.\n- Never log passwords or tokens.\n- The tables are in production.\n";
    let added = add_document(&store, "AGENTS.md", before, after).await.unwrap();
    assert_eq!(added.constraints, 4, "every line is one that the classifier flags");
    assert!(add_document(&store, "AGENTS.md", before, after).await.unwrap().known);
    let page = browser(&address, true).await;
    page.set_window_size(1280, 800).await.unwrap();
    let running = annotate::serve(store.clone(), AnnotateOptions::default()).await.unwrap();
    for who in ["ann", "bob"] {
        open(&page, &running, &format!("verify?as={who}")).await;
        if who == "ann" {
            shots(&page, "verify-dark").await;
            page.set_window_size(1280, 800).await.unwrap();
        }
        for _ in 0..4 {
            let text = page.find(Locator::Css("#text")).await.unwrap().text().await.unwrap();
            let verdict = match text.split_whitespace().nth(1) {
                Some("push") => '2',
                Some("log") => '1',
                _ => '3',
            };
            press_on(&page, verdict).await;
        }
    }
    open(&page, &running, "agreement?as=cy").await;
    let figures = page.find(Locator::Css("#figures")).await.unwrap().text().await.unwrap();
    for part in ["Compacted constraints", "ann and bob: 4 items", "ann and aac check: 4 items"] {
        assert!(figures.contains(part), "{part} is missing in\n{figures}");
    }
    let found = aac::job::gold::agree::verdict_agreement(&store).await.unwrap();
    let pair = found.pairs.iter().find(|pair| pair.second == "aac check").unwrap();
    assert_eq!(pair.views[0].observed.value, Some(1.0), "{pair:?}");
    open(&page, &running, "label?as=ann").await;
    shots(&page, "label-dark").await;
    page.close().await.unwrap();
    running.shutdown().await.unwrap();
}

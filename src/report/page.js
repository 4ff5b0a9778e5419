// The page: heading, contents, sections in order; redrawn when its width changes and opened up for printing.

function themeButton() {
  const dark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const button = h("button", { type: "button", id: "theme", onclick: () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    name();
    document.getElementById("status").textContent = dark() ? "Dark colours" : "Light colours";
  } });
  const name = () => { button.textContent = dark() ? "Light colours" : "Dark colours"; };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  name();
  return button;
}

function start() {
  document.getElementById("top").append(
    h("div", {}, h("h1", {}, isolated(data.summary.dataset || "Report")), h("p", {}, `HARMONIA, ${data.summary.run}`)), themeButton());
  const sections = [summarySection(), curvesSection(), reliabilitySection(), detailsSection(), localSection(), importanceSection(), shapesSection(), hopsSection(), routingSection(), stabilitySection(), diagnosticsSection(), settingsSection()].filter(Boolean);
  const order = ["summary", "curves", "reliability", "details", "importance", "shapes", "hops", "routing", "local", "stability", "diagnostics", "settings"];
  sections.sort((a, b) => order.indexOf(a.id) - order.indexOf(b.id));
  document.getElementById("main").replaceChildren(...sections.map((made) => made.element));
  const links = new Map(sections.map((made) => [made.id, h("a", { href: `#${made.id}` }, made.name)]));
  document.getElementById("contents").append(h("ul", {}, [...links.values()].map((link) => h("li", {}, link))));
  const seen = new IntersectionObserver((entries) => {
    const entry = entries.find((each) => each.isIntersecting);
    if (!entry) return;
    links.forEach((link, id) => (id === entry.target.id ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
  }, { rootMargin: "-20% 0px -70% 0px" });
  sections.forEach((made) => seen.observe(made.element));
  choose({});

  let width = innerWidth, waiting = 0;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => figures.forEach((redraw) => redraw()));
  });
  // On paper everything is open, and drawn for the width of paper; afterwards all is as it was.
  let opened = [];
  const paper = (wanted) => {
    if (wanted === printing) return;
    printing = wanted;
    if (printing) {
      opened = [...document.querySelectorAll("details:not([open])")];
      opened.forEach((details) => { details.open = true; });
    } else {
      opened.forEach((details) => { details.open = false; });
      opened = [];
    }
    figures.forEach((redraw) => redraw());
  };
  // Before pages are counted; a preview without printing only changes the medium.
  addEventListener("beforeprint", () => paper(true));
  addEventListener("afterprint", () => paper(false));
  matchMedia("print").addEventListener("change", (event) => paper(event.matches));
  document.documentElement.dataset.ready = "true";
}
start();

// Colours and search. Every page can be read without this file.
"use strict";

(() => {
  const THEMES = ["auto", "light", "dark"];
  const KEY = "singerlake-theme";
  const MOST = 50;
  const root = document.documentElement;

  // A browser may refuse storage to a page from a disk.
  const kept = {
    get: () => { try { return localStorage.getItem(KEY); } catch { return null; } },
    set: (value) => { try { localStorage.setItem(KEY, value); } catch { /* the choice holds for this page */ } },
  };

  let theme = THEMES.includes(kept.get()) ? kept.get() : "auto";

  function paint(button) {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    if (!button) return;
    button.textContent = `Colours: ${theme === "auto" ? "as the system" : theme}`;
  }

  paint(null); // before anything is drawn

  let index = null;

  function loaded() {
    index ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = `${document.body.dataset.up}assets/index.js`;
      script.addEventListener("load", () => resolve(SINGERLAKE_INDEX));
      script.addEventListener("error", () => { index = null; reject(new Error("no index")); });
      document.head.append(script);
    });
    return index;
  }

  // What a page shows of a name: what cannot be seen as its code.
  const shown = (text) => (text.trim() ? text : `'${text}'`).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (char) => `\\u${char.codePointAt(0).toString(16).padStart(4, "0")}`);

  function* hits({ taps, streams, tables }, words, text) {
    const has = (text) => { const low = text.toLowerCase(); return words.every((word) => low.includes(word)); };
    const ranked = (name) => {
      const low = name.toLowerCase();
      const tests = [name === text, low === text.toLowerCase(), name.startsWith(text), low.startsWith(words[0])];
      const place = tests.indexOf(true);
      return place < 0 ? tests.length : place;
    };
    for (const [name, page, said] of taps) {
      if (has(name)) yield [ranked(name), name, "tap", page];
      else if (has(`${name} ${said}`)) yield [6, name, `tap: ${said.trim().replace(/\s+/g, " ")}`, page];
    }
    for (const [tap, name, page, properties] of streams) {
      if (has(name)) yield [ranked(name), name, `stream of ${taps[tap][0]}`, page];
      else if (has(`${taps[tap][0]} ${name}`)) yield [5, name, `stream of ${taps[tap][0]}`, page];
      else {
        const found = properties.filter(has);
        if (found.length) yield [7, name, `stream of ${taps[tap][0]}, property ${found.slice(0, 3).join(", ")}`, page];
      }
    }
    for (const [name, page, source, columns] of tables) {
      if (has(name)) yield [ranked(name), name, `table of ${source}`, page];
      else if (has(`${source} ${name}`)) yield [5, name, `table of ${source}`, page];
      else {
        const found = columns.filter(has);
        if (found.length) yield [7, name, `table of ${source}, column ${found.slice(0, 3).join(", ")}`, page];
      }
    }
  }

  function entry([, name, said, page]) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    const title = document.createElement("bdi");
    const detail = document.createElement("span");
    title.textContent = shown(name).slice(0, 200);
    detail.textContent = shown(said).slice(0, 300);
    link.href = document.body.dataset.up + page;
    link.append(title, detail);
    item.append(link);
    return item;
  }

  function search(finder) {
    const input = finder.querySelector("input");
    const box = finder.querySelector(".results");
    const list = box.querySelector("ol");
    const status = box.querySelector("p");
    const links = () => [...list.querySelectorAll("a")];

    async function look() {
      const text = input.value;
      const words = text.toLowerCase().split(/\s+/).filter(Boolean);
      box.hidden = !words.length;
      if (!words.length) return;
      try {
        const found = [...hits(await loaded(), words, text.trim())].sort((one, other) => one[0] - other[0] || one[1].length - other[1].length);
        if (input.value !== text) return;
        list.replaceChildren(...found.slice(0, MOST).map(entry));
        const more = found.length > MOST ? `, the first ${MOST} are shown` : "";
        status.textContent = found.length ? `${found.length} found${more}` : "Nothing is called that";
      } catch {
        status.textContent = "The index of this site cannot be read";
      }
    }

    function close() {
      box.hidden = true;
    }

    finder.hidden = false;
    input.addEventListener("focus", () => loaded().catch(() => {}));
    input.addEventListener("input", look);
    document.addEventListener("keydown", (event) => {
      const typing = event.target.closest("input, textarea, select, [contenteditable]");
      if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        input.focus();
      }
    });
    finder.addEventListener("keydown", (event) => {
      const all = [input, ...links()];
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step && !box.hidden) {
        event.preventDefault();
        all[Math.min(Math.max(all.indexOf(document.activeElement) + step, 0), all.length - 1)].focus();
      } else if (event.key === "Enter" && document.activeElement === input && !box.hidden) {
        links()[0]?.click();
      } else if (event.key === "Escape") {
        input.value = "";
        close();
        input.focus();
      }
    });
    finder.addEventListener("focusout", (event) => { if (!finder.contains(event.relatedTarget)) close(); });
    input.addEventListener("focus", () => { if (input.value) look(); });
  }

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector(".theme");
    button.hidden = false;
    paint(button);
    button.addEventListener("click", () => {
      theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
      kept.set(theme);
      paint(button);
    });
    search(document.querySelector(".finder"));
    document.querySelectorAll(".wide").forEach(scrolling);
  });

  // What scrolls sideways says so, as long as it does.
  function scrolling(wide) {
    const hint = document.createElement("p");
    hint.className = "scrolls";
    hint.textContent = "Scroll sideways to see all";
    hint.hidden = true;
    wide.before(hint);
    new ResizeObserver(() => { hint.hidden = wide.scrollWidth <= wide.clientWidth + 1; }).observe(wide);
  }

  // What is folded away is printed too.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll(".tree details:not([open])")];
    for (const each of folded) each.open = true;
  });
  addEventListener("afterprint", () => { for (const each of folded) each.open = false; });
})();

// Shows the logs of a build: of each only the rows in sight, which are fetched in ranges, so that a log of millions of
// lines scrolls like a short one.
const logs = document.getElementById("log");
const buildPath = "/builds/" + encodeURIComponent(logs.dataset.build);
const searchPath = "/api/build/" + encodeURIComponent(logs.dataset.build) + "/log/search";

const rowHeight = 20; // CSS pixels of a row that is not wrapped, as in waybill.css
const tallest = 15e6; // CSS pixels: browsers lose precision beyond, so that a longer log is scrolled by differences
const chunkSize = 500; // rows of one request
const mostChunks = 40; // chunks that a log keeps
const mostRequests = 2; // at a time for one log
const mostTries = 5; // for rows that the log is said to have and that do not come
const mostHits = 10000; // of one search
const ahead = 250; // rows that are fetched beyond what is drawn
const around = 12; // rows that are drawn beyond each edge

const setting = {
  time: localStorage.getItem("log-time") || "off",
  wrap: localStorage.getItem("log-wrap") === "true",
  follow: true,
};

let marked = null; // { step, from, to } of the permalink
let found = null; // { step, id } of the search

const logClock = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23" });

// Viewer shows the log of one step. The state is the first row in sight and how many pixels of it are above the edge.
class Viewer {
  constructor(details) {
    this.details = details;
    this.step = details.dataset.step;
    this.box = details.querySelector(".loglines");
    this.count = 0;
    this.chunks = new Map();
    this.asked = new Map();
    this.first = 0;
    this.offset = 0;
    this.atEnd = false;
    this.drawn = "";
    this.rowSize = rowHeight; // CSS pixels of a row on average
    this.sheet = document.createElement("div");
    this.sheet.className = "sheet";
    this.view = document.createElement("div");
    this.view.className = "view";
    this.rows = document.createElement("div");
    this.rows.className = "rows";
    this.view.append(this.rows);
    this.sheet.append(this.view);
    this.box.replaceChildren(this.sheet);
    this.box.classList.add("virtual");
    this.box.tabIndex = 0;
    this.box.setAttribute("role", "group");
    this.box.setAttribute("aria-label", "Log of " + details.querySelector("summary .state").lastChild.textContent);
    this.lastTop = 0;
    this.box.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.rows.addEventListener("click", (event) => this.clicked(event));
    new ResizeObserver(() => this.resized()).observe(this.box);
  }

  // grow takes note of the number of lines.
  grow() {
    const count = Number(this.details.dataset.lines);
    if (count === this.count) return;
    const follows = setting.follow && (this.atEnd || this.count === 0);
    this.count = count;
    this.size();
    if (follows) this.toEnd();
    else this.draw();
  }

  // size gives the box the height of its rows, up to that which waybill.css allows, and the sheet that of all rows.
  size() {
    this.total = this.count * this.rowSize;
    this.box.style.height = this.total + 18 + "px";
    this.height = Math.min(this.total, tallest);
    this.sheet.style.height = this.height + "px";
  }

  // measure learns how high wrapped rows are from those that are drawn, and sizes the box anew if that differs much.
  measure(from, to) {
    const whole = from === 0 && to === this.count;
    const size = setting.wrap ? Math.max(rowHeight, this.rows.offsetHeight / (to - from)) : rowHeight;
    const ratio = size / this.rowSize;
    if (setting.wrap ? (whole ? Math.abs(size - this.rowSize) * this.count < 1 : ratio > 2 / 3 && ratio < 3 / 2) : ratio === 1) return;
    this.rowSize = size;
    this.size();
    if (this.atEnd) this.lastTop = this.box.scrollTop = this.height;
    else this.align();
    this.lastTop = this.box.scrollTop;
    this.draw();
  }

  exact() {
    return !setting.wrap && this.total <= tallest;
  }

  // resized keeps the end in sight when the box has another height. It reports whether it has.
  resized() {
    if (this.seen === this.box.clientHeight) return false;
    this.seen = this.box.clientHeight;
    this.box.classList.toggle("scrolls", this.height > this.box.clientHeight);
    if (this.atEnd) this.toEnd();
    else this.draw();
    followPage();
    return true;
  }

  // scrolled moves by what the box was scrolled: by a small difference exactly, by a large one in proportion.
  scrolled() {
    if (this.resized()) return; // the browser has scrolled, not the reader
    const top = this.box.scrollTop;
    const by = top - this.lastTop;
    if (by === 0) return;
    this.lastTop = top;
    const room = this.height - this.box.clientHeight;
    this.atEnd = top >= room - 2;
    if (by < 0 && setting.follow && !this.atEnd) follow(false);
    if (this.atEnd && this.details.dataset.live === "true") follow(true);
    if (this.exact()) this.place(top);
    else if (top <= 0) this.place(0);
    else if (this.atEnd) this.first = this.count;
    else if (Math.abs(by) < 3 * this.box.clientHeight) this.move(by);
    else this.place((top / room) * (this.total - this.box.clientHeight));
    this.draw();
    clearTimeout(this.resting);
    if (!this.exact()) this.resting = setTimeout(() => this.align(), 200);
  }

  place(pixels) {
    this.first = Math.floor(pixels / this.rowSize);
    this.offset = pixels - this.first * this.rowSize;
  }

  move(by) {
    this.offset += by;
    while (this.offset < 0 && this.first > 0) this.offset += this.heightOf(--this.first);
    while (this.first < this.count - 1 && this.offset >= this.heightOf(this.first)) this.offset -= this.heightOf(this.first++);
    this.offset = Math.max(0, this.offset);
  }

  heightOf(index) {
    if (!setting.wrap) return rowHeight;
    const row = this.rows.children[index - this.drawnFrom];
    return (row && row.offsetHeight) || rowHeight;
  }

  // align moves the bar to where the rows are.
  align() {
    const share = this.total > this.box.clientHeight ? (this.first * this.rowSize + Math.min(this.offset, this.rowSize)) / (this.total - this.box.clientHeight) : 0;
    this.lastTop = this.box.scrollTop = Math.round(Math.min(1, share) * (this.height - this.box.clientHeight));
    this.lastTop = this.box.scrollTop;
  }

  toEnd() {
    this.atEnd = true;
    this.first = this.count;
    this.lastTop = this.box.scrollTop = this.height;
    this.lastTop = this.box.scrollTop;
    this.draw();
  }

  // show brings a row into the middle.
  show(id) {
    this.atEnd = false;
    this.place(Math.max(0, Math.min((id - 1) * rowHeight - this.box.clientHeight / 2 + rowHeight, this.total - this.box.clientHeight)));
    if (setting.wrap) {
      this.first = Math.max(0, id - 4);
      this.offset = 0;
    }
    this.align();
    this.draw();
  }

  draw() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      this.paint();
    });
  }

  paint() {
    const height = this.box.clientHeight;
    if (!height || !this.count) return;
    this.view.style.height = Math.min(height, this.height) + "px";
    const inSight = Math.ceil(height / rowHeight) + 1;
    if (this.atEnd) this.first = Math.max(0, this.count - inSight);
    this.first = Math.max(0, Math.min(this.first, this.count - 1));
    const from = Math.max(0, this.first - around);
    const to = Math.min(this.count, this.first + inSight + around);
    this.fetchRows(from, to);
    this.fetchRows(Math.max(0, from - ahead), Math.min(this.count, to + ahead));
    const rows = [];
    let state = from + ":" + to + ":" + setting.wrap;
    for (let i = from; i < to; i++) {
      const chunk = this.chunks.get(Math.floor(i / chunkSize));
      const row = chunk && chunk[i % chunkSize];
      rows.push(row || placeholder(i + 1));
      state += row ? "x" : "-";
    }
    if (state !== this.drawn) {
      this.drawn = state;
      this.drawnFrom = from;
      this.rows.replaceChildren(...rows);
    }
    for (const row of rows) this.dress(row);
    this.measure(from, to);
    let shift = this.heightBefore(from) + this.offset;
    if (this.atEnd) shift = Math.max(0, setting.wrap ? this.rows.offsetHeight - height + 18 : (this.count - from) * rowHeight - this.view.clientHeight);
    this.rows.style.transform = `translateY(${-shift}px)`;
  }

  heightBefore(from) {
    if (!setting.wrap) return (this.first - from) * rowHeight;
    const row = this.rows.children[this.first - from];
    return row ? row.offsetTop : 0;
  }

  // dress gives a row its marks and its time.
  dress(row) {
    const [step, id] = row.id.split(":").map(Number);
    row.classList.toggle("marked", !!marked && marked.step === step && id >= marked.from && id <= marked.to);
    row.classList.toggle("found", !!found && found.step === step && found.id === id);
    if (row.dataset.time === setting.time || !row.dataset.at) return;
    row.dataset.time = setting.time;
    let at = row.querySelector(".at");
    if (setting.time === "off") {
      if (at) at.remove();
      return;
    }
    if (!at) {
      at = document.createElement("span");
      at.className = "at";
      row.firstChild.after(at);
    }
    const time = Number(row.dataset.at);
    const began = Date.parse(this.details.dataset.began);
    at.textContent = setting.time === "clock" ? logClock.format(time) : ((time - began) / 1000).toFixed(2) + "s";
  }

  // fetchRows asks for the rows of a range that are not there.
  fetchRows(from, to) {
    for (let chunk = Math.floor(from / chunkSize); chunk * chunkSize < to; chunk++) {
      const has = this.chunks.get(chunk);
      const wanted = Math.min(chunkSize, this.count - chunk * chunkSize);
      if (has) {
        this.chunks.delete(chunk); // the last one used is the last one in the map
        this.chunks.set(chunk, has);
      }
      if ((has && has.length >= wanted) || this.asked.has(chunk) || this.asked.size >= mostRequests) continue;
      if (has && has.wanted === wanted && has.tries >= mostTries) continue; // the log is shorter than it was said to be
      this.ask(chunk, wanted, has && has.wanted === wanted ? has.tries + 1 : 1);
    }
    while (this.chunks.size > mostChunks) this.chunks.delete(this.chunks.keys().next().value);
  }

  async ask(chunk, wanted, tries) {
    this.asked.set(chunk, true);
    try {
      const answer = await fetch(`${buildPath}/rows?step=${this.step}&after=${chunk * chunkSize}&limit=${chunkSize}`);
      if (!answer.ok) throw new Error(answer.statusText);
      const parsed = document.createElement("template");
      parsed.innerHTML = await answer.text();
      const rows = [...parsed.content.children];
      rows.wanted = wanted;
      rows.tries = tries;
      this.chunks.set(chunk, rows);
      this.drawn = "";
      if (rows.length < wanted) return this.again(chunk);
      this.asked.delete(chunk);
      this.draw();
    } catch {
      this.again(chunk);
    }
  }

  // again lets a chunk be asked for after a while, and shows what there is of it.
  again(chunk) {
    this.draw();
    setTimeout(() => {
      this.asked.delete(chunk);
      this.draw();
    }, 2000);
  }

  // clicked makes the number of a row a permalink, and with the shift key a range.
  clicked(event) {
    const number = event.target.closest("a.n");
    if (!number) return;
    event.preventDefault();
    const id = Number(number.textContent);
    let from = id, to = id;
    if (event.shiftKey && marked && String(marked.step) === this.step) {
      from = Math.min(marked.from, id);
      to = Math.max(marked.to, id);
    }
    marked = { step: Number(this.step), from, to };
    history.replaceState(null, "", `#${this.step}:${from}${to > from ? "-" + to : ""}`);
    this.draw();
  }
}

function placeholder(id) {
  const row = document.createElement("div");
  row.className = "row";
  const number = document.createElement("span");
  number.className = "n";
  number.textContent = id;
  row.append(number);
  return row;
}

const viewers = new Map();

// viewerOf returns the viewer of a step's log that is open and has lines.
function viewerOf(details) {
  let viewer = viewers.get(details.dataset.step);
  const box = details.querySelector(".loglines");
  if (!box || !details.open) return null;
  if (!viewer || viewer.box !== box) {
    viewer = new Viewer(details);
    viewers.set(details.dataset.step, viewer);
    viewer.grow();
    if (!viewer.count) return viewer;
    viewer.toEnd();
  }
  return viewer;
}

function sync() {
  for (const details of logs.querySelectorAll("details.steplog[open]")) {
    const viewer = viewerOf(details);
    if (viewer) viewer.grow();
  }
  followPage();
}

// The page follows as well: the end of the newest log that grows stays in sight if it was when the reader scrolled last.
let endInSight = true;

function newestLog() {
  return [...logs.querySelectorAll('details.steplog[open][data-live="true"]')].pop();
}

function pageScrolled() {
  const newest = newestLog();
  if (newest) endInSight = newest.getBoundingClientRect().bottom <= innerHeight + 2 * rowHeight;
}

function followPage() {
  const newest = newestLog();
  if (newest && setting.follow && endInSight && newest.getBoundingClientRect().bottom > innerHeight) newest.scrollIntoView({ block: "end" });
}

function redraw() {
  document.documentElement.classList.toggle("wrapped", setting.wrap);
  for (const viewer of viewers.values()) {
    viewer.drawn = "";
    viewer.draw();
  }
}

// reveal opens the log of a step at an entry; false if the step is on another page.
function reveal(step, id) {
  const details = document.getElementById("log-" + step);
  if (!details) return false;
  details.open = true;
  const viewer = viewerOf(details);
  if (viewer) viewer.show(id);
  details.scrollIntoView({ block: "nearest" });
  return true;
}

function openHash() {
  const link = /^#(\d+):(\d+)(?:-(\d+))?$/.exec(location.hash);
  const block = /^#log-(\d+)$/.exec(location.hash);
  if (block) {
    const details = document.getElementById("log-" + block[1]);
    if (details) details.open = true;
  }
  if (!link) return;
  marked = { step: Number(link[1]), from: Number(link[2]), to: Number(link[3] || link[2]) };
  if (!reveal(link[1], marked.from)) location.href = `${buildPath}?step=${link[1]}${location.hash}`;
}

// The tools above the logs.
const tools = document.getElementById("logtools");
const result = document.createElement("output");
const needle = document.createElement("input");
let hits = [], more = false, current = -1, searches = 0;

function labelled(text, control) {
  const label = document.createElement("label");
  label.append(text + " ", control);
  return label;
}

function button(text, name, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.setAttribute("aria-label", name);
  made.addEventListener("click", act);
  return made;
}

function checkbox(id, checked, act) {
  const made = document.createElement("input");
  made.type = "checkbox";
  made.id = id;
  made.checked = checked;
  made.addEventListener("change", () => act(made.checked));
  return made;
}

// ask returns what the server finds after a place, in the time that it gives one request; null if it does not answer, or refuses the search.
async function ask(text, after) {
  try {
    const answer = await fetch(`${searchPath}?limit=${mostHits}&q=${encodeURIComponent(text)}&after=${encodeURIComponent(after)}`);
    return answer.ok ? await answer.json() : null;
  } catch {
    return null;
  }
}

async function search() {
  const number = ++searches;
  hits = [];
  current = -1;
  found = null;
  result.textContent = "";
  redraw();
  if (!needle.value) return;
  const text = needle.value, all = [];
  let after = "";
  do {
    result.textContent = all.length ? `searches, ${all.length} so far` : "searches";
    const reply = await ask(text, after);
    if (number !== searches) return; // another search has begun since
    if (!reply && !all.length) {
      result.textContent = "the search failed; try again in a few seconds";
      return;
    }
    more = !reply || Boolean(reply.next);
    if (reply) all.push(...reply.matches);
    after = reply && reply.next;
  } while (after && all.length < mostHits);
  hits = all.sort((a, b) => a.stepId - b.stepId || a.logId - b.logId);
  step(1);
}

// step goes to the next or the previous match.
function step(by) {
  if (!hits.length) {
    result.textContent = needle.value ? "not found" : "";
    return;
  }
  current = (current + by + hits.length) % hits.length;
  const hit = hits[current];
  found = { step: hit.stepId, id: hit.logId };
  result.textContent = `${current + 1} of ${hits.length}${more ? "+" : ""}`;
  if (!reveal(hit.stepId, hit.logId)) location.href = `${buildPath}?step=${hit.stepId}#${hit.stepId}:${hit.logId}`;
  redraw();
}

const followBox = checkbox("log-follow", true, (on) => follow(on));

function follow(on) {
  setting.follow = on;
  followBox.checked = on;
  if (!on) return;
  for (const viewer of viewers.values()) if (viewer.details.open && !viewer.atEnd) viewer.toEnd();
  endInSight = true;
  followPage();
}

function addTools() {
  needle.type = "search";
  needle.id = "log-search";
  needle.maxLength = 200;
  const form = document.createElement("form");
  form.className = "filter";
  form.setAttribute("role", "search");
  form.append(labelled("Search", needle), button("↑", "Previous match", () => step(-1)), button("↓", "Next match", () => step(1)), result);
  let asked = "";
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (needle.value === asked && hits.length) return step(1);
    asked = needle.value;
    search();
  });
  const times = document.createElement("select");
  times.id = "log-time";
  for (const [value, text] of [["off", "off"], ["clock", "clock"], ["since", "since step start"]]) times.add(new Option(text, value, false, value === setting.time));
  times.addEventListener("change", () => {
    setting.time = times.value;
    localStorage.setItem("log-time", times.value);
    redraw();
  });
  const wrap = checkbox("log-wrap", setting.wrap, (on) => {
    setting.wrap = on;
    localStorage.setItem("log-wrap", on);
    redraw();
  });
  form.append(labelled("Times", times), labelled("Wrap", wrap), labelled("Follow", followBox));
  tools.append(form);
}

addTools();
document.documentElement.classList.add("scripted");
logs.addEventListener("toggle", sync, true);
document.getElementById("content").addEventListener("updated", sync);
addEventListener("hashchange", openHash);
pageScrolled();
addEventListener("scroll", pageScrolled, { passive: true });
redraw();
sync();
openHash();

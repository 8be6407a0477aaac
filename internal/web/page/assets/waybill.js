// Follows the page live: the server sends its content again whenever it changes, and
// this puts the difference in place, so that focus, scroll and what is open stay.
"use strict";

const main = document.getElementById("content");
const link = document.getElementById("link");
const skew = Date.now() - Date.parse(document.documentElement.dataset.now);

// A live state of these belongs to the reader, not to the server.
const keep = { DETAILS: ["open"], INPUT: ["value", "checked"], OPTION: ["selected"] };

function morph(from, to) {
  if ("keep" in from.dataset) return; // another script made what is in it
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && !(keep[from.tagName] || []).includes(name)) from.removeAttribute(name);
  }
  for (const { name, value } of to.attributes) {
    if (from.getAttribute(name) !== value && !(keep[from.tagName] || []).includes(name)) from.setAttribute(name, value);
  }
  children(from, to);
}

// children makes the children of one element those of another, keeping nodes with the same id, else at the same place.
function children(from, to) {
  const named = new Map();
  for (const child of from.children) if (child.id) named.set(child.id, child);
  let at = from.firstChild;
  for (const wanted of [...to.childNodes]) {
    const known = wanted.id ? named.get(wanted.id) : at;
    const fits = known && known.nodeName === wanted.nodeName && (known.id || "") === (wanted.id || "");
    if (!fits) {
      from.insertBefore(wanted, at);
      continue;
    }
    if (known !== at) from.insertBefore(known, at);
    else at = at.nextSibling;
    if (known.nodeType === Node.ELEMENT_NODE) morph(known, wanted);
    else if (known.nodeValue !== wanted.nodeValue) known.nodeValue = wanted.nodeValue;
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function took(seconds) {
  const two = (n) => String(n).padStart(2, "0");
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m${two(seconds % 60)}s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h${two(Math.floor((seconds % 3600) / 60))}m`;
  return `${Math.floor(seconds / 86400)}d${Math.floor((seconds % 86400) / 3600)}h`;
}

const clock = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat([], { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const moment = new Intl.DateTimeFormat([], { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const shown = { day, clock, moment };
const whole = new Intl.DateTimeFormat([], { dateStyle: "full", timeStyle: "long" });

// paint writes what depends on the reader's clock and zone.
function paint() {
  for (const time of main.querySelectorAll("time[data-show]")) {
    const at = new Date(time.dateTime);
    time.textContent = shown[time.dataset.show].format(at);
    time.title = whole.format(at);
  }
  tick();
}

function tick() {
  for (const span of main.querySelectorAll("[data-since]")) {
    const text = took(Math.max(0, Math.floor((Date.now() - skew - Date.parse(span.dataset.since)) / 1000)));
    if (span.textContent !== text) span.textContent = text;
  }
  grow();
}

// grow gives the bars of what has not ended their length.
function grow() {
  const chart = main.querySelector(".timeline");
  if (!chart) return;
  const from = Date.parse(chart.dataset.from);
  const scale = 1000 / (Date.parse(chart.dataset.to) - from);
  for (const bar of chart.querySelectorAll("[data-begun]")) {
    const x = Number(bar.getAttribute("x"));
    const end = Math.min(1000, (Date.now() - skew - from) * scale);
    bar.setAttribute("width", Math.max(5, end - x));
  }
}

function say(state, text) {
  link.className = "link " + state;
  link.textContent = text;
}

paint();
setInterval(tick, 1000);

// A hidden page does not follow: browsers keep few connections to one server, and other tabs need them.
let source = null;

function follow() {
  if (source || document.hidden || !("live" in main.dataset)) return;
  source = new EventSource(location.href);
  source.onopen = () => say("on", "live");
  source.onerror = () => say("off", source.readyState === EventSource.CLOSED ? "reload to follow" : "reconnecting");
  source.addEventListener("content", (event) => {
    const next = document.createElement("main");
    next.innerHTML = event.data;
    children(main, next);
    paint();
    main.dispatchEvent(new Event("updated"));
  });
}

function rest() {
  if (source) source.close();
  source = null;
}

document.addEventListener("visibilitychange", () => (document.hidden ? rest() : follow()));
// A button that is pressed twice sends its form once, and the form is not changed meanwhile.
let sent = new WeakSet();
addEventListener("submit", (event) => {
  if (event.defaultPrevented) return;
  if (sent.has(event.target)) event.preventDefault();
  sent.add(event.target);
  rest();
});
addEventListener("pagehide", rest);
addEventListener("pageshow", () => {
  sent = new WeakSet();
  follow();
});
follow();

// What makes the pages live: the list, the keyboard, the time that is left. Everything works without it.
"use strict";

(() => {
  const script = document.currentScript;
  const find = (selector) => document.querySelector(selector);
  let reload = 0;
  let sending = false; // whether an answer of this page is on its way, whose own answer shows what comes next
  let dirty = false; // whether something is typed that a new load would take away

  function refresh(selector, address = location.pathname + location.search) {
    htmx.ajax("GET", address, { target: selector, select: selector, swap: "outerHTML" });
  }

  function announce(text) {
    find("#announcements").textContent = text;
  }

  // The list

  function showCount(count) {
    document.body.dataset.open = count;
    const badge = find("#open-count");
    badge.textContent = count;
    badge.hidden = count === 0;
    const title = document.title.replace(/^\(\d+\) /, "");
    document.title = count ? `(${count}) ${title}` : title;
    const nothing = find("#nothing");
    if (nothing) nothing.hidden = count > 0;
  }

  function add({ id, order, row }) {
    const list = find("#entries");
    if (!list || document.getElementById(`entry-${id}`)) return;
    const rows = [...list.children];
    const next = rows.find((entry) => entry.dataset.order > order);
    if (!next && list.dataset.more === "yes") return;
    if (!next || rows[0] !== next || list.dataset.page === "1") {
      const holder = document.createElement("template");
      holder.innerHTML = row;
      const entry = holder.content.firstElementChild;
      list.insertBefore(entry, next ?? null);
      htmx.process(entry);
    }
    announce("A new request waits.");
    notify();
  }

  function remove({ id, text }) {
    const entry = document.getElementById(`entry-${id}`);
    if (entry) {
      entry.classList.add("gone");
      entry.querySelector(".entry-text").textContent = text;
      setTimeout(() => entry.remove(), 4000);
    }
    const detail = find("#detail");
    if (!sending && detail?.dataset.request === id && find("#detail form")) {
      announce(`This request was decided: ${text}`);
      refresh("#detail");
    }
  }

  function notify() {
    if (document.hidden && window.Notification?.permission === "granted") {
      new Notification("agentmd", { body: "A request waits for an answer.", tag: "agentmd" });
    }
  }

  function touched({ executions }) {
    const live = find("[data-execution]");
    if (!live || !executions.includes(Number(live.dataset.execution))) return;
    clearTimeout(reload);
    reload = setTimeout(() => refresh("#live"), 300);
  }

  function hear({ event, data }) {
    const line = find("#connection");
    line.hidden = event !== "lost";
    if (event === "lost") line.textContent = "The server does not answer. This page goes on by itself when it does.";
    if (data?.open !== undefined) showCount(data.open);
    if (event === "opened") add(data);
    if (event === "closed") remove(data);
    if (event === "touched") touched(data);
    if (event === "resync") {
      if (find(".list")) refresh(".list");
      if (find("#detail") && !dirty) refresh("#detail");
      if (find("#live")) refresh("#live");
    }
  }

  function listen() {
    if (window.SharedWorker) {
      const port = new SharedWorker(script.dataset.worker, { name: "agentmd" }).port;
      port.onmessage = (message) => hear(message.data);
      addEventListener("pagehide", () => port.postMessage("leave"));
      return;
    }
    const source = new EventSource("/ui/events");
    let lost = false;
    source.onopen = () => {
      hear({ event: lost ? "resync" : "open" });
      lost = false;
    };
    source.onerror = () => {
      lost = true;
      hear({ event: "lost" });
    };
    for (const name of ["count", "opened", "closed", "touched", "resync"]) {
      source.addEventListener(name, (message) => hear({ event: name, data: JSON.parse(message.data) }));
    }
  }

  // The time that is left

  function left(seconds) {
    const rest = Math.max(Math.round(seconds), 0);
    for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
      if (rest >= 2 * size) return `${Math.round(rest / size)} ${unit}`;
    }
    return `${rest} s`;
  }

  function tick() {
    for (const time of document.querySelectorAll("[data-deadline]")) {
      const seconds = Number(time.dataset.deadline) - Date.now() / 1000;
      const text = (time.dataset.prefix ?? "") + left(seconds);
      if (time.textContent !== text) time.textContent = text;
      time.classList.toggle("urgent", seconds < 300);
    }
  }

  // The keyboard

  function move(step) {
    const rows = [...document.querySelectorAll(".entry:not(.gone)")];
    if (!rows.length) return;
    const at = rows.findIndex((row) => row.classList.contains("selected"));
    const next = rows[Math.min(Math.max(at + step, 0), rows.length - 1)];
    if (next === rows[at]) return; // to load it again would take away what is typed
    next.querySelector("a").click();
    next.scrollIntoView({ block: "nearest" });
  }

  const keys = {
    j: () => move(1),
    k: () => move(-1),
    y: () => find("#approve")?.click(),
    n: () => find("#reason")?.focus(),
    e: () => {
      const edit = find("#edit");
      if (!edit) return;
      edit.open = true;
      find("#args").focus();
    },
    "?": () => {
      const help = find("#keys");
      if (help) help.open = !help.open;
    },
  };

  addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input:not([type=radio]):not([type=checkbox]), textarea, select");
    if (event.key === "Escape") event.target.blur?.();
    if (typing || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = keys[event.key];
    if (act) {
      event.preventDefault();
      act();
    }
  });

  // Which row is shown

  function mark() {
    const shown = find("#detail")?.dataset.request;
    for (const entry of document.querySelectorAll(".entry")) {
      entry.classList.toggle("selected", entry.dataset.request === shown);
    }
    find(".columns")?.classList.toggle("has-detail", shown !== undefined);
    tick();
  }

  document.addEventListener("htmx:afterSettle", mark);
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.detail.requestConfig.verb === "post") sending = true;
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.requestConfig.verb === "post") sending = false;
  });
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target.id === "detail" || event.detail.target.id === "content") dirty = false;
  });
  document.addEventListener("htmx:sendError", () => hear({ event: "lost" }));
  document.addEventListener("input", (event) => {
    dirty = true;
    const own = event.target.closest?.("textarea.own");
    const choice = own?.closest("fieldset").querySelector('input[value="other"]');
    if (choice && own.value.trim()) choice.checked = true;
  });
  document.addEventListener("DOMContentLoaded", () => {
    listen();
    setInterval(tick, 1000);
    mark();
  });
})();

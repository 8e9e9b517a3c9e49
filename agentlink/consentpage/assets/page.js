"use strict";

// Requests are authenticated by the secret alone. An agent's text is only ever set as the
// text of an element.
const secret = location.hash.slice(1);
const at = (id) => document.getElementById(id);
const buttons = [...document.querySelectorAll("button")];

// How long a question must be visible before it can be answered, in milliseconds, so that a
// click that was meant for something else does not answer it.
const SETTLE = 700;

let current = { id: "" };
let ends = 0;

function ask(path, options = {}) {
  return fetch(path, { ...options, headers: { Authorization: "Bearer " + secret, "Content-Type": "application/json" } });
}

function say(text) { at("state").textContent = text; }

function show(question) {
  current = question;
  const there = question.id !== "" && question.id !== "none";
  at("question").hidden = !there;
  document.title = there ? "Locus asks" : "Locus";
  say(there ? "" : "Nothing waits for your answer.");
  buttons.forEach((b) => { b.disabled = true; });
  if (!there) return;
  at("actor").textContent = question.actor;
  at("language").textContent = question.language;
  at("why").hidden = !question.thought;
  at("thought").textContent = question.thought || "";
  at("folder").textContent = question.folder;
  at("files").textContent = (question.files || []).join("\n") || "none";
  at("call").textContent = question.call_id;
  at("code").textContent = question.code;
  at("code").scrollTop = 0;
  ends = question.within_s ? performance.now() + question.within_s * 1000 : 0;
  setTimeout(() => { if (current.id === question.id) buttons.forEach((b) => { b.disabled = false; }); }, SETTLE);
}

async function answer(reply) {
  buttons.forEach((b) => { b.disabled = true; });
  const answered = await ask("/answer", { method: "POST", body: JSON.stringify({ id: current.id, reply }) });
  if (!answered.ok) say(await answered.text());
}

buttons.forEach((b) => b.addEventListener("click", () => {
  answer(b.dataset.reply).catch(() => say("The answer did not arrive."));
}));

setInterval(() => {
  const left = Math.max(0, Math.round((ends - performance.now()) / 1000));
  at("left").textContent = ends && !at("question").hidden ? `It waits ${left} s for you.` : "";
}, 500);

(async () => {
  if (!secret) return say("Open this page by the whole URL that locus link has printed.");
  for (let seen = "none"; ; seen = current.id) {
    try {
      const answered = await ask("/question?seen=" + encodeURIComponent(seen));
      if (answered.status === 401) return show({ id: "" }), say(await answered.text());
      if (!answered.ok) throw new Error(answered.statusText);
      const question = await answered.json();
      if (question.id !== seen) show(question);
    } catch {
      show({ id: "none" });
      say("locus link does not answer; has it ended?");
      await new Promise((again) => setTimeout(again, 2000));
    }
  }
})();

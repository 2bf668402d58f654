// One question and its answer on the page.

import { el } from "./dom.js";
import { view } from "./media.js";
import { numbers } from "./numbers.js";
import { copy, curl, python } from "./snippets.js";

export class TurnView {
  #answer = el("p", { className: "answer" });
  #foot = el("div", { className: "foot" });
  #said = el("article", { className: "said", "aria-label": "Answer" }, this.#answer, this.#foot);

  constructor(log, turn) {
    this.root = el("div", { className: "turn" });
    const asked = turn.parts.map((part) => (typeof part === "string" ? el("p", {}, part) : view(part)));
    this.root.append(el("article", { className: "asked", "aria-label": "You" }, ...asked), this.#said);
    log.append(this.root);
    this.#said.setAttribute("aria-busy", "true");
    this.#said.classList.add("waiting");
  }

  /** To the page's end, where the latest turn is. */
  reveal() {
    window.scrollTo(0, document.body.scrollHeight);
  }

  write(text) {
    this.#said.classList.remove("waiting");
    this.#follow(() => this.#answer.append(text));
  }

  /** usage: null where the answer was stopped. */
  finish(body, usage, stopwatch, needsKey) {
    this.#rest();
    this.#follow(() => this.#foot.append(numbers(usage, stopwatch), copies(body, needsKey)));
  }

  fail(message, onRetry) {
    this.#rest();
    const retry = () => {
      this.root.remove();
      onRetry();
    };
    const told = el("p", { className: "error", role: "alert" }, message);
    this.#follow(() => this.#foot.append(told, el("button", { type: "button", onclick: retry }, "Try again")));
  }

  /** Buttons with further questions, until one is asked. */
  suggest(questions, onAsk) {
    const buttons = questions.map((text) => el("button", { type: "button", onclick: () => onAsk(text) }, text));
    if (!buttons.length) return;
    this.#follow(() => this.#said.append(el("div", { className: "suggestions" }, ...buttons)));
  }

  unsuggest() {
    this.#said.querySelector(".suggestions")?.remove();
  }

  /** Changes the page; who was at its end stays there, who has scrolled up to read stays there too. */
  #follow(change) {
    const wasAtEnd = window.scrollY + window.innerHeight > document.body.scrollHeight - 60;
    change();
    if (wasAtEnd) this.reveal();
  }

  #rest() {
    this.#said.classList.remove("waiting");
    this.#said.setAttribute("aria-busy", "false");
  }
}

function copies(body, needsKey) {
  const button = (name, write) => {
    const node = el("button", { type: "button", className: "quiet" }, `Copy as ${name}`);
    node.onclick = async () => {
      node.textContent = (await copy(write(body, needsKey))) ? "Copied" : "The browser refused";
      setTimeout(() => (node.textContent = `Copy as ${name}`), 1600);
    };
    return node;
  };
  return el("div", { className: "copies" }, button("curl", curl), button("Python", python));
}

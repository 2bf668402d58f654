// One question and its answer on the page.

import { el } from "./dom.js";
import { view } from "./media.js";
import { numbers } from "./numbers.js";
import { copy, curl, python } from "./snippets.js";

export class TurnView {
  #answer = el("p", { className: "answer" });
  #foot = el("div", { className: "foot" });
  #said = el("article", { className: "said", ariaLabel: "Answer" }, this.#answer, this.#foot);

  constructor(log, turn) {
    const media = turn.media.length ? [el("div", { className: "media" }, ...turn.media.map(view))] : [];
    const text = turn.text ? [el("p", {}, turn.text)] : [];
    this.root = el("div", { className: "turn" });
    this.root.append(el("article", { className: "asked", ariaLabel: "You" }, ...media, ...text), this.#said);
    log.append(this.root);
    this.#said.ariaBusy = "true";
    this.#said.classList.add("waiting");
  }

  /** Its end, just above the composer. */
  reveal() {
    this.root.scrollIntoView({ block: "end" });
  }

  write(text) {
    this.#said.classList.remove("waiting");
    this.#answer.append(text);
  }

  /** usage: null where the answer was stopped. */
  finish(body, usage, stopwatch, needsKey) {
    this.#rest();
    this.#foot.append(numbers(usage, stopwatch), copies(body, needsKey));
  }

  fail(message, onRetry) {
    this.#rest();
    const retry = () => {
      this.root.remove();
      onRetry();
    };
    this.#foot.append(
      el("p", { className: "error", role: "alert" }, message),
      el("button", { type: "button", onclick: retry }, "Try again"),
    );
  }

  /** Buttons with further questions, until one is asked. */
  suggest(questions, onAsk) {
    const buttons = questions.map((text) => el("button", { type: "button", onclick: () => onAsk(text) }, text));
    if (buttons.length) this.#said.append(el("div", { className: "suggestions" }, ...buttons));
  }

  unsuggest() {
    this.#said.querySelector(".suggestions")?.remove();
  }

  #rest() {
    this.#said.classList.remove("waiting");
    this.#said.ariaBusy = "false";
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

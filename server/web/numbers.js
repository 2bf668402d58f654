// The honest numbers under an answer: what the prompt was made of, how much of it was computed, and how fast.

import { el, number } from "./dom.js";

/**
 * Times one answer, from the moment at which its request is sent. Speed is over the whole of it: pieces reach a page
 * in bursts, so the time between two of them says nothing.
 */
export class Stopwatch {
  #sent = performance.now();
  firstMs = null;
  lastMs = null;

  piece() {
    this.lastMs = performance.now() - this.#sent;
    this.firstMs ??= this.lastMs;
  }
}

/** usage: as in the answer's last chunk, or null if it was stopped before. */
export function numbers(usage, stopwatch) {
  if (!usage) return el("p", { className: "numbers" }, "Stopped: the server counts tokens at an answer's end only.");
  const details = usage.prompt_tokens_details;
  const cached = details.cached_tokens;
  const computed = usage.prompt_tokens - cached;
  const kinds = [
    ["picture", details.image_tokens],
    ["sound", details.audio_tokens],
    ["text", details.text_tokens],
  ].filter(([, tokens]) => tokens > 0);
  return el(
    "div",
    { className: "numbers" },
    bar([["cached", cached], ["computed", computed]]),
    bar(kinds),
    el(
      "ul",
      {},
      el("li", {}, `${number(usage.prompt_tokens)} prompt tokens`),
      entry("cached", `${number(cached)} from the cache`),
      entry("computed", `${number(computed)} computed`),
      ...kinds.map(([kind, tokens]) => entry(kind, `${number(tokens)} ${kind}`)),
    ),
    el("p", {}, speed(usage, stopwatch)),
  );
}

function speed({ completion_tokens: tokens }, { firstMs, lastMs }) {
  if (firstMs === null) return `${number(tokens)} tokens answered`;
  const rate = (1000 * tokens) / lastMs;
  return `First token after ${number(firstMs)} ms · ${number(tokens)} in ${number(lastMs)} ms · ${number(rate)} tokens/s`;
}

function bar(parts) {
  const pieces = parts.filter(([, tokens]) => tokens > 0).map(([kind, tokens]) => {
    const piece = el("span", { className: `piece ${kind}` });
    piece.style.flexGrow = tokens;
    return piece;
  });
  return el("div", { className: "bar", "aria-hidden": "true" }, ...pieces);
}

function entry(kind, text) {
  return el("li", {}, el("span", { className: `swatch ${kind}`, "aria-hidden": "true" }), text);
}

// The live picture of the server's cache. Asks once a second, and only while someone can see it.

import { stats } from "./api.js";
import { el, number } from "./dom.js";

const NUM_TILES = 96;
const EVERY_MS = 1000;

export class CachePicture {
  #tiles = Array.from({ length: NUM_TILES }, () => el("span"));
  #scale = el("span");
  #facts = el("ul", { className: "facts", tabIndex: 0, "aria-label": "Counters" });
  #timer = null;

  constructor(place) {
    const legend = el("p", { className: "legend" }, key("held", "in use"), key("kept", "remembered"), this.#scale);
    const tiles = el("div", { className: "tiles", "aria-hidden": "true" }, ...this.#tiles);
    place.append(el("div", { className: "blocks" }, tiles, legend), this.#facts);
    document.addEventListener("visibilitychange", () => this.wake());
    this.wake();
  }

  /** Ask now, and go on while the page is visible. */
  async wake() {
    clearTimeout(this.#timer);
    if (document.hidden) return;
    try {
      this.#show(await stats());
    } catch (error) {
      this.#facts.replaceChildren(el("li", {}, error.status === 401 ? "An API key is needed." : error.message));
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.wake(), EVERY_MS);
  }

  #show(now) {
    const held = now.num_blocks - now.num_free_blocks;
    const kept = Math.max(0, now.num_cached_blocks - held);
    const perTile = blocksPerTile(held + kept, now.num_blocks);
    const numHeld = Math.ceil(held / perTile);
    const numKept = Math.ceil((held + kept) / perTile);
    const exist = Math.ceil(now.num_blocks / perTile);
    this.#tiles.forEach((tile, i) => {
      tile.className = i < numHeld ? "held" : i < numKept ? "kept" : i < exist ? "" : "none";
    });
    const unit = perTile === 1 ? "one block" : `${number(perTile)} blocks`;
    this.#scale.textContent = `a tile: ${unit} of ${now.block_size} tokens`;
    this.#facts.replaceChildren(...facts(now, held).map(([name, value]) => fact(name, value)));
  }
}

/** A power of two, so that the picture holds still while the cache fills. */
function blocksPerTile(used, all) {
  let perTile = 1;
  while (used > perTile * NUM_TILES && perTile * NUM_TILES < all) perTile *= 2;
  return perTile;
}

function facts(now, held) {
  const prompt = now.num_cached_prompt_tokens + now.num_computed_prompt_tokens;
  const share = `${number((100 * now.num_cached_prompt_tokens) / prompt)} % of ${number(prompt)} tokens`;
  return [
    ["Prompt from cache", prompt ? share : "no prompt yet"],
    ["Blocks remembered", `${number(now.num_cached_blocks)} of ${number(now.num_blocks)}`],
    ["Blocks in use", `${number(held)}, free ${number(now.num_free_blocks)}`],
    ["Encoder", `${number(now.num_encoder_runs)} runs, ${number(now.num_encoder_hits)} hits`],
    ["Encoder cache", `${bytes(now.encoder_cache_used_bytes)} of ${bytes(now.encoder_cache_bytes)}`],
    ["Requests", `${number(now.num_running)} running, ${number(now.num_waiting)} waiting`],
  ];
}

const fact = (name, value) => el("li", {}, el("span", {}, name), el("b", {}, value));
const key = (kind, text) => el("span", {}, el("i", { className: kind, "aria-hidden": "true" }), text);
const bytes = (value) => (value < 1 << 20 ? `${number(value / 1024)} KiB` : `${number(value / (1 << 20))} MiB`);

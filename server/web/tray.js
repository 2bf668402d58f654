// The pictures and sounds of the message that is being written, in order.

import { el, say } from "./dom.js";
import { fromFile, view } from "./media.js";
import { mark } from "./message.js";

export class Tray {
  items = [];
  #place;
  #hooks;

  /** hooks: onError(message), onMark(the mark to write where an item belongs). */
  constructor(place, hooks) {
    this.#place = place;
    this.#hooks = hooks;
  }

  add(item) {
    this.items.push(item);
    this.#show();
    say(`${item.name} added`);
  }

  /** Files in their order; those that can't be read are told, the others stay. */
  async addFiles(files) {
    for (const file of files) {
      try {
        this.add(await fromFile(file));
      } catch (error) {
        this.#hooks.onError(error.message);
      }
    }
  }

  /** All items, leaving none. */
  take() {
    const items = this.items;
    this.items = [];
    this.#show();
    return items;
  }

  #remove(item) {
    this.items = this.items.filter((other) => other !== item);
    this.#show();
    say(`${item.name} removed`);
  }

  #show() {
    this.#place.replaceChildren(
      ...this.items.map((item, i) => el("li", { className: item.kind }, view(item), this.#placing(item, i), this.#removing(item))),
    );
  }

  #placing({ name }, i) {
    const title = `Place ${name} at the cursor; else it comes before the text`;
    const onclick = () => this.#hooks.onMark(mark(i + 1));
    return el("button", { type: "button", className: "place", title, "aria-label": title, onclick }, mark(i + 1));
  }

  #removing(item) {
    const onclick = () => this.#remove(item);
    return el("button", { type: "button", className: "remove", "aria-label": `Remove ${item.name}`, onclick }, "×");
  }
}

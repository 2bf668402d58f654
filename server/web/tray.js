// The pictures and sounds of the message that is being written, in order.

import { el, say } from "./dom.js";
import { fromFile, view } from "./media.js";

export class Tray {
  items = [];
  #place;
  #onError;

  constructor(place, onError) {
    this.#place = place;
    this.#onError = onError;
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
        this.#onError(error.message);
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
      ...this.items.map((item) =>
        el(
          "li",
          { className: item.kind },
          view(item),
          el("button", { type: "button", "aria-label": `Remove ${item.name}`, onclick: () => this.#remove(item) }, "×"),
        ),
      ),
    );
  }
}

// What one message is made of: its texts, pictures and sounds in the order in which the model reads them.

import { part } from "./media.js";

/** What stands in a text where the item of this number, from 1, belongs. */
export const mark = (place) => `[${place}]`;

/** Text with marks, and items -> strings and items in order. Items without a mark come first. */
export function arrange(text, items) {
  const left = new Set(items);
  const parts = [];
  for (const piece of text.split(/(\[\d{1,3}\])/)) {
    const item = items[Number(piece.slice(1, -1)) - 1];
    if (piece === mark(items.indexOf(item) + 1) && left.delete(item)) parts.push(item);
    else if (typeof parts.at(-1) === "string") parts.push(parts.pop() + piece);
    else parts.push(piece);
  }
  return [...left, ...parts.map((one) => (typeof one === "string" ? one.trim() : one))].filter((one) => one !== "");
}

/** In OpenAI's form: a message's content. */
export function content(parts) {
  if (parts.every((one) => typeof one === "string")) return parts.join("\n");
  return parts.map((one) => (typeof one === "string" ? { type: "text", text: one } : part(one)));
}

// What was said so far, and the request that says it again: the API keeps nothing between two requests, so every
// one of them carries all that went before. Only the cache makes that cheap.

import { content } from "./message.js";

export class Conversation {
  /** {parts, answer: string | null}; an answer that failed stays null and is not sent again. */
  turns = [];

  add(parts) {
    const turn = { parts, answer: null };
    this.turns.push(turn);
    return turn;
  }

  drop(turn) {
    this.turns = this.turns.filter((other) => other !== turn);
  }

  /** The messages up to and with `last`. */
  messages(system, last) {
    const messages = system ? [{ role: "system", content: system }] : [];
    for (const turn of this.turns.slice(0, this.turns.indexOf(last) + 1)) {
      if (turn !== last && turn.answer === null) continue;
      messages.push({ role: "user", content: content(turn.parts) });
      if (turn !== last) messages.push({ role: "assistant", content: turn.answer });
    }
    return messages;
  }
}

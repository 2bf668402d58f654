// Asking: one question at a time, its answer written as it comes.

import { chat, key } from "./api.js";
import { $ } from "./dom.js";
import { Conversation } from "./conversation.js";
import { Stopwatch } from "./numbers.js";
import { TurnView } from "./turn.js";

export class Asking {
  #conversation = new Conversation();
  #abort = null;
  #last = null;
  #hooks;

  /** hooks: onBusy(is it), onUnauthorized(). */
  constructor(hooks) {
    this.#hooks = hooks;
  }

  get busy() {
    return this.#abort !== null;
  }

  stop() {
    this.#abort?.abort();
  }

  forget() {
    this.stop();
    this.#conversation = new Conversation();
    this.#last = null;
    $("log").replaceChildren();
  }

  /** parts: texts and media items in order; next: questions to suggest once it is answered. */
  async ask(parts, next = []) {
    const conversation = this.#conversation;
    const turn = conversation.add(parts);
    this.#last?.unsuggest();
    const view = (this.#last = new TurnView($("log"), turn));
    view.reveal();
    const abort = (this.#abort = new AbortController());
    this.#hooks.onBusy(true);
    try {
      await this.#answer(turn, view, this.#request(turn), abort.signal);
      const ask = (question) => this.busy || this.ask([question], next.filter((other) => other !== question));
      view.suggest(next, ask);
    } catch (error) {
      conversation.drop(turn);
      view.fail(error.message, () => this.busy || this.ask(parts, next));
      if (error.status === 401) this.#hooks.onUnauthorized();
    } finally {
      if (this.#abort === abort) this.#abort = null;
      this.#hooks.onBusy(this.busy);
    }
  }

  #request(turn) {
    return {
      model: $("model").value,
      messages: this.#conversation.messages($("system").value.trim(), turn),
      temperature: Number($("temperature").value),
      max_completion_tokens: Number($("limit").value),
      stream: true,
      stream_options: { include_usage: true },
    };
  }

  async #answer(turn, view, body, signal) {
    const stopwatch = new Stopwatch();
    let answer = "";
    let usage = null;
    try {
      for await (const chunk of chat(body, signal)) {
        usage = chunk.usage ?? usage;
        const piece = chunk.choices[0]?.delta.content;
        if (!piece) continue;
        stopwatch.piece();
        answer += piece;
        view.write(piece);
      }
    } catch (error) {
      if (error.name !== "AbortError") throw error;
    }
    turn.answer = answer || (usage ? "" : null);
    view.finish(body, usage, stopwatch, Boolean(key.get()));
  }
}

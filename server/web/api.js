// The server's API: what is asked, what is answered, and what went wrong. Knows nothing of the page.

const KEY = "intarsia-key";

export class ApiError extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => sessionStorage.setItem(KEY, value),
};

export async function models() {
  return (await (await call("/v1/models")).json()).data;
}

export async function stats() {
  return (await call("/stats")).json();
}

/** The chunks of a streamed chat completion. ApiError where it fails or breaks off. */
export async function* chat(body, signal) {
  const response = await call("/v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  for await (const data of events(response.body)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new ApiError(chunk.error.message);
    yield chunk;
  }
  throw new ApiError("The answer broke off before its end.");
}

async function call(path, options = {}) {
  const headers = { ...options.headers };
  if (key.get()) headers.authorization = `Bearer ${key.get()}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server can't be reached.");
  }
  if (!response.ok) throw await failure(response);
  return response;
}

async function failure(response) {
  const text = await response.text();
  try {
    return new ApiError(JSON.parse(text).error.message, response.status);
  } catch {
    return new ApiError(`The server answered ${response.status}.`, response.status);
  }
}

/** The data lines of server-sent events; comments are heartbeats. */
async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith("data: ")) yield line.slice(6).trimEnd();
    }
  }
}

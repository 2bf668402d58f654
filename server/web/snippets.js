// A request of this page as something to paste: complete, its pictures and sounds included.

const here = () => window.location.origin;

/** For a POSIX shell; the key is taken from the environment. */
export function curl(body, needsKey) {
  const lines = [`curl -N ${here()}/v1/chat/completions`, "-H 'Content-Type: application/json'"];
  if (needsKey) lines.push('-H "Authorization: Bearer $INTARSIA_KEY"');
  return `${lines.join(" \\\n  ")} -d @- <<'END'\n${JSON.stringify(body)}\nEND\n`;
}

/** For the official client. Messages hold only strings, lists and objects: their JSON is Python too. */
export function python(body, needsKey) {
  const key = needsKey ? 'os.environ["INTARSIA_KEY"]' : '"none"';
  return `${needsKey ? "import os\n\n" : ""}from openai import OpenAI

client = OpenAI(base_url="${here()}/v1", api_key=${key})
stream = client.chat.completions.create(
    model=${JSON.stringify(body.model)},
    temperature=${body.temperature},
    max_completion_tokens=${body.max_completion_tokens},
    stream=True,
    stream_options={"include_usage": True},
    messages=${JSON.stringify(body.messages, null, 4).replaceAll("\n", "\n    ")},
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
    if chunk.usage:
        print("\\n", chunk.usage.prompt_tokens_details)
`;
}

/** False where the browser does not let the page. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text); // pages that come neither over https nor from this machine
  }
}

function copyBySelection(text) {
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}

// A request of this page as something to paste. Short pictures and sounds are in it whole; a longer one would be
// a wall of letters, so it is read from a file, which the snippet names.

const WHOLE_CHARS = 4000;
const SIGN = "\uE000"; // stands around the name of the file that belongs in its place

const here = () => window.location.origin;

/** For a POSIX shell; the key is taken from the environment. */
export function curl(body, needsKey) {
  const lines = [`curl -N ${here()}/v1/chat/completions`, "-H 'Content-Type: application/json'"];
  if (needsKey) lines.push('-H "Authorization: Bearer $INTARSIA_KEY"');
  const text = JSON.stringify(body, elided(), 2).replace(/[\\$`]/g, "\\$&"); // what a shell would take for its own
  const json = text.replace(/\uE000(.+?)\uE000/g, (_, file) => `$(base64 < ${file} | tr -d '\\n')`);
  return `${lines.join(" \\\n  ")} -d @- <<END\n${json}\nEND\n`;
}

/** For the official client. Messages hold only strings, lists and objects: their JSON is Python too. */
export function python(body, needsKey) {
  const text = JSON.stringify(body.messages, elided(), 4).replaceAll("\n", "\n    ");
  const messages = text.replace(/("[^"]*)\uE000(.+?)\uE000"/g, (_, before, file) => {
    return `${before === '"' ? "" : `${before}" + `}base64_of("${file}")`;
  });
  const imports = [needsKey && "import os", text !== messages && "import base64"].filter(Boolean).sort();
  return `${imports.map((line) => `${line}\n`).join("")}${imports.length ? "\n" : ""}from openai import OpenAI
${text === messages ? "" : BASE64_OF}
client = OpenAI(base_url="${here()}/v1", api_key=${needsKey ? 'os.environ["INTARSIA_KEY"]' : '"none"'})
stream = client.chat.completions.create(
    model=${JSON.stringify(body.model)},
    temperature=${body.temperature},
    max_completion_tokens=${body.max_completion_tokens},
    stream=True,
    stream_options={"include_usage": True},
    messages=${messages},
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
    if chunk.usage:
        print("\\n", chunk.usage.prompt_tokens_details)
`;
}

const BASE64_OF = `

def base64_of(path):
    with open(path, "rb") as file:
        return base64.b64encode(file.read()).decode()

`;

/** For JSON.stringify: puts the name of a file where a long picture or sound was. */
function elided() {
  let count = 0;
  return (name, value) => {
    if (typeof value !== "string" || value.length <= WHOLE_CHARS) return value;
    if (name === "data") return `${SIGN}sound-${++count}.wav${SIGN}`;
    const picture = name === "url" && /^data:image\/(\w+);base64,/.exec(value);
    return picture ? `${picture[0]}${SIGN}picture-${++count}.${picture[1]}${SIGN}` : value;
  };
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

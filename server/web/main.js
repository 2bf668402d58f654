// The page put together: what its fields and buttons do.

import { key, models } from "./api.js";
import { Asking } from "./ask.js";
import { CachePicture } from "./cache.js";
import { canPhotograph, photograph } from "./camera.js";
import { $, el } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import { view } from "./media.js";
import { arrange } from "./message.js";
import { canRecord, record } from "./record.js";
import { Tray } from "./tray.js";

const STARTERS = [[0], [2], [3], [1, 3]];
const BOTH = ["Describe the picture and the sound.", "How many beeps do you hear?", "What shape is in the picture?"];

const tray = new Tray($("tray"), { onError: notice, onMark: write });
const picture = new CachePicture($("cache"));
const asking = new Asking({ onBusy: showBusy, onUnauthorized: wantKey });

function notice(text = "") {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

function wantKey() {
  notice("This server wants an API key: enter it under Settings.");
  $("settings").open = true;
  $("key").focus();
}

function showBusy(busy) {
  $("stop").hidden = !busy;
  $("send").hidden = busy;
  $("welcome").hidden = $("log").children.length > 0;
  picture.wake();
}

async function loadModels() {
  try {
    const known = await models();
    $("model").replaceChildren(...known.map(({ id }) => el("option", { value: id }, id)));
    notice();
  } catch (error) {
    if (error.status === 401) return wantKey();
    notice(error.message);
    setTimeout(loadModels, 2000);
  }
}

function send() {
  const text = $("text").value.trim();
  if (asking.busy || (!text && !tray.items.length)) return;
  notice();
  $("text").value = "";
  grow();
  asking.ask(arrange(text, tray.take()));
}

/** At the cursor. */
function write(text) {
  $("text").setRangeText(text, $("text").selectionStart, $("text").selectionEnd, "end");
  $("text").focus();
  grow();
}

function grow() {
  $("text").style.height = "auto";
  $("text").style.height = `${$("text").scrollHeight}px`;
}

async function showExamples() {
  const made = await Promise.all(EXAMPLES.map((example) => example.make()));
  for (const [i, item] of made.entries()) {
    const take = () => {
      $("examples").open = false;
      tray.add(item);
      if (!$("text").value) $("text").value = EXAMPLES[i].questions[0];
      $("text").select();
    };
    $("shelf").append(el("li", {}, el("button", { type: "button", onclick: take }, face(item), item.name)));
  }
  for (const indices of STARTERS) {
    const questions = indices.length > 1 ? BOTH : EXAMPLES[indices[0]].questions;
    const items = indices.map((i) => made[i]);
    const begin = () => asking.busy || asking.ask([...items, questions[0]], questions.slice(1));
    const faces = el("span", { className: "faces" }, ...items.map(face));
    $("starters").append(el("li", {}, el("button", { type: "button", onclick: begin }, faces, questions[0])));
  }
}

/** What stands for an example on a button: a player would be a button within a button. */
function face(item) {
  if (item.kind === "image") return Object.assign(view(item), { alt: "" });
  return el("span", { className: "wave", "aria-hidden": "true" }, ...Array.from({ length: 7 }, () => el("i")));
}

let recording = null;
async function toggleRecording() {
  const button = $("record");
  button.disabled = true;
  try {
    if (recording) {
      const running = recording;
      recording = null;
      tray.add(await running.stop());
    } else {
      recording = await record();
    }
  } catch (error) {
    notice(error.message);
  }
  button.disabled = false;
  button.textContent = recording ? "Stop recording" : "Record";
  button.classList.toggle("live", Boolean(recording));
}

$("composer").onsubmit = (event) => {
  event.preventDefault();
  send();
};
$("text").oninput = grow;
$("text").onkeydown = (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send();
};
$("stop").onclick = () => asking.stop();
$("choose").onclick = () => $("files").click();
$("files").onchange = async () => {
  await tray.addFiles([...$("files").files]);
  $("files").value = "";
};
$("record").onclick = toggleRecording;
$("photo").onclick = async () => {
  try {
    const item = await photograph();
    if (item) tray.add(item);
  } catch (error) {
    notice(error.message);
  }
};
for (const [id, can] of [["record", canRecord()], ["photo", canPhotograph()]]) {
  $(id).disabled = !can;
  if (!can) $(id).title = "Browsers give microphone and camera only to https and to this machine.";
}
$("fresh").onclick = () => {
  asking.forget();
  $("welcome").hidden = false;
  $("text").focus();
};
$("key").value = key.get();
$("key").onchange = () => {
  key.set($("key").value.trim());
  loadModels();
  picture.wake();
};

document.addEventListener("paste", (event) => {
  const files = [...(event.clipboardData?.files ?? [])];
  if (!files.length) return;
  event.preventDefault();
  tray.addFiles(files);
});
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  document.body.classList.add("dragging");
});
document.addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) document.body.classList.remove("dragging");
});
document.addEventListener("drop", (event) => {
  event.preventDefault();
  document.body.classList.remove("dragging");
  tray.addFiles([...event.dataTransfer.files]);
});
document.addEventListener("click", (event) => closePopovers((popover) => !popover.contains(event.target)));
document.addEventListener("keydown", (event) => event.key === "Escape" && closePopovers(() => true));

function closePopovers(which) {
  for (const popover of document.querySelectorAll("details.popover[open]")) {
    if (which(popover)) popover.open = false;
  }
}

loadModels();
showExamples();

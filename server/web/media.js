// One picture or sound: from a file or from samples to what is shown and what is sent.
//
// A media item is {kind: "image" | "audio", name, url}; its url is a data URL with the very bytes that are sent.

import { el } from "./dom.js";
import { decode, encode } from "./wav.js";

const SENT_AS_THEY_ARE = ["image/png", "image/jpeg", "image/webp", "image/gif"];

/** A media item from what was dropped, pasted, chosen or recorded. Error with a readable message. */
export async function fromFile(file) {
  if (file.type.startsWith("image/")) return fromPicture(file);
  if (file.type.startsWith("audio/") || file.type.startsWith("video/")) return fromSoundFile(file);
  throw new Error(`${file.name || "This"} is neither a picture nor a sound.`);
}

export async function fromSamples(samples, name) {
  const wav = new Blob([encode(samples)], { type: "audio/wav" });
  return { kind: "audio", name, url: await dataUrl(wav) };
}

async function fromPicture(file) {
  if (SENT_AS_THEY_ARE.includes(file.type)) {
    return { kind: "image", name: file.name || "picture", url: await dataUrl(file) };
  }
  try {
    const bitmap = await createImageBitmap(file);
    const canvas = el("canvas", { width: bitmap.width, height: bitmap.height });
    canvas.getContext("2d").drawImage(bitmap, 0, 0);
    return { kind: "image", name: file.name || "picture", url: canvas.toDataURL("image/png") };
  } catch {
    throw new Error(`This browser can't read ${file.name || "the picture"}.`);
  }
}

async function fromSoundFile(file) {
  let samples;
  try {
    samples = await decode(await file.arrayBuffer());
  } catch {
    throw new Error(`This browser can't read ${file.name || "the sound"}.`);
  }
  return fromSamples(samples, file.name || "sound");
}

function dataUrl(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(new Error("The file can't be read."));
    reader.readAsDataURL(blob);
  });
}

/** The part of a message that stands for a media item, in OpenAI's form. */
export function part(item) {
  if (item.kind === "image") return { type: "image_url", image_url: { url: item.url } };
  return { type: "input_audio", input_audio: { data: item.url.split(",")[1], format: "wav" } };
}

/** What is seen of a media item: a thumbnail, or a player. */
export function view(item) {
  if (item.kind === "image") return el("img", { src: item.url, alt: item.name, title: item.name });
  return el("audio", { src: item.url, controls: true, preload: "metadata", "aria-label": item.name });
}

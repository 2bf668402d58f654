// The camera: a look through it, and one picture.

import { $, el } from "./dom.js";

export const canPhotograph = () => Boolean(navigator.mediaDevices?.getUserMedia);

/** The media item, or null where the person closes the dialog. Error where there is no camera, or no permission. */
export async function photograph() {
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
  } catch (error) {
    throw new Error(error.name === "NotAllowedError" ? "The camera was not allowed." : "There is no camera.");
  }
  const dialog = $("camera");
  const video = $("finder");
  video.srcObject = stream;
  dialog.returnValue = "";
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  const item = dialog.returnValue === "take" ? frame(video) : null;
  stream.getTracks().forEach((track) => track.stop());
  video.srcObject = null;
  return item;
}

function frame(video) {
  if (!video.videoWidth) throw new Error("The camera has shown nothing yet.");
  const canvas = el("canvas", { width: video.videoWidth, height: video.videoHeight });
  canvas.getContext("2d").drawImage(video, 0, 0);
  return { kind: "image", name: "photo", url: canvas.toDataURL("image/jpeg", 0.9) };
}

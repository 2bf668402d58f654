// The microphone, one recording at a time.

import { fromFile } from "./media.js";

export const canRecord = () => Boolean(navigator.mediaDevices?.getUserMedia && window.MediaRecorder);

/** Starts at once; `stop` gives the media item. Error where there is no microphone, or no permission. */
export async function record() {
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  } catch (error) {
    throw new Error(error.name === "NotAllowedError" ? "The microphone was not allowed." : "There is no microphone.");
  }
  const recorder = new MediaRecorder(stream);
  const pieces = [];
  recorder.ondataavailable = (event) => pieces.push(event.data);
  const stopped = new Promise((resolve) => (recorder.onstop = resolve));
  recorder.start();
  return {
    async stop() {
      recorder.stop();
      await stopped;
      stream.getTracks().forEach((track) => track.stop());
      return fromFile(new File(pieces, "recording", { type: "audio/webm" }));
    },
  };
}

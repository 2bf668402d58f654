// Sounds as 16-bit mono WAV at 16 kHz, whatever the browser can decode. The same samples give the same bytes,
// and so the same cache entries.

export const RATE_HZ = 16000;

/** An ArrayBuffer with an encoded sound -> its samples at RATE_HZ, channels averaged. */
export async function decode(encoded) {
  const context = new OfflineAudioContext(1, 1, RATE_HZ);
  const sound = await context.decodeAudioData(encoded); // resamples to the context's rate
  const mono = new Float32Array(sound.length);
  for (let channel = 0; channel < sound.numberOfChannels; channel++) {
    const samples = sound.getChannelData(channel);
    for (let i = 0; i < mono.length; i++) mono[i] += samples[i] / sound.numberOfChannels;
  }
  return mono;
}

/** Samples in -1..1 -> the bytes of a WAV file. */
export function encode(samples) {
  const header = 44;
  const bytes = new Uint8Array(header + 2 * samples.length);
  const view = new DataView(bytes.buffer);
  const text = (at, word) => [...word].forEach((letter, i) => view.setUint8(at + i, letter.charCodeAt(0)));
  text(0, "RIFF");
  view.setUint32(4, bytes.length - 8, true);
  text(8, "WAVEfmt ");
  view.setUint32(16, 16, true); // length of this chunk
  view.setUint16(20, 1, true); // PCM
  view.setUint16(22, 1, true); // channels
  view.setUint32(24, RATE_HZ, true);
  view.setUint32(28, 2 * RATE_HZ, true); // bytes per second
  view.setUint16(32, 2, true); // bytes per frame
  view.setUint16(34, 16, true); // bits per sample
  text(36, "data");
  view.setUint32(40, 2 * samples.length, true);
  samples.forEach((sample, i) => {
    const clipped = Math.max(-1, Math.min(1, sample));
    view.setInt16(header + 2 * i, Math.round(clipped * 32767), true);
  });
  return bytes;
}

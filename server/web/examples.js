// Ready-made pictures and sounds, drawn and computed here: something to ask about with nothing at hand.
// Each is the same bytes every time, so the cache knows it again, in a new chat too.

import { el } from "./dom.js";
import { fromSamples } from "./media.js";
import { RATE_HZ } from "./wav.js";

const SIDE = 224;

/** {kind, name, make() -> media item, questions}: the first question is the one to begin with. */
export const EXAMPLES = [
  {
    kind: "image",
    name: "Two shapes",
    questions: ["What do you see?", "How many shapes are there?", "Is there a star?", "What is the background colour?"],
    make: () =>
      picture("Two shapes", "#ffffff", (pen) => {
        pen.fillStyle = "#d22d2d";
        pen.fill(circle(62, 112, 44));
        pen.fillStyle = "#2457c5";
        pen.fillRect(122, 72, 80, 80);
      }),
  },
  {
    kind: "image",
    name: "Four shapes",
    questions: ["Where is the star?", "What colour is the triangle?", "How many shapes are there?", "What shape is yellow?"],
    make: () =>
      picture("Four shapes", "#ffffff", (pen) => {
        pen.fillStyle = "#d22d2d";
        pen.fill(circle(52, 56, 32));
        pen.fillStyle = "#f2c81e";
        pen.fill(star(170, 62, 42));
        pen.fillStyle = "#2457c5";
        pen.fillRect(26, 134, 64, 64);
        pen.fillStyle = "#2e9b4f";
        pen.fill(triangle(170, 164, 40));
      }),
  },
  {
    kind: "image",
    name: "A star",
    questions: ["What shape is in the picture?", "What colour is it?", "What is the background colour?"],
    make: () =>
      picture("A star", "#1f46b4", (pen) => {
        pen.fillStyle = "#f2c81e";
        pen.fill(star(112, 116, 80));
      }),
  },
  {
    kind: "image",
    name: "A number",
    questions: ["What number is in the picture?", "What colour is the number?", "How many digits does the number have?"],
    make: () =>
      picture("A number", "#fbfaf5", (pen) => {
        pen.fillStyle = "#1d1d1d";
        pen.font = "bold 104px 'DejaVu Sans', Arial, sans-serif";
        pen.textAlign = "center";
        pen.textBaseline = "middle";
        pen.fillText("472", SIDE / 2, SIDE / 2, SIDE - 24);
      }),
  },
  {
    kind: "audio",
    name: "Three beeps",
    questions: ["How many beeps do you hear?", "Is the sound high or low?", "Is anyone speaking?"],
    make: () => sound("Three beeps", [beep(0.18), rest(0.25), beep(0.18), rest(0.25), beep(0.18)]),
  },
  {
    kind: "audio",
    name: "A rising tone",
    questions: ["What do you hear?", "Is the tone rising or falling?", "How many beeps do you hear?"],
    make: () => sound("A rising tone", [tone(1.2, (t) => 300 * 5 ** (t / 1.2))]),
  },
];

function picture(name, ground, draw) {
  const canvas = el("canvas", { width: SIDE, height: SIDE });
  const pen = canvas.getContext("2d");
  pen.fillStyle = ground;
  pen.fillRect(0, 0, SIDE, SIDE);
  draw(pen);
  return { kind: "image", name, url: canvas.toDataURL("image/png") };
}

function circle(x, y, radius) {
  const path = new Path2D();
  path.arc(x, y, radius, 0, 2 * Math.PI);
  return path;
}

function polygon(points) {
  const path = new Path2D();
  points.forEach(([x, y]) => path.lineTo(x, y));
  path.closePath();
  return path;
}

/** Upright, between y - radius and y + radius. */
function triangle(x, y, radius) {
  return polygon([[x, y - radius], [x + radius, y + radius], [x - radius, y + radius]]);
}

function star(x, y, radius) {
  const corner = (i) => {
    const reach = i % 2 ? 0.4 * radius : radius;
    const angle = (i * Math.PI) / 5 - Math.PI / 2;
    return [x + reach * Math.cos(angle), y + reach * Math.sin(angle)];
  };
  return polygon(Array.from({ length: 10 }, (_, i) => corner(i)));
}

function sound(name, pieces) {
  const samples = new Float32Array(pieces.reduce((length, piece) => length + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    samples.set(piece, at);
    at += piece.length;
  }
  return fromSamples(samples, name);
}

const beep = (seconds) => tone(seconds, () => 1200);
const rest = (seconds) => new Float32Array(seconds * RATE_HZ);

/** A sine of changing frequency, faded at both ends. hertz: of the time in seconds. */
function tone(seconds, hertz) {
  const samples = new Float32Array(seconds * RATE_HZ);
  const fade = 0.008 * RATE_HZ;
  let phase = 0;
  for (let i = 0; i < samples.length; i++) {
    phase += (2 * Math.PI * hertz(i / RATE_HZ)) / RATE_HZ;
    samples[i] = 0.6 * Math.sin(phase) * Math.min(1, i / fade, (samples.length - 1 - i) / fade);
  }
  return samples;
}

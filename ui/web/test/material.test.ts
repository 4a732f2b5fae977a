import assert from "node:assert/strict";
import { test } from "node:test";
import { inflateSync } from "node:zlib";
import { dragged, frameFrom, frameKindOf, snapped, valuesOf } from "../src/material/frame/frame";
import { maskOf } from "../src/material/mask/channel";
import { emptyMask, feather, fillOutline, flood, partPainted, type Mask } from "../src/material/mask/coverage";
import { fromRuns, toRuns } from "../src/material/mask/kept";
import { Painter } from "../src/material/mask/painter";
import { frameAt, framesOf, marked, NO_MARKS, timeOf, turnedBack } from "../src/material/player/marks";
import { peaksOf } from "../src/material/sound/peaks";
import { pngOf } from "../src/material/mask/png";

const at = ({ data, width }: Mask, x: number, y: number): number => data[y * width + x]!;
const square = (side: number, from: number, to: number): Mask => {
  const mask = emptyMask(side, side);
  for (let y = from; y < to; y++) mask.data.fill(255, y * side + from, y * side + to);
  return mask;
};

test("a stroke covers its pixels evenly, whatever its direction, and an erasing one takes them away", () => {
  const painter = new Painter(40, 20);
  painter.down({ x: 5, y: 10, radius: 3 }, false);
  painter.move({ x: 35, y: 10, radius: 3 });
  painter.up();
  assert.deepEqual([at(painter.mask, 20, 10), at(painter.mask, 20, 7), at(painter.mask, 20, 5)], [255, 255, 0]);
  assert.ok(Math.abs(partPainted(painter.mask) * 800 - (30 * 6 + Math.PI * 9)) < 3, "its area is that of the shape");
  painter.down({ x: 20, y: -2, radius: 4 }, true);
  painter.move({ x: 20, y: 30, radius: 4 });
  painter.up();
  assert.deepEqual([at(painter.mask, 20, 10), at(painter.mask, 10, 10)], [0, 255]);
});

test("strokes, fills and whole edits are undone and done again, each as one; what changes nothing is none", () => {
  const painter = new Painter(16, 16);
  const states = [painter.mask.data.slice()];
  const after = (edit: () => void): void => {
    edit();
    states.push(painter.mask.data.slice());
  };
  after(() => {
    painter.down({ x: 8, y: 8, radius: 4 }, false);
    painter.move({ x: 10, y: 8, radius: 4 });
    painter.up();
  });
  after(() => painter.feather(4));
  after(() => painter.invert());
  after(() => painter.fill({ x: 8, y: 8 }, { isErasing: false }));
  painter.down({ x: -90, y: 8, radius: 2 }, false);
  painter.cancel();
  painter.all(255);
  painter.all(255);
  painter.undo();
  for (const state of [...states].reverse()) {
    assert.deepEqual(painter.mask.data, state);
    painter.undo();
  }
  assert.equal(painter.history.canUndo, false);
  for (const state of states.slice(1)) {
    painter.redo();
    assert.deepEqual(painter.mask.data, state);
  }
  painter.invert();
  assert.equal(painter.history.canRedo, false);
});

test("an outline is filled by the even-odd rule, a flood up to the border, or as far as colours are alike", () => {
  const mask = emptyMask(10, 10);
  fillOutline(
    mask,
    [
      { x: 2, y: 2 },
      { x: 8, y: 2 },
      { x: 8, y: 8 },
      { x: 2, y: 8 },
    ],
    false,
  );
  assert.deepEqual(mask.data, square(10, 2, 8).data);
  assert.equal(
    fillOutline(
      mask,
      [
        { x: 2, y: 2 },
        { x: 8, y: 2 },
      ],
      false,
    ),
    null,
  );

  const ring = square(10, 2, 8);
  fillOutline(
    ring,
    [
      { x: 4, y: 4 },
      { x: 6, y: 4 },
      { x: 6, y: 6 },
      { x: 4, y: 6 },
    ],
    true,
  );
  assert.equal(at(ring, 5, 5), 0);
  assert.deepEqual(flood(ring, { x: 5.2, y: 5.9 }), { left: 4, top: 4, right: 6, bottom: 6 });
  assert.deepEqual(ring.data, mask.data);
  flood(ring, { x: 5, y: 5 }, { isErasing: true });
  assert.equal(partPainted(ring), 0);

  const picture = new Uint8ClampedArray(400).fill(90);
  for (let y = 0; y < 10; y++) for (let x = 5; x < 10; x++) picture[(y * 10 + x) * 4] = 140;
  flood(ring, { x: 1, y: 1 }, { picture, tolerance: 49 });
  assert.equal(partPainted(ring), 0.5);
  flood(ring, { x: 9, y: 1 }, { picture, tolerance: 50 });
  assert.equal(partPainted(ring), 1);
});

test("feathering is soft within so many pixels of an edge, and changes none beyond", () => {
  for (const radius of [1, 5, 8]) {
    const mask = square(60, 20, 40);
    feather(mask, radius);
    const row = [...mask.data.subarray(30 * 60, 31 * 60)];
    assert.deepEqual([row[19 - radius], row[20 + radius]], [0, 255], `${radius}`);
    assert.ok(row[19]! > 0 && row[20]! < 255);
    assert.ok(row.slice(0, 30).every((value, x) => x === 0 || value >= row[x - 1]!));
    assert.equal(partPainted({ ...mask, data: mask.data.slice(0, 60 * (20 - radius)) }), 0);
  }
});

test("a file holds the mask byte for byte, as grey or as what is transparent", async () => {
  const mask = emptyMask(5, 3);
  mask.data.forEach((_, i) => (mask.data[i] = i * 17));
  for (const [form, samples] of [
    ["luminance", 1],
    ["alpha", 2],
  ] as const) {
    const bytes = Buffer.from(await (await pngOf(mask, form)).arrayBuffer());
    assert.deepEqual([bytes.readUInt32BE(16), bytes.readUInt32BE(20), bytes[25]], [5, 3, samples === 2 ? 4 : 0]);
    const rows = inflateSync(bytes.subarray(41, 41 + bytes.readUInt32BE(33)));
    const found = Array.from({ length: 15 }, (_, i) => {
      const sample = rows[Math.floor(i / 5) * (1 + 5 * samples) + 1 + (i % 5) * samples + samples - 1]!;
      return samples === 2 ? 255 - sample : sample;
    });
    assert.deepEqual(found, [...mask.data]);
  }
});

test("a mask in a file is read by its channel as the server reads it", () => {
  const colours = new Uint8ClampedArray([255, 0, 0, 255, 0, 255, 0, 0, 0, 0, 255, 51, 255, 255, 255, 255]);
  const read = (channel: Parameters<typeof maskOf>[3]) => [...maskOf(colours, 2, 2, channel).data];
  assert.deepEqual(read("alpha"), [0, 255, 204, 0]);
  assert.deepEqual(read("green"), [0, 255, 0, 255]);
  assert.deepEqual(read("luminance"), [76, 255, 210, 255]);
});

test("strokes are kept as runs, and what is damaged is none", () => {
  const data = Uint8Array.from([0, 0, 0, 255, 255, 7]);
  assert.deepEqual(fromRuns(toRuns(data), 6), data);
  for (const text of ["", "0.3", "0.7", "zz.1,0.5", "0.x-,1", "0.6,0.1"]) assert.equal(fromRuns(text, 6), null, text);
});

test("a frame keeps inside or around its picture, with sides that a model takes", () => {
  const picture = { width: 100, height: 60 };
  const whole = frameFrom("crop", picture, () => 0);
  assert.deepEqual(whole, { left: 0, top: 0, ...picture });
  const part = dragged("crop", picture, whole, { grip: [-1, 1], by: [30, -9], multiple: 16 });
  assert.deepEqual(part, { left: 36, top: 0, width: 64, height: 48 });
  const moved = dragged("crop", picture, part, { grip: [0, 0], by: [99, 5], multiple: 16 });
  assert.deepEqual(moved, { left: 36, top: 5, width: 64, height: 48 });
  assert.deepEqual(
    frameFrom("crop", picture, (name) => valuesOf("crop", picture, moved)[name]!),
    moved,
  );

  const around = frameFrom("outpaint", picture, () => 0);
  const larger = dragged("outpaint", picture, around, { grip: [-1, 0], by: [-20, 50], multiple: 32 });
  assert.deepEqual(valuesOf("outpaint", picture, larger), { left: 28, top: 0, right: 0, bottom: 0 });
  const least = dragged("outpaint", picture, larger, { grip: [-1, 0], by: [500, 0], multiple: 1 });
  assert.deepEqual(least, around);
  assert.equal(snapped(13, { multiple: 16, least: 1, most: 12 }), 12);
});

test("a node that takes a frame is known by its sockets", () => {
  const inputs = (...names: string[]) => names.map((name) => ({ name, type: name === "image" ? "Image" : "int" }));
  const kind = (...names: string[]) => frameKindOf({ inputs: inputs(...names) } as never);
  assert.equal(kind("image", "left", "top", "width", "height"), "crop");
  assert.equal(kind("image", "left", "top", "right", "bottom"), "outpaint");
  assert.equal(kind("left", "top", "width", "height"), null);
  assert.equal(kind("image", "width", "height"), null);
});

test("marks keep their order, and playing goes back from the last to the first", () => {
  const part = marked(marked(NO_MARKS, "start", 2), "end", 5);
  assert.deepEqual(part, { start: 2, end: 5 });
  assert.deepEqual(
    [framesOf(part, 2, 99), framesOf(NO_MARKS, 2, 99)],
    [
      { start: 4, frames: 7 },
      { start: 0, frames: 99 },
    ],
  );
  assert.deepEqual(marked(part, "start", 6), { start: 6, end: null });
  assert.deepEqual(marked(part, "end", 1), { start: null, end: 1 });
  assert.deepEqual([turnedBack(part, 4.9, 9), turnedBack(part, 5, 9), turnedBack(NO_MARKS, 9, 9)], [null, 2, null]);
});

test("each frame is found at the time that it is asked for", () => {
  for (const fps of [8, 23.976, 24, 30]) {
    for (let frame = 0; frame < 500; frame++) assert.equal(frameAt(timeOf(frame, fps), fps, 500), frame);
    assert.equal(frameAt(99, fps, 500), 499);
    assert.equal(frameAt(3 / fps, fps, 500), 3);
  }
});

test("peaks are the lowest and highest samples of all channels", () => {
  const left = Float32Array.from([0.5, -0.25, 0, 0, 0.25]);
  const right = Float32Array.from([0, 0, -1, 0.75, 0]);
  const { low, high } = peaksOf([left, right], 2);
  assert.deepEqual(
    [[...low], [...high]],
    [
      [-0.25, -1],
      [0.5, 0.75],
    ],
  );
  assert.equal(peaksOf([left], 99).low.length, 5);
  assert.equal(peaksOf([], 9).low.length, 0);
});

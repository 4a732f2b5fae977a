import assert from "node:assert/strict";
import { test } from "node:test";
import { linesOf, meets, type Box, type Path, type WireEnds } from "../src/canvas/routes/geometry";
import { route } from "../src/canvas/routes/route";

const box = (left: number, top: number, width = 200, height = 150): Box => ({
  left,
  top,
  right: left + width,
  bottom: top + height,
});
const wire = (net: string, from: [number, number], to: [number, number]): WireEnds => ({
  id: `${net}>${to}`,
  net,
  from,
  to,
});
const isAtRightAngles = (path: Path) =>
  path.slice(1).every(([x, y], index) => x === path[index]![0] || y === path[index]![1]);

test("a wire with nothing between its ends is straight", () => {
  const paths = route([box(0, 0), box(300, 0)], [wire("a", [206, 40], [294, 40])]);
  assert.deepEqual(Object.values(paths), [
    [
      [206, 40],
      [294, 40],
    ],
  ]);
});

test("a wire goes round what lies between, and back to the left", () => {
  const boxes = [box(0, 0), box(300, -60), box(600, 0)];
  for (const asked of [wire("a", [206, 40], [594, 40]), wire("b", [806, 40], [-6, 40])]) {
    const path = route(boxes, [asked])[asked.id]!;
    assert.deepEqual([path[0], path.at(-1)], [asked.from, asked.to]);
    assert.ok(isAtRightAngles(path));
    assert.ok(!boxes.some((each) => linesOf(path).some((line) => meets(each, line))));
  }
});

test("wires of different outputs run beside each other, those of one output together", () => {
  const boxes = [box(0, 0), box(260, 0), box(260, 200), box(260, 400)];
  const wires = [
    wire("a", [206, 30], [254, 430]),
    wire("b", [206, 60], [254, 460]),
    wire("c", [206, 90], [254, 230]),
    wire("c", [206, 90], [254, 490]),
  ];
  const paths = route(boxes, wires);
  const upright = wires.map(({ id }) => linesOf(paths[id]!).filter((line) => line.left === line.right));
  const [a, b, c, d] = upright.map((lines) => lines[0]!.left);
  assert.equal(new Set([a, b, c]).size, 3);
  assert.equal(c, d);
  for (const x of [a!, b!, c!]) assert.ok(x > 206 && x < 254);
});

test("where nothing leaves a way there is none", () => {
  const paths = route([box(0, 0), box(150, 0)], [wire("a", [206, 40], [144, 40])]);
  assert.deepEqual(Object.values(paths), [null]);
});

test("hundreds of nodes are routed in seconds, and none is crossed", () => {
  const boxes = Array.from({ length: 300 }, (_, index) => box(260 * (index % 20), 200 * Math.floor(index / 20)));
  const wires = boxes.flatMap((_, index) =>
    [1, 2, 21].flatMap((step) => {
      const other = boxes[index + step];
      const { right, top } = boxes[index]!;
      return other ? [wire(`${index}`, [right + 6, top + 40], [other.left - 6, other.top + 40 + step])] : [];
    }),
  );
  const started = performance.now();
  const paths = route(boxes, wires);
  assert.ok(performance.now() - started < 10_000);
  for (const path of Object.values(paths)) {
    assert.ok(path && isAtRightAngles(path));
    const lines = linesOf(path);
    assert.ok(!boxes.some((each) => lines.some((line) => meets(each, line))));
  }
});

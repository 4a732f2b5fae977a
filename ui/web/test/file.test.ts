import assert from "node:assert/strict";
import { test } from "node:test";
import { fromFile, toFile } from "../src/graph/file/workflowFile";
import type { GraphFile, InputValue, Json } from "../src/types";
import { shippedFiles } from "./graphs";

for (const [name, file] of shippedFiles()) {
  test(`${name} comes back as it was, in its order`, () => {
    assert.equal(JSON.stringify(toFile(fromFile(file))), JSON.stringify(file));
  });
}

test("everything that a file can say comes back", () => {
  const file: GraphFile = {
    $schema: "../workflow.schema.json",
    format: 1,
    name: "all of it",
    description: "two lines\nof text",
    requires: { latentloom: ">=0.1" },
    params: { seed: { type: "int", default: 7, min: 0 }, name: { type: "string" } },
    nodes: {
      a: { type: "Load", version: 3, title: "My <b>loader</b>", mode: "mute", inputs: { source: "x", list: [1, [2]] } },
      b: {
        type: "NobodyKnowsIt",
        version: 1,
        mode: "bypass",
        inputs: {
          model: { from: "a.model" },
          seed: { param: "seed" },
          raw: { value: { from: "no.link" } },
          none: null,
        },
      },
    },
    outputs: { out: { from: "b.x" } },
    meta: { shot: "010_0020", tags: ["a", { b: null }] },
    layout: {
      a: { at: [1, 2], size: [300, 200], collapsed: true, color: "blue", shown: false, zoom: 2 },
      b: [3.5, -4],
      $groups: [{ id: "g", title: "G", color: "red", rect: [0, 0, 10, 10], locked: true }],
      $notes: [{ id: "c", text: "hi ${alert(1)}", color: "", rect: [0, 0, 5, 5] }],
      $reroutes: { r1: { at: [5, 5], from: "a.model" }, r2: { at: [6, 6], from: "$r1" } },
      $via: { "b.model": "r2" },
      $later: { version: 9 },
      gone: [1, 1],
    },
  };
  const { layout, ...logic } = toFile(fromFile(file));
  const { layout: was, ...before } = file;
  assert.deepEqual(logic, before);
  assert.deepEqual(layout, was);
});

test("a node without a place gets one, beside the others", () => {
  const graph = fromFile({
    format: 1,
    name: "n",
    nodes: { a: { type: "A" }, b: { type: "B", inputs: { x: { from: "a.y" } } } },
  });
  assert.ok(graph.nodes.b!.at[0] > graph.nodes.a!.at[0]);
});

test("nodes that the layout leaves out lie below those that it places, and on none of them", () => {
  const { nodes } = fromFile({
    format: 1,
    name: "n",
    nodes: { a: { type: "A" }, b: { type: "B" }, c: { type: "C" }, d: { type: "D" } },
    layout: { a: [40, 40], b: [400, 90] },
  });
  assert.deepEqual(
    [nodes.a!.at, nodes.b!.at],
    [
      [40, 40],
      [400, 90],
    ],
  );
  assert.ok(nodes.c!.at[1] > 90 + 500 && nodes.d!.at[1] > 90 + 500);
  assert.notDeepEqual(nodes.c!.at, nodes.d!.at);
});

test("hostile names of keys are entries like any other", () => {
  const text = `{"format":1,"name":"h","nodes":{"constructor":{"type":"A","version":1,"inputs":{"constructor":{"from":"constructor.x"}}}},
    "layout":{"constructor":[1,2],"__proto__":{"polluted":true},"toString":[3,4]}}`;
  const file = JSON.parse(text) as GraphFile;
  assert.deepEqual(JSON.parse(JSON.stringify(toFile(fromFile(file)))), file);
  assert.equal(({} as { polluted?: boolean }).polluted, undefined);
});

const ODD_LAYOUTS: Record<string, Json> = {
  "places that are no places": { a: "left", b: [1], c: [1e999, 0], d: { at: null, size: [-1, 0], color: "url(x)" } },
  "frames that are no frames": { $groups: [1, null, { rect: [0, 0] }], $notes: "no", $reroutes: [1], $via: [] },
  "reroutes in a circle": { $reroutes: { r: { at: [0, 0], from: "$r" } }, $via: { "b.x": "r", "b.y": 5 } },
  "a list": [],
};
for (const [name, layout] of Object.entries(ODD_LAYOUTS)) {
  test(`a layout with ${name} harms nothing`, () => {
    const nodes = {
      a: { type: "A" },
      b: { type: "B", inputs: { x: { from: "a.y" } } },
      c: { type: "C" },
      d: { type: "D" },
    };
    const graph = fromFile({ format: 1, name: "odd", nodes, layout: layout as Record<string, Json> });
    assert.deepEqual(Object.keys(graph.nodes), ["a", "b", "c", "d"]);
    for (const node of Object.values(graph.nodes)) assert.ok(node.at.every(Number.isFinite));
    assert.deepEqual([graph.groups, graph.notes, graph.via, graph.reroutes], [[], [], {}, {}]);
    assert.deepEqual(graph.nodes.b!.inputs, { x: { from: "a.y" } });
  });
}

for (const bad of [null, 5, "text", [], {}, { nodes: [] }, { nodes: { a: 5 } }, { nodes: { a: { type: 7 } } }]) {
  test(`${JSON.stringify(bad)} is refused in a sentence`, () => {
    assert.throws(() => fromFile(bad as unknown as GraphFile), /no workflow.*open a file/);
  });
}

test("5,000 nodes in a line are read in seconds, without running out of stack", () => {
  const names = Array.from({ length: 5000 }, (_, index) => `n${index}`);
  const nodes = Object.fromEntries(
    names.map((name, index) => [
      name,
      { type: "A", version: 1, ...(index && { inputs: { x: { from: `n${index - 1}.y` } } }) },
    ]),
  );
  const layout = Object.fromEntries(names.map((name, index) => [name, [index, 0]]));
  const file = { format: 1, name: "long", nodes, layout } as GraphFile;
  assert.deepEqual(toFile(fromFile(file)), file);
});

test("what is malformed in a draft or in copied text is left out", () => {
  const odd = {
    name: 5,
    description: [],
    requires: "x",
    params: { a: 1, b: { type: "int" } },
    nodes: { a: { type: "A", version: "2", title: {}, mode: "fly", inputs: "none" } },
    outputs: { good: { from: "a.b" }, bad: 7 },
    layout: "none",
  };
  const { nodes, ...rest } = toFile(fromFile(odd as unknown as GraphFile));
  assert.deepEqual(nodes, { a: { type: "A", version: 1 } });
  assert.deepEqual(
    [rest.name, rest.params, rest.outputs],
    ["untitled", { b: { type: "int" } }, { good: { from: "a.b" } }],
  );
});

const old = (inputs: Record<string, InputValue>) => ({ type: "LoomLoadModel", version: 1, inputs });
const read = (node: ReturnType<typeof old>) => fromFile({ format: 1, name: "n", nodes: { m: node } }).nodes.m!;

test("a node of an older version opens with equal values at today's sockets", () => {
  const { version, inputs } = read(old({ dtype: "bf16", compiled: true, cuda_graph: false }));
  assert.deepEqual([version, inputs], [2, { dtype: "bf16", engine: "inductor", graphs: "auto" }]);
  assert.equal(read(old({ engine: "tensorrt", compiled: true })).inputs.engine, "tensorrt"); // a run's own value
  assert.equal(read(old({})).version, 2);
});

test("an old socket that a param gives its value stays for the server", () => {
  const { version, inputs } = read(old({ compiled: { param: "fast" } }));
  assert.deepEqual([version, inputs], [1, { compiled: { param: "fast" } }]);
});

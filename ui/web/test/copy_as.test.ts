import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { addGroup, align, distribute } from "../src/graph/edits";
import { clipFile, copy, paste, readClip } from "../src/graph/file/clip";
import { quoted, shellCommand } from "../src/graph/file/command";
import { fromFile } from "../src/graph/file/workflowFile";
import type { EditorGraph, Point } from "../src/types";
import { toyGraph } from "./graphs";

const HOSTILE = 'it\'s; rm -rf / $(whoami) `id` "x" \\ \n*?~!# --set ünd';

/** The words as a shell hands them to a program. */
const words = (command: string): string[] =>
  execFileSync("sh", ["-c", `printf '%s\\0' ${command}`], { encoding: "utf8" })
    .split("\0")
    .slice(0, -1);

test("a shell hands every value on as it is", () => {
  for (const text of [HOSTILE, "", "plain-1.5", "-x", "a b", "'", "\t"]) assert.deepEqual(words(quoted(text)), [text]);
  assert.equal(quoted("a\0b"), "ab");
});

test("the command runs the file with the values of the nodes, a param's by its name", () => {
  const graph = fromFile({
    format: 1,
    name: `-${HOSTILE}`,
    params: { text: { type: "string", default: HOSTILE }, unset: { type: "int" } },
    nodes: {
      first: {
        type: "Work",
        inputs: { name: { param: "text" }, steps: 7, latents: { from: "other.latents" }, list: { value: [1, "a b"] } },
      },
      other: { type: "Work", inputs: { steps: 9, method: { param: "unset" } } },
    },
  });
  const [program, verb, file, ...sets] = words(shellCommand(graph, ["first", "other"]));
  assert.deepEqual([program, verb, file], ["latentloom", "run", `./-${HOSTILE}.json`.replace("/ ", "_ ")]);
  assert.deepEqual(
    sets.filter((_, index) => index % 2),
    [`text=${HOSTILE}`, "first.steps=7", 'first.list=[1,"a b"]', "other.steps=9"],
  );
  assert.ok(!shellCommand(graph, ["first"]).includes("other.steps"));
});

test("what is copied as JSON pastes back with its wires, and so does the file of any workflow", () => {
  const text = clipFile(copy(toyGraph(), ["n:second", "n:first"])!);
  assert.equal(JSON.parse(text).format, 1);
  const { graph, keys } = paste(toyGraph(), readClip(text)!, [0, 900]);
  assert.deepEqual(keys, ["n:first_2", "n:second_2"]);
  assert.deepEqual(graph.nodes.second_2!.inputs, {
    model: { from: "load.model" },
    latents: { from: "first_2.latents" },
    steps: 7,
  });
  const other = paste(fromFile({ format: 1, name: "x", nodes: { load: { type: "Other" } } }), readClip(text)!, [0, 0]);
  assert.ok(!("model" in other.graph.nodes.first!.inputs)); // what is called load there is something else
  assert.deepEqual(Object.keys(readClip('{"format": 1, "nodes": {"a": {"type": "Work"}}}')!.graph.nodes), ["a"]);
  for (const broken of ['{"format": 1', '{"format": 1, "nodes": 5}', '{"format": 1, "nodes": {}}', "[]", "format"]) {
    assert.equal(readClip(broken), null, broken);
  }
});

const SIZES: Record<string, Point> = { load: [100, 100], whole: [200, 50], pick: [60, 60] };
const sizeOf = (name: string): Point => SIZES[name] ?? [100, 100];
const KEYS = ["n:load", "n:whole", "n:pick"];
const at = (graph: EditorGraph): Point[] => ["load", "whole", "pick"].map((name) => graph.nodes[name]!.at);

test("things are lined up by their edges and middles", () => {
  const graph = toyGraph(); // at 0,0; 0,200; 0,400
  const moved = { ...graph, nodes: { ...graph.nodes, whole: { ...graph.nodes.whole!, at: [50, 200] as Point } } };
  assert.deepEqual(at(align(moved, KEYS, "left", sizeOf)), [
    [0, 0],
    [0, 200],
    [0, 400],
  ]);
  assert.deepEqual(at(align(moved, KEYS, "right", sizeOf)), [
    [150, 0],
    [50, 200],
    [190, 400],
  ]);
  assert.deepEqual(at(align(moved, KEYS, "column", sizeOf)), [
    [75, 0],
    [25, 200],
    [95, 400],
  ]);
  assert.deepEqual(at(align(moved, KEYS, "top", sizeOf)), [
    [0, 0],
    [50, 0],
    [0, 0],
  ]);
  assert.deepEqual(at(align(moved, KEYS, "bottom", sizeOf)), [
    [0, 360],
    [50, 410],
    [0, 400],
  ]);
});

test("gaps become equal, the outer ones stay, and of two there is nothing to do", () => {
  assert.deepEqual(at(distribute(toyGraph(), KEYS, "down", sizeOf)), [
    [0, 0],
    [0, 225],
    [0, 400],
  ]);
  const graph = toyGraph();
  assert.equal(distribute(graph, KEYS.slice(1), "down", sizeOf), graph);
});

test("a group that is lined up takes along what it holds", () => {
  const graph = addGroup(toyGraph(), {
    id: "g",
    title: "",
    color: "",
    rect: [500, 0, 400, 300],
    members: ["n:second"],
  });
  const lined = align(graph, ["n:load", "g:g"], "left", sizeOf);
  assert.deepEqual([lined.groups[0]!.rect[0], lined.nodes.second!.at], [0, [100, 0]]);
});

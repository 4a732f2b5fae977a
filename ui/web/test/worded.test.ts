import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { inWords } from "../src/graph/catalog";
import { setTexts } from "../src/i18n";
import { heard, worded } from "../src/worded";
import { TOYS } from "./graphs";

const GERMAN = {
  texts: { "socket.width": "Breite" },
  sentences: {
    "{} is {}; it takes {}; choose a number there": "{0} ist {1}; erlaubt ist {2}",
    "{} to {}": "{0} bis {1}",
    "node {} ({}, {}): {}": "{1}: {3}",
    Add: "Addieren",
    "it is muted": "er ist stumm",
  },
};

afterEach(() => setTexts("en"));

/** As an answer brings it: how a sentence was made. */
function make(text_id: string, ...values: string[]): string {
  let at = 0;
  const sentence = text_id.replaceAll("{}", () => values[at++] ?? "");
  heard({ said: { [sentence]: { text_id, values } } });
  return sentence;
}

test("a sentence of the server is said with its values, each in words where there are some", () => {
  setTexts("de", GERMAN);
  const span = make("{} to {}", "1", "4");
  const range = make("{} is {}; it takes {}; choose a number there", "width", "9", span);
  assert.equal(worded(range), "Breite ist 9; erlaubt ist 1 bis 4");
  assert.equal(
    worded(make("node {} ({}, {}): {}", "'a'", "Add", "LoomAdd", range)),
    "Addieren: Breite ist 9; erlaubt ist 1 bis 4",
  );
});

test("sentences in a row are said one by one, and what has no words stays", () => {
  setTexts("de", GERMAN);
  assert.equal(worded("it is muted; $& {0}\nit is muted"), "er ist stumm; $& {0}\ner ist stumm");
  assert.equal(worded("Nobody wrote this"), "Nobody wrote this");
  assert.equal(worded(make("nobody wrote {}", "it is muted")), "nobody wrote it is muted");
  assert.equal(
    worded("height is 9; it takes 1 to 4; choose a number there"),
    "height is 9; it takes 1 to 4; choose a number there",
  );
});

test("no error of the page speaks of classes, of files on the server, or of the workflow's file", () => {
  const path = make("{} {} does not exist (looked in {}); check the path", "path", "'a.png'", "/srv/users/25bf/in");
  const said = [
    make("node {} ({}, {}): {}", "'load'", "Load Image", "LoomLoadImage", path),
    make('{} is not connected; wire a {} to it (in the file: {"from": "node.socket"})', "image", "Image"),
    make("source {} lies outside the allowed folders ({})", "/srv/models/x", "/srv/models/y"),
  ];
  assert.deepEqual(said.map(worded), [
    "Load Image: path 'a.png' is not on this server; choose a file, or upload it",
    "image is not connected; wire something to it that gives Image",
    "source /srv/models/x lies outside the allowed folders",
  ]);
});

test("a catalog has its texts in the language, and those of nodes from outside as they are", () => {
  setTexts("de", GERMAN);
  const [add, ...others] = TOYS.nodes;
  const told = {
    ...TOYS,
    nodes: [
      { ...add!, title: "Add" },
      { ...add!, id: "studio_Own", title: "Their own" },
    ],
  };
  assert.deepEqual(
    inWords(told).nodes.map(({ title }) => title),
    ["Addieren", "Their own"],
  );
  assert.ok(others.length > 0);
});

import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";
import { describe } from "../src/graph/edits";
import { saveAs, overwrite, save, type SaveAsked } from "../src/panels/files/fileActions";
import { openFile, type PlainFile } from "../src/panels/files/openFile";
import { close } from "../src/panels/files/tabActions";
import { deleteLater, undoDelete } from "../src/panels/library/lateDeletes";
import { panelStore, setNextPlan } from "../src/panels/panelState";
import { applyMend, mendsFor, mendText } from "../src/panels/problems/mends";
import { run } from "../src/panels/runs/runActions";
import { edit, editorStore, load, setProblems, undo } from "../src/store/editor";
import { liveStore } from "../src/store/live";
import { pageStore, toast } from "../src/store/page";
import { openTab, setTabs, tabOf } from "../src/store/tabs";
import { newBrowser, type Browser } from "./browser";
import { toyGraph } from "./graphs";

const SAVED = {
  id: "w1",
  name: "toy",
  folder: "",
  description: "",
  updated: 1,
  version: 4,
  num_nodes: 5,
  has_thumb: false,
};

let browser: Browser;

beforeEach(() => {
  mock.timers.reset();
  mock.timers.enable({ apis: ["setTimeout"] });
  setTabs([], "");
  browser = newBrowser();
  pageStore.setState({ dialog: null, toasts: [], question: null });
  panelStore.setState({ nextPlan: null, tab: "queue" });
  load(toyGraph(), { id: "w1", version: 3, name: "toy" });
});

/** What a dialog about saving was opened with, once it is there. */
async function asked(dialog: string): Promise<SaveAsked> {
  while (pageStore.getState().dialog?.name !== dialog) await Promise.resolve();
  return pageStore.getState().dialog!.payload as SaveAsked;
}

/** Its key. */
function openOne(): string {
  openTab(toyGraph(), { id: "w1", version: 3, name: "toy" });
  return editorStore.getState().draftKey;
}

function change(): void {
  edit("name", (graph) => describe(graph, { description: `${graph.description}.` }));
}

test("saving tells the version that was changed, and the workflow is clean again", async () => {
  change();
  browser.answer(() => Response.json(SAVED));
  assert.equal(await save(), true);
  assert.equal((await browser.requests[0]!.json()).base_version, 3);
  assert.deepEqual(editorStore.getState().workflow, { id: "w1", version: 4, name: "toy" });
  assert.equal(editorStore.getState().isDirty, false);
});

test("what is edited while a save is under way stays unsaved", async () => {
  change();
  browser.answer(() => {
    change();
    return Response.json(SAVED);
  });
  await save();
  assert.deepEqual([editorStore.getState().workflow?.version, editorStore.getState().isDirty], [4, true]);
});

const TIGHT = {
  node: "first",
  socket: "",
  code: "memory",
  message: "it lacks 3 GiB",
  kind: "estimate" as const,
  mends: [],
  inside: "",
};
const STARTED = { batch: "b", runs: ["r1"], left_out: [], num_left_out: 0, shared_out: "" };

test("what is only reckoned is run once people say so, and then asked for by force", async () => {
  browser.answer(async (request) =>
    (await request.json()).force
      ? Response.json(STARTED)
      : Response.json({ error: "tight", problems: [TIGHT] }, { status: 400 }),
  );
  const first = run();
  while (!pageStore.getState().question) await new Promise(setImmediate);
  assert.equal(pageStore.getState().question!.yes, "Run anyway");
  pageStore.getState().question!.answer(false);
  assert.equal(await first, false);
  assert.deepEqual([editorStore.getState().problems, panelStore.getState().tab], [[TIGHT], "problems"]);
  const second = run();
  while (!pageStore.getState().question) await new Promise(setImmediate);
  pageStore.getState().question!.answer(true);
  assert.equal(await second, true);
  assert.deepEqual(editorStore.getState().problems, [TIGHT], "it may be so all the same");
});

test("an error is no question, and points that are left out are told", async () => {
  browser.answer(() => Response.json({ error: "no", problems: [TIGHT, { ...TIGHT, kind: "error" }] }, { status: 400 }));
  assert.equal(await run(), false);
  browser.answer(() =>
    Response.json({ ...STARTED, left_out: [{ varied: { seed: 2 }, problems: [TIGHT] }], num_left_out: 990 }),
  );
  assert.equal(await run(), true);
  assert.match(
    pageStore.getState().toasts.at(-1)!.text,
    /990 of 991 runs were left out, the first because: it lacks 3 GiB/,
  );
});

test("a part that runs takes back no error of the rest", async () => {
  const wrong = { ...TIGHT, kind: "error" as const };
  setProblems([wrong]);
  browser.answer(() => Response.json(STARTED));
  await run({ targets: ["second"] });
  assert.deepEqual(editorStore.getState().problems, [wrong]);
  await run();
  assert.deepEqual(editorStore.getState().problems, []);
});

test("a mend is one step that undo takes back, by the param where one sets the input", () => {
  const { graph } = editorStore.getState();
  const size = { "first.width": 96, "first.height": 80 };
  assert.deepEqual(mendsFor(graph, [size, { "first.model": "x" }, { "gone.width": 1 }]), [size]);
  assert.equal(mendText(graph, editorStore.getState().catalog, size, "first"), "Use 96 × 80");
  applyMend(size);
  assert.deepEqual(
    ["width", "height"].map((name) => editorStore.getState().graph.nodes.first!.inputs[name]),
    [96, 80],
  );
  undo();
  assert.equal(editorStore.getState().graph, graph);
});

test("a workflow that another tab saved is not overwritten without a question", async () => {
  change();
  browser.answer(() => Response.json({ error: "saved elsewhere" }, { status: 409 }));
  const saved = save();
  const { reason, answer } = await asked("conflict");
  assert.equal(reason, "saved elsewhere");
  assert.equal(editorStore.getState().isDirty, true);
  browser.answer((request) => Response.json(request.method === "GET" ? { ...SAVED, version: 9, graph: {} } : SAVED));
  answer(await overwrite());
  assert.equal(await saved, true);
  assert.equal(
    (await browser.requests.find(({ method, url }) => method === "PUT" && url.endsWith("w1"))!.json()).base_version,
    3,
  );
  assert.equal((await browser.requests.at(-1)!.json()).base_version, 9);
});

test("closing unsaved work asks, saves if asked to, and what is not saved is not closed", async () => {
  browser.answer(() => new Response(null, { status: 204 }));
  const saved = openOne();
  await close();
  assert.deepEqual([tabOf(saved), pageStore.getState().dialog], [undefined, null]);
  for (const isSaved of [false, true]) {
    const key = openOne();
    change();
    editorStore.setState({ workflow: null });
    const closed = close();
    await Promise.resolve();
    const leave = pageStore.getState().dialog!.payload as (isFree: boolean) => void;
    void save().then(leave);
    const { answer } = await asked("saveAs");
    pageStore.setState({ dialog: null });
    answer(isSaved);
    await closed;
    assert.equal(tabOf(key) === undefined, isSaved);
    assert.equal(pageStore.getState().dialog, null);
  }
});

test("save as gives the workflow its new name", async () => {
  browser.answer(() => Response.json({ ...SAVED, id: "w2", name: "mine", version: 1 }, { status: 201 }));
  await saveAs("mine", "cats");
  const asked = await browser.requests[0]!.json();
  assert.deepEqual([asked.name, asked.folder, asked.graph.name], ["mine", "cats", "mine"]);
  const { workflow, isDirty, graph } = editorStore.getState();
  assert.deepEqual([workflow?.id, isDirty, graph.name], ["w2", false, "mine"]);
});

test("a run takes the plan for the next run, once, and is shown on the canvas", async () => {
  setNextPlan({ plan: "ulysses=2", devices: "cpu*2" });
  browser.answer(() => Response.json(STARTED, { status: 201 }));
  assert.equal(await run({ targets: ["first"] }), true);
  const asked = await browser.requests[0]!.json();
  assert.deepEqual(
    [asked.plan, asked.devices, asked.targets, asked.workflow_id],
    ["ulysses=2", "cpu*2", ["first"], "w1"],
  );
  assert.equal(panelStore.getState().nextPlan, null);
  assert.equal(liveStore.getState().watched, "r1");
});

test("a run that is taken ends what was said of the one before", async () => {
  browser.answer(() => Response.json({ error: "cannot run" }, { status: 400 }));
  await run();
  assert.equal(pageStore.getState().toasts[0]?.text, "cannot run");
  browser.answer(() => Response.json(STARTED, { status: 201 }));
  await run();
  assert.deepEqual(pageStore.getState().toasts, []);
});

test("what is said of a run before its queueing is answered stays", async () => {
  browser.answer(() => {
    toast({ kind: "error", text: "it failed", run: "r1", about: "runs of w1" });
    return Response.json(STARTED, { status: 201 });
  });
  await run();
  assert.deepEqual(
    pageStore.getState().toasts.map(({ text }) => text),
    ["it failed"],
  );
});

test("a refused run lists its problems", async () => {
  const problems = [{ node: "first", socket: "steps", code: "range", message: "too many" }];
  browser.answer(() => Response.json({ error: "cannot run", problems }, { status: 400 }));
  assert.equal(await run(), false);
  assert.deepEqual(editorStore.getState().problems, problems);
  assert.equal(panelStore.getState().tab, "problems");
  assert.equal(pageStore.getState().toasts[0]?.text.includes("not run"), true);
});

test("a picture or sound without a workflow is offered as a node; any other refused file says why", async () => {
  browser.answer(() => Response.json({ error: "carries no workflow" }, { status: 400 }));
  await openFile(new File(["x"], "cat.png", { type: "image/png" }));
  assert.equal(pageStore.getState().dialog?.name, "plain_file");
  await openFile(new File(["x"], "bell.wav", { type: "audio/wav" }));
  assert.equal((pageStore.getState().dialog?.payload as PlainFile).kind, "audio");
  await openFile(new File(["x"], "cat.json", { type: "application/json" }));
  assert.equal(pageStore.getState().toasts[0]?.text, "carries no workflow");
});

test("a deleted workflow can be taken back: the server has not heard of it", () => {
  browser.answer(() => new Response(null, { status: 204 }));
  deleteLater("w1");
  undoDelete("w1");
  mock.timers.tick(60_000);
  assert.equal(browser.requests.length, 0);
  deleteLater("w2");
  mock.timers.tick(60_000);
  assert.equal(browser.requests[0]?.method, "DELETE");
});

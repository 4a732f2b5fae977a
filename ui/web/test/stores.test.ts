import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";
import { setTitle } from "../src/graph/edits";
import { emptyGraph, toFile } from "../src/graph/file/workflowFile";
import { host } from "../src/host";
import { setHost } from "../src/http";
import { t } from "../src/i18n";
import { closeTab, goToTab, keep, keepDrafts, openDrafts } from "../src/store/drafts";
import { edit, editorStore, load, markSaved, redo, select, undo, undoLabel } from "../src/store/editor";
import { liveStore, receive } from "../src/store/live";
import {
  enterTab,
  moveTab,
  openTab,
  resumeTab,
  tabOf,
  tabStore,
  keepView,
  viewOf,
  watchRunIn,
  markSavedIn,
  setTabs,
} from "../src/store/tabs";
import { confirm, openGraph, pageStore, setLanguage, setMe, toast } from "../src/store/page";
import type { Draft } from "../src/types";
import { newBrowser, type Browser } from "./browser";
import { toyGraph } from "./graphs";
import { liveMessage, ME } from "./live";

let browser: Browser;
let atServer: Record<string, Draft>;

let closePage = (): void => undefined;

/** What `start` does for drafts; a page that was open before is closed. */
async function openPage(user: string): Promise<void> {
  closePage();
  const remembered = sessionStorage.getItem("loom.tabs");
  setTabs([], "");
  load(emptyGraph("untitled"), null);
  if (remembered)
    sessionStorage.setItem("loom.tabs", remembered); // as closing a page leaves it
  else sessionStorage.removeItem("loom.tabs");
  const me = { ...ME, user };
  setMe(me);
  await openDrafts({ me, drafts: await host.drafts(), newest: null });
  closePage = keepDrafts();
}

beforeEach(() => {
  closePage();
  setTabs([], "");
  browser = newBrowser();
  setHost("loom", "v1", () => undefined);
  setMe(ME);
  atServer = {};
  browser.answer(serve);
  load(emptyGraph("untitled"), null);
});

async function serve(request: Request): Promise<Response> {
  const key = request.url.split("/drafts/")[1];
  if (request.method === "PUT" && key) {
    atServer[key] = (await request.json()) as Draft;
    return new Response(null, { status: 204 });
  }
  if (request.method === "DELETE" && key) {
    delete atServer[key];
    return new Response(null, { status: 204 });
  }
  if (key && !atServer[key]) return Response.json({ error: "there is no such draft" }, { status: 404 });
  if (key) return Response.json(atServer[key]);
  const entries = Object.entries(atServer).map(([name, { graph, workflow_id }], updated) => {
    return { key: name, name: graph.name, workflow_id, updated };
  });
  return Response.json(entries.reverse()); // newest first
}

test("edits, undo and redo go through the store; saving makes it clean, also after undo and redo", () => {
  load(toyGraph(), null, { isSaved: true });
  const state = () => editorStore.getState();
  edit("title", (graph) => setTitle(graph, "load", "A"));
  markSaved({ id: "w", version: 2, name: "toy" });
  assert.deepEqual([state().isDirty, state().canUndo, undoLabel()], [false, true, "title"]);
  undo();
  assert.deepEqual([state().isDirty, state().canRedo], [true, true]);
  redo();
  assert.equal(state().isDirty, false);
});

test("an edit that changes nothing is none, and an equal selection is the same object", () => {
  load(toyGraph(), null);
  edit("nothing", (graph) => setTitle(graph, "load", ""));
  assert.equal(editorStore.getState().canUndo, false);
  select(["n:load"]);
  const { selection } = editorStore.getState();
  select(["n:load"]);
  assert.equal(editorStore.getState().selection, selection);
});

test("what is removed is not selected any more", () => {
  load(toyGraph(), null);
  select(["n:load", "n:first"]);
  edit("remove", (graph) => ({ ...graph, nodes: { first: graph.nodes.first! } }));
  assert.deepEqual([...editorStore.getState().selection], ["n:first"]);
});

test("a draft goes to the server and comes back in a new page", async () => {
  await openPage("ann");
  edit("open", () => toyGraph());
  await keep();
  const { draftKey } = editorStore.getState();
  assert.deepEqual(atServer[draftKey], { graph: toFile(toyGraph()), workflow_id: null, base_version: null });
  await openPage("ann");
  assert.deepEqual(editorStore.getState().graph, toyGraph());
  assert.deepEqual([editorStore.getState().draftKey, editorStore.getState().isDirty], [draftKey, true]);
});

test("another workflow opens in a tab of its own, with its own undo, selection, view and run", async () => {
  await openPage("ann");
  openGraph(toyGraph(), "toy", null);
  const names = () => tabStore.getState().tabs.map(({ name }) => name);
  assert.deepEqual(names(), ["toy"]); // the blank one gave its place
  edit("title", (graph) => setTitle(graph, "load", "A"));
  select(["n:load"]);
  keepView({ x: 1, y: 2, zoom: 0.5 });
  liveStore.setState({ watched: "run of toy" });
  const { draftKey: toy, graph: edited } = editorStore.getState();
  openGraph({ ...toyGraph(), name: "other" }, "other", { id: "w", version: 1, name: "other" });
  const other = editorStore.getState().draftKey;
  assert.deepEqual(names(), ["toy", "other"]);
  assert.deepEqual(
    [editorStore.getState().canUndo, liveStore.getState().watched, viewOf(other)],
    [false, null, undefined],
  );
  watchRunIn(toy, "newer run of toy");
  moveTab(other, 0);
  assert.deepEqual(names(), ["other", "toy"]);
  await goToTab(toy);
  const state = editorStore.getState();
  assert.equal(state.graph, edited);
  assert.deepEqual([[...state.selection], state.isDirty, undoLabel()], [["n:load"], true, "title"]);
  assert.deepEqual([viewOf(toy), liveStore.getState().watched], [{ x: 1, y: 2, zoom: 0.5 }, "newer run of toy"]);
  undo();
  assert.equal(editorStore.getState().graph.nodes.load!.title, "");
});

test("each tab has a draft; all come back in a new page, those out of sight when they are asked for", async () => {
  await openPage("ann");
  openGraph(toyGraph(), "toy", null);
  const toy = editorStore.getState().draftKey;
  openGraph({ ...toyGraph(), name: "other" }, "other", null);
  await keep();
  assert.deepEqual(
    Object.values(atServer).map(({ graph }) => graph.name),
    ["toy", "other"],
  );
  assert.deepEqual(
    Object.keys(localStorage).filter((key) => key.startsWith("loom.draft.")),
    [],
  );
  const numRequests = browser.requests.length;
  await openPage("ann");
  assert.deepEqual([editorStore.getState().graph.name, tabOf(toy)?.name], ["other", "toy"]);
  assert.ok(!browser.requests.slice(numRequests).some(({ url }) => url.endsWith(toy)));
  await goToTab(toy);
  assert.deepEqual(editorStore.getState().graph, toyGraph());
});

test("a closed tab leaves a draft only of what is not saved; the last one gives way to a blank one", async () => {
  await openPage("ann");
  openGraph(toyGraph(), "clean", { id: "w", version: 1, name: "clean" });
  const clean = editorStore.getState().draftKey;
  await keep();
  openTab({ ...toyGraph(), name: "dirty" }, null);
  const dirty = editorStore.getState().draftKey;
  await closeTab(clean);
  assert.equal(editorStore.getState().draftKey, dirty);
  await closeTab(dirty);
  assert.deepEqual(Object.keys(atServer), [dirty]);
  assert.deepEqual(editorStore.getState().graph.nodes, {});
  assert.equal(tabStore.getState().tabs.length, 1);
});

test("a workflow that was saved while another tab is shown is clean when it is shown again", async () => {
  await openPage("ann");
  openTab(toyGraph(), null);
  const { draftKey: key, graph: sent } = editorStore.getState();
  openTab({ ...toyGraph(), name: "other" }, null);
  markSavedIn(key, { id: "w", version: 3, name: "toy" }, sent);
  assert.deepEqual([tabOf(key)?.isDirty, editorStore.getState().workflow], [false, null]);
  resumeTab(key);
  assert.deepEqual([editorStore.getState().isDirty, editorStore.getState().workflow?.version], [false, 3]);
});

test("a tab whose draft cannot be read is told and taken away, but kept while the server does not answer", async () => {
  await openPage("ann");
  setTabs(
    [...tabStore.getState().tabs, { key: "gone", name: "gone", isDirty: true, workflow: null, watched: null }],
    "x",
  );
  enterTab("x", toyGraph(), null);
  browser.answer(() => Promise.reject(new TypeError("offline")));
  await goToTab("gone");
  assert.ok(tabOf("gone"));
  browser.answer(serve);
  await goToTab("gone");
  assert.equal(tabOf("gone"), undefined);
  assert.equal(editorStore.getState().draftKey, "x");
});

test("while the server is away the draft is kept in the browser, for its user alone", async () => {
  await openPage("ann");
  browser.answer(() => Promise.reject(new TypeError("offline")));
  edit("open", () => toyGraph());
  await keep();
  assert.deepEqual(atServer, {});
  browser.answer(serve);
  await openPage("eve");
  assert.deepEqual(editorStore.getState().graph.nodes, {});
  await openPage("ann");
  assert.deepEqual(editorStore.getState().graph, toyGraph());
  await keep();
  assert.deepEqual(
    Object.values(atServer).map(({ graph }) => graph.name),
    ["toy"],
  );
});

test("a draft that did not get through is sent again, though nothing else tells that the server is back", async () => {
  await openPage("ann");
  mock.timers.enable({ apis: ["setTimeout"] });
  try {
    browser.answer(() => Promise.reject(new TypeError("offline")));
    edit("open", () => toyGraph());
    await keep();
    browser.answer(serve);
    mock.timers.tick(3000);
  } finally {
    mock.timers.reset();
  }
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.deepEqual(
    Object.values(atServer).map(({ graph }) => graph.name),
    ["toy"],
  );
});

test("a draft that the server refuses is told once", async () => {
  await openPage("ann");
  browser.answer(() => Response.json({ error: "it is too large." }, { status: 413 }));
  edit("open", () => toyGraph());
  await keep();
  await keep();
  const told = pageStore.getState().toasts.filter(({ text }) => text.includes("it is too large. Save the workflow"));
  assert.equal(told.length, 1);
});

test("a draft that is no workflow is told, stays where it is, and the page goes on", async () => {
  atServer.dbroken = { graph: { nodes: 5 } as never, workflow_id: null, base_version: null };
  await openPage("ann");
  assert.deepEqual(editorStore.getState().graph.nodes, {});
  assert.ok(
    pageStore.getState().toasts.some(({ text }) => text.startsWith("The draft could not be opened: This is no")),
  );
  assert.notEqual(editorStore.getState().draftKey, "dbroken");
});

test("opening a graph loads it under its name, watches no run and goes to build", () => {
  pageStore.setState({ view: "gallery" });
  openGraph(toFile(toyGraph()), "my name", { id: "w", version: 1, name: "my name" });
  const { graph, workflow, isDirty } = editorStore.getState();
  assert.deepEqual([graph.name, workflow?.id, isDirty, pageStore.getState().view], ["my name", "w", false, "build"]);
});

test("a page that watches no run shows the one that runs, but only when it has just been opened", () => {
  const message = liveMessage({ a: { state: "running" } }, { full: true, server: "s", queue: [] });
  receive(message);
  assert.equal(liveStore.getState().watched, "a");
  openGraph(toyGraph(), "toy", null);
  receive({ ...message, seq: 2 });
  assert.equal(liveStore.getState().watched, null);
});

test("a restarted server is shown, and a run that it lost is not watched any more", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  liveStore.setState({ watched: "a", connection: "on", server: "s" });
  receive(liveMessage({}, { full: true, server: "other" }));
  assert.deepEqual([liveStore.getState().connection, liveStore.getState().watched], ["restarted", null]);
  mock.timers.tick(10_000);
  assert.equal(liveStore.getState().connection, "on");
  mock.timers.reset();
});

test("a question is answered once, and a second one answers the first with no", async () => {
  const first = confirm("Delete?");
  const second = confirm("Really?");
  assert.equal(await first, false);
  pageStore.getState().question?.answer(true);
  assert.equal(await second, true);
  assert.equal(pageStore.getState().question, null);
});

test("a chosen language is read from the server and remembered; one that cannot be had changes nothing", async () => {
  browser.answer((request) => Response.json({ texts: { "frame.yes": "Ja", at: request.url }, sentences: {} }));
  await setLanguage("de");
  assert.deepEqual(
    [t("frame.yes"), pageStore.getState().language, localStorage.getItem("loom.language")],
    ["Ja", "de", "de"],
  );
  assert.equal(browser.requests.at(-1)!.url, "http://host/prefix/loom/static/loom.de.json?v=v1");
  await setLanguage("en");
  browser.answer(() => Response.json({ error: "no such file" }, { status: 404 }));
  await setLanguage("de");
  assert.deepEqual([t("frame.yes"), pageStore.getState().language], ["Yes", "en"]);
});

test("the same toast is shown once, and at most three are", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  assert.equal(toast({ kind: "info", text: "x" }), toast({ kind: "info", text: "x" }));
  for (let i = 0; i < 20; i++) toast({ kind: "info", text: `t${i}` });
  assert.equal(pageStore.getState().toasts.length, 3);
  mock.timers.tick(20_000);
  assert.equal(pageStore.getState().toasts.length, 0);
  mock.timers.reset();
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiError, host, urls } from "../src/host";
import { setHost, type Trouble } from "../src/http";
import type { GraphFile } from "../src/types";
import { newBrowser, type Browser } from "./browser";

const GRAPH: GraphFile = { format: 1, name: "g", nodes: {} };

function begin(): { browser: Browser; troubles: Trouble[] } {
  const browser = newBrowser();
  const troubles: Trouble[] = [];
  setHost("loom", "v1", (trouble) => troubles.push(trouble));
  return { browser, troubles };
}

test("requests go to /loom beside the page, ids escaped, JSON marked as such", async () => {
  const { browser } = begin();
  await host.saveWorkflow("a/../b?c", GRAPH, 3);
  const [request] = browser.requests;
  assert.equal(`${request!.method} ${request!.url}`, "PUT http://host/prefix/loom/workflows/a%2F..%2Fb%3Fc");
  assert.equal(request!.headers.get("content-type"), "application/json");
  assert.deepEqual(await request!.json(), { graph: GRAPH, base_version: 3 });
});

test("queries leave out what is not given", async () => {
  const { browser } = begin();
  await host.results({ search: "a star & more", limit: 5, before: undefined, batch: "" });
  assert.equal(browser.requests[0]!.url, "http://host/prefix/loom/results?search=a+star+%26+more&limit=5");
});

test("a long list is read page by page, and anew when a row of it is gone meanwhile", async () => {
  const { browser } = begin();
  const rows = Array.from({ length: 1500 }, (_, number) => ({ id: `w${number}` }));
  let isGone = true;
  browser.answer((request: Request) => {
    const before = new URL(request.url).searchParams.get("before");
    if (before && isGone) {
      isGone = false;
      return Response.json({ error: "gone" }, { status: 404 });
    }
    const start = before ? rows.findIndex(({ id }) => id === before) + 1 : 0;
    return Response.json(rows.slice(start, start + 1000));
  });
  assert.equal((await host.workflows()).length, 1500);
  assert.equal(browser.requests.length, 4);
});

test("a name of any script goes in a header", async () => {
  const { browser } = begin();
  await host.open(new Blob(["{}"]), "Größe 星.json");
  assert.equal(decodeURIComponent(browser.requests[0]!.headers.get("x-name")!), "Größe 星.json");
});

test("a refusal brings the server's sentence and problems", async () => {
  const { browser } = begin();
  const problems = [{ node: "a", socket: "b", code: "c", message: "m" }];
  browser.answer(() => Response.json({ error: "no such workflow", problems }, { status: 404 }));
  await assert.rejects(host.workflow("x"), (error: ApiError) => {
    assert.deepEqual([error.message, error.status, error.problems], ["no such workflow", 404, problems]);
    return true;
  });
});

test("an answer that is not ours is told with its number", async () => {
  const { browser } = begin();
  browser.answer(() => new Response("<html>Bad Gateway</html>", { status: 502 }));
  await assert.rejects(host.me(), /error 502/);
});

test("no login and no connection are told to the page, and that it is back", async () => {
  const { browser, troubles } = begin();
  browser.answer(() => Response.json({ error: "log in" }, { status: 401 }));
  await assert.rejects(host.me(), /log in/);
  browser.answer(() => Promise.reject(new TypeError("failed")));
  await assert.rejects(
    host.me(),
    (error: ApiError) => error.status === 0 && /does not answer; check/.test(error.message),
  );
  browser.answer(() => new Response(null, { status: 204 }));
  assert.equal(await host.deleteRun("r"), undefined);
  assert.deepEqual(troubles, ["online", "login", "offline", "online"]);
});

test("what only reads is asked once more where a connection breaks, and what changes something is not", async () => {
  const { browser, troubles } = begin();
  const breakOnce = (): void => {
    browser.answer(() => {
      browser.answer(() => Response.json({ user: "ann" }));
      throw new TypeError("Failed to fetch");
    });
  };
  breakOnce();
  assert.deepEqual(await host.me(), { user: "ann" });
  assert.deepEqual(troubles, ["online"]);
  breakOnce();
  await assert.rejects(host.deleteRun("r"), (error: ApiError) => error.status === 0);
  assert.equal(browser.requests.length, 3);
});

test("addresses of pictures are escaped part by part", () => {
  begin();
  assert.equal(urls.preview("r 1", "n", 7), "http://host/prefix/loom/runs/r%201/previews/n?s=7");
  assert.equal(urls.uploadThumb("me/a b.png"), "http://host/prefix/loom/uploads/me/a%20b.png/thumb");
  assert.equal(urls.download("x"), "http://host/prefix/loom/files/x?download=1");
});

test("a question that nobody asks any more is no trouble", async () => {
  const { browser, troubles } = begin();
  const under = new AbortController();
  browser.answer(() => {
    under.abort();
    throw under.signal.reason;
  });
  await assert.rejects(host.check(GRAPH, under.signal), { name: "AbortError" });
  assert.deepEqual(troubles, []);
  assert.match((await browser.requests[0]!.json()).page, /^[0-9a-f]{16}$/);
});

import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { setHost } from "../src/http";
import { LiveSocket } from "../src/liveSocket";
import { newBrowser } from "./browser";

class FakeSocket {
  static readonly CLOSED = 3;
  static made: FakeSocket[] = [];
  readyState = 0;
  sent: string[] = [];
  onopen = (): void => undefined;
  onclose = (): void => undefined;
  onmessage = (_: { data: string }): void => undefined;

  constructor(readonly url: string) {
    FakeSocket.made.push(this);
  }

  open(): void {
    this.readyState = 1;
    this.onopen();
  }

  send(text: string): void {
    this.sent.push(text);
  }

  close(): void {
    this.readyState = FakeSocket.CLOSED;
    this.onclose();
  }
}

function begin() {
  const browser = newBrowser();
  setHost("loom", "v1", () => undefined);
  Object.defineProperty(globalThis, "WebSocket", { value: FakeSocket, configurable: true });
  FakeSocket.made = [];
  mock.timers.reset();
  mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  const heard: unknown[] = [];
  const socket = new LiveSocket({
    onMessage: (message) => heard.push(message.seq),
    onConnection: (isOn) => heard.push(isOn),
  });
  return { browser, socket, heard, last: () => FakeSocket.made.at(-1)!, count: () => FakeSocket.made.length };
}

test("it connects beside the page and hands on what it hears", () => {
  const { heard, last } = begin();
  assert.equal(last().url, "ws://host/prefix/loom/live");
  last().open();
  for (const seq of [5, 6]) last().onmessage({ data: `{"seq":${seq}}` });
  assert.deepEqual(heard, [true, 5, 6]);
});

test("it connects again after half a second, then after longer and longer, at most eight seconds", () => {
  const { last, count, heard } = begin();
  const waits = [500, 1000, 2000, 4000, 8000, 8000];
  for (const [index, wait] of waits.entries()) {
    last().close();
    mock.timers.tick(wait - 1);
    assert.equal(count(), index + 1);
    mock.timers.tick(1);
    assert.equal(count(), index + 2);
  }
  assert.deepEqual(heard, Array(6).fill(false));
  last().open();
  last().onmessage({ data: '{"seq":1}' });
  last().close();
  mock.timers.tick(500);
  assert.equal(count(), waits.length + 2);
  assert.deepEqual(heard.slice(6), [true, 1, false]);
});

test("when the network or the person is back it does not wait, and never connects twice", () => {
  const { browser, last, count } = begin();
  browser.window.dispatchEvent(new Event("online"));
  assert.equal(count(), 1);
  last().close();
  browser.window.dispatchEvent(new Event("online"));
  assert.equal(count(), 2);
  mock.timers.tick(60_000);
  assert.equal(count(), 2);
});

test("it pings while it is open, and a closed one stays closed", () => {
  const { socket, last, count } = begin();
  last().open();
  mock.timers.tick(40_000);
  assert.deepEqual(last().sent, ["ping", "ping"]);
  socket.close();
  mock.timers.tick(60_000);
  assert.deepEqual([count(), last().sent.length], [1, 2]);
});

/** The WebSocket that tells what changed; it connects again by itself, and the server then sends everything. */

import { parseExact } from "./exact";
import { address } from "./http";
import type { LiveMessage } from "./types";
import { heard } from "./worded";

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8000;
/** A server that sends nothing is asked for a sign of life this often, so that a dead connection is noticed. */
const PING_MS = 20_000;

interface Listener {
  onMessage: (message: LiveMessage) => void;
  /** On with the first message; off with each try that brought none. */
  onConnection: (isOn: boolean) => void;
}

export class LiveSocket {
  private socket: WebSocket | null = null;
  private waitMs = FIRST_WAIT_MS;
  private isOn = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private pings: ReturnType<typeof setInterval> | undefined;
  private isClosed = false;

  constructor(private readonly listener: Listener) {
    this.connect();
    window.addEventListener("online", this.hurry);
    document.addEventListener("visibilitychange", this.hurry);
  }

  close(): void {
    this.isClosed = true;
    clearTimeout(this.timer);
    clearInterval(this.pings);
    window.removeEventListener("online", this.hurry);
    document.removeEventListener("visibilitychange", this.hurry);
    this.socket?.close();
  }

  private connect(): void {
    const socket = new WebSocket(address("/live").replace(/^http/, "ws"));
    this.socket = socket;
    socket.onopen = () => {
      this.pings = setInterval(() => socket.send("ping"), PING_MS);
    };
    socket.onmessage = (event) => {
      if (!this.isOn) this.listener.onConnection(true);
      this.isOn = true;
      this.waitMs = FIRST_WAIT_MS;
      this.listener.onMessage(heard(parseExact(String(event.data))) as LiveMessage);
    };
    socket.onclose = () => this.connectLater();
  }

  private connectLater(): void {
    clearInterval(this.pings);
    if (this.isClosed) return;
    this.isOn = false;
    this.listener.onConnection(false);
    this.timer = setTimeout(() => this.connect(), this.waitMs);
    this.waitMs = Math.min(this.waitMs * 2, LONGEST_WAIT_MS);
  }

  /** The network or the person is back: do not wait any longer. */
  private readonly hurry = (): void => {
    if (document.visibilityState === "hidden" || this.socket?.readyState !== WebSocket.CLOSED || this.isClosed) return;
    clearTimeout(this.timer);
    this.waitMs = FIRST_WAIT_MS;
    this.connect();
  };
}

/** Of questions in a row only the newest is heard: the one before is ended, and its answer, should it come, dropped. */

import { sentence } from "../host";

/** What became of a question: its answer, or why there is none. */
export type Told<T> = { value: T } | { error: string };

export class Newest<T> {
  private under: AbortController | null = null;

  /** Ends the question before. `hear` is not called once there is a newer one. */
  ask(question: (signal: AbortSignal) => Promise<T>, hear: (told: Told<T>) => void): void {
    this.end();
    const own = new AbortController();
    this.under = own;
    const tell = (told: Told<T>) => this.under === own && hear(told);
    question(own.signal).then(
      (value) => tell({ value }),
      (error: unknown) => tell({ error: sentence(error) }),
    );
  }

  end(): void {
    this.under?.abort();
    this.under = null;
  }
}

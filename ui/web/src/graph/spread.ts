/** Things in a row, each as near as possible to where it wants to be without overlapping the one before. */

interface Block {
  /** Mean of the wishes of what is in it. */
  place: number;
  count: number;
}

/** The places of items of given sizes, in order, that minimise the squared distance to their wishes. */
export function spread(wishes: readonly number[], sizes: readonly number[], gap: number): number[] {
  // Without the sizes before each, "no overlap" means "never less than the one before": isotonic regression,
  // by pooling neighbours that are in the wrong order (pool adjacent violators).
  let before = 0;
  const offsets = sizes.map((size) => {
    const offset = before;
    before += size + gap;
    return offset;
  });
  const blocks: Block[] = [];
  wishes.forEach((wish, index) => {
    let block: Block = { place: wish - (offsets[index] ?? 0), count: 1 };
    for (let last = blocks.at(-1); last && last.place > block.place; last = blocks.at(-1)) {
      const count = last.count + block.count;
      block = { place: (last.place * last.count + block.place * block.count) / count, count };
      blocks.pop();
    }
    blocks.push(block);
  });
  const places = blocks.flatMap(({ place, count }) => Array<number>(count).fill(place));
  return places.map((place, index) => place + (offsets[index] ?? 0));
}

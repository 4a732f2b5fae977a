/** How a value type looks on sockets and wires: a tone (colour) and a shape, so that colour alone never tells. */

export type Shape = "circle" | "square" | "diamond" | "triangle" | "hexagon" | "pentagon" | "bar" | "cross";

export interface Look {
  /** Number of the `ll-tone-n` class. */
  tone: number;
  shape: Shape;
}

const KNOWN: Record<string, Look> = {
  Model: { tone: 0, shape: "square" },
  Conditioning: { tone: 1, shape: "diamond" },
  Latents: { tone: 2, shape: "hexagon" },
  Image: { tone: 3, shape: "circle" },
  References: { tone: 3, shape: "diamond" },
  Mask: { tone: 11, shape: "circle" },
  Video: { tone: 4, shape: "triangle" },
  Audio: { tone: 11, shape: "diamond" },
  Sampling: { tone: 5, shape: "pentagon" },
  Saved: { tone: 6, shape: "cross" },
  string: { tone: 7, shape: "bar" },
  choice: { tone: 7, shape: "bar" },
  int: { tone: 8, shape: "circle" },
  float: { tone: 9, shape: "circle" },
  bool: { tone: 10, shape: "square" },
};

const SHAPES: readonly Shape[] = ["circle", "square", "diamond", "triangle", "hexagon", "pentagon", "cross"];
const NUM_TONES = 12;
const SCALARS: ReadonlySet<string> = new Set(["string", "choice", "int", "float", "bool"]);
const LIST = /^list\[(string|int|float|bool)\]$/;

/** The look of a type; one that is not known here gets its own by its name, the same on every machine. */
export function lookOf(type: string): Look {
  const known = KNOWN[type];
  if (known) return known;
  let hash = 7;
  for (const letter of type) hash = (hash * 31 + (letter.codePointAt(0) ?? 0)) >>> 0;
  return { tone: hash % NUM_TONES, shape: SHAPES[(hash >>> 8) % SHAPES.length] ?? "circle" };
}

/** Whether the type is edited in a field, as lists of plain values are; others come over a wire only. */
export function isScalar(type: string): boolean {
  return SCALARS.has(type) || LIST.test(type);
}

/** Colours that nodes, groups and notes can have; "" is the theme's own. */
export const COLORS = ["", "red", "orange", "yellow", "green", "teal", "blue", "purple", "pink", "grey"] as const;

/** A colour of the file as a class; a name that is not ours draws nothing. */
export function colorClass(color: string | undefined): string {
  return color && (COLORS as readonly string[]).includes(color) ? `ll-color-${color}` : "";
}

/** How value types and kinds of nodes look: a tone (colour) with a shape or an icon, so that colour alone never tells. */

import type { IconName } from "../parts/icons";
import type { NodeSpec } from "../types";

export type Shape =
  | "circle"
  | "square"
  | "diamond"
  | "triangle"
  | "hexagon"
  | "pentagon"
  | "bar"
  | "cross"
  | "half"
  | "drop";

export interface Look {
  /** Number of the `ll-tone-n` class. */
  tone: number;
  shape: Shape;
  /** With a hole in its middle. */
  isRing?: boolean;
}

const KNOWN: Record<string, Look> = {
  Model: { tone: 0, shape: "square" },
  Conditioning: { tone: 1, shape: "diamond" },
  Latents: { tone: 2, shape: "hexagon" },
  Image: { tone: 3, shape: "circle" },
  References: { tone: 3, shape: "diamond", isRing: true },
  Mask: { tone: 11, shape: "circle", isRing: true },
  Video: { tone: 4, shape: "triangle" },
  Audio: { tone: 11, shape: "half" },
  Sampling: { tone: 5, shape: "pentagon" },
  Saved: { tone: 6, shape: "cross" },
  string: { tone: 7, shape: "bar" },
  choice: { tone: 7, shape: "bar" },
  int: { tone: 8, shape: "square", isRing: true },
  float: { tone: 9, shape: "drop" },
  bool: { tone: 10, shape: "hexagon", isRing: true },
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
  return { tone: hash % NUM_TONES, shape: SHAPES[(hash >>> 8) % SHAPES.length] ?? "circle", isRing: hash % 2 === 0 };
}

export interface Kind {
  tone: number;
  icon: IconName;
}

const OUTPUT: Kind = { tone: 5, icon: "save" };
const OTHER: Kind = { tone: 6, icon: "puzzle" };
const KINDS: Record<string, Kind> = {
  model: { tone: 0, icon: "model" },
  encode: { tone: 1, icon: "encode" },
  text: { tone: 7, icon: "text" },
  latents: { tone: 2, icon: "noise" },
  denoise: { tone: 2, icon: "spark" },
  picture: { tone: 3, icon: "image" },
  video: { tone: 4, icon: "video" },
  mask: { tone: 11, icon: "mask" },
  sound: { tone: 9, icon: "audio" },
};
/** A node is about what it gives, or, where it gives something of no kind, what it takes. */
const KIND_OF_TYPE: Record<string, string> = { Video: "video", Audio: "sound", Image: "picture" };
const ABOUT_TYPES: ReadonlySet<string> = new Set(["decode", "picture"]);

/** The kind of a node; one from outside with a category of its own is told apart as such. */
export function kindOf(spec: NodeSpec | undefined): Kind {
  if (!spec) return OTHER;
  if (spec.outputs.some((output) => output.type === "Saved")) return OUTPUT;
  const category = spec.category.toLowerCase();
  const types = [...spec.inputs, ...spec.outputs].map((socket) => KIND_OF_TYPE[socket.type] ?? "");
  const about = ABOUT_TYPES.has(category)
    ? (["video", "sound"].find((kind) => types.includes(kind)) ?? "picture")
    : category;
  return KINDS[about] ?? OTHER;
}

/** Whether the node shows a picture while it works, or what it has made: it then has room for it from the start. */
export function hasPicture(spec: NodeSpec | undefined): boolean {
  if (!spec) return false;
  const isPainter = spec.uses_device && spec.inputs.some((input) => input.widget === "seed");
  return isPainter || spec.outputs.some((output) => output.type === "Saved");
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

/** The icons of the page: strokes on a 24 x 24 grid, drawn in the colour of the text around them. */

/** A rounded frame. */
const box = (x: number, y: number, w: number, h: number): string =>
  `M${x + 1} ${y}h${w - 2}a1 1 0 0 1 1 1v${h - 2}a1 1 0 0 1-1 1h${2 - w}a1 1 0 0 1-1-1v${2 - h}a1 1 0 0 1 1-1z`;
const ring = (x: number, y: number, r: number): string =>
  `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0 ${r} ${r} 0 1 0-${2 * r} 0`;
const dot = (x: number, y: number): string => ring(x, y, 0.5);

const PATHS = {
  play: "M7 4.5v15l12-7.5z",
  stop: "M6.5 6.5h11v11h-11z",
  close: "M6 6l12 12M18 6L6 18",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  check: "M5 12.5l4.5 4.5L19 7.5",
  "chevron-down": "M6 9l6 6 6-6",
  "chevron-up": "M6 15l6-6 6 6",
  "chevron-left": "M15 6l-6 6 6 6",
  "chevron-right": "M9 6l6 6-6 6",
  "arrow-up": "M12 19V5M6 11l6-6 6 6",
  "arrow-down": "M12 5v14M6 13l6 6 6-6",
  swap: "M4 9h15M15 5l4 4-4 4M20 16H5M9 12l-4 4 4 4",
  ratio: box(3, 5, 18, 14) + "M7 12V9h3M17 12v3h-3",
  search: ring(11, 11, 7) + "M20 20l-4-4",
  dice: box(4, 4, 16, 16) + dot(8.5, 8.5) + dot(12, 12) + dot(15.5, 15.5),
  undo: "M8 5L4 9l4 4M4 9h10a5.5 5.5 0 0 1 0 11h-3",
  redo: "M16 5l4 4-4 4M20 9H10a5.5 5.5 0 0 0 0 11h3",
  refresh: "M20 11a8 8 0 0 0-14.3-4L4 9M4 4v5h5M4 13a8 8 0 0 0 14.3 4l1.7-2M20 20v-5h-5",
  save: "M5 4h11l4 4v11a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1V5a1 1 0 0 1 1-1zM8 4v5h7V4M8 20v-6h8v6",
  folder:
    "M3 6.5A1.5 1.5 0 0 1 4.5 5H9l2 2.5h8.5A1.5 1.5 0 0 1 21 9v8.5" +
    "a1.5 1.5 0 0 1-1.5 1.5h-15A1.5 1.5 0 0 1 3 17.5z",
  file: "M6 3h8l5 5v12a1 1 0 0 1-1 1H6a1 1 0 0 1-1-1V4a1 1 0 0 1 1-1zM14 3v5h5",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
  upload: "M12 16V5M7 9l5-5 5 5M5 20h14",
  copy: box(8, 9, 12, 12) + "M5 15H4a1 1 0 0 1-1-1V4a1 1 0 0 1 1-1h10a1 1 0 0 1 1 1v1",
  paste: "M9 4h6v3H9zM9 5H6a1 1 0 0 0-1 1v14a1 1 0 0 0 1 1h12a1 1 0 0 0 1-1V6a1 1 0 0 0-1-1h-3M9 12h6M9 16h4",
  duplicate: "M8 8h12v12H8zM4 16V4h12M14 11v6M11 14h6",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v6M14 11v6",
  "mark-in": "M9 4H5v16h4M20 12H9M14 7l-5 5 5 5",
  "mark-out": "M15 4h4v16h-4M4 12h11M10 7l5 5-5 5",
  cut: ring(6.5, 18, 2.5) + ring(17.5, 18, 2.5) + "M8 16L17 4M16 16L7 4",
  palette:
    "M12 3.5c-5 0-9 3.6-9 8.2s3.6 8.8 8 8.8c1.7 0 2-1.2 1.4-2.2-.8-1.5.1-3 1.8-3h2.3c2.6 0 4.5-1.8 4.5-4.3 0-4.3-4-7.5-9-7.5z" +
    dot(7.5, 11.5) +
    dot(10.5, 7.5) +
    dot(15, 8),
  crop: "M7 2v15h15M2 7h15v15",
  lasso: "M12 5c5 0 8 2 8 5s-3 5.5-8 5.5S4 13 4 10s3-5 8-5zM8 15c-2 1-2 4 .5 4.5M9 19.5l-2 2",
  fill: "M11 3l8 8-7.5 7.5a1.5 1.5 0 0 1-2 0L4 13a1.5 1.5 0 0 1 0-2zM4 12h14M20.5 15.5c1.5 2 1.5 4-.2 4s-1.7-2 .2-4z",
  hand: "M7 12V6.5a1.5 1.5 0 0 1 3 0V11V4.5a1.5 1.5 0 0 1 3 0V11V5.5a1.5 1.5 0 0 1 3 0V12V8.5a1.5 1.5 0 0 1 3 0V15a6 6 0 0 1-6 6h-1.5a6 6 0 0 1-4.5-2.2L4 14.5a1.6 1.6 0 0 1 2.4-2L7 13",
  edit: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  history: "M4 12a8 8 0 1 0 2.5-5.8L4 8.5M4 4v4.5h4.5M12 8v4.5l3 2",
  clock: ring(12, 12, 8) + "M12 8v4.5l3 2",
  share: ring(6, 12, 2.5) + ring(18, 6, 2.5) + ring(18, 18, 2.5) + "M8.6 10.8l6.8-3.6M8.6 13.2l6.8 3.6",
  link: "M10 14a4 4 0 0 0 6 .4l3-3a4 4 0 0 0-5.7-5.7L12 7M14 10a4 4 0 0 0-6-.4l-3 3a4 4 0 0 0 5.7 5.7L12 17",
  info: ring(12, 12, 9) + "M12 11v5" + dot(12, 8),
  help: ring(12, 12, 9) + "M9.2 9.4a2.8 2.8 0 1 1 4.6 2.2c-1.2.9-1.8 1.4-1.8 2.6" + dot(12, 17),
  warning: "M12 4L2.8 19.5h18.4zM12 10v4.5" + dot(12, 17),
  error: "M8 3h8l5 5v8l-5 5H8l-5-5V8zM12 8v5" + dot(12, 16),
  eye: "M2.5 12S6 5.5 12 5.5 21.5 12 21.5 12 18 18.5 12 18.5 2.5 12 2.5 12z" + ring(12, 12, 3),
  mute:
    "M4 4l16 16M10 6a9 9 0 0 1 2-.2c6 0 9.5 6.2 9.5 6.2a16 16 0 0 1-3 3.6" +
    "M6 7.7A16 16 0 0 0 2.5 12S6 18.3 12 18.3a9 9 0 0 0 4-1",
  bypass: "M4 15a8 8 0 0 1 15-3M19.5 7v5h-5" + ring(12, 17.5, 1.5),
  group: "M4 8V5a1 1 0 0 1 1-1h3M16 4h3a1 1 0 0 1 1 1v3M20 16v3a1 1 0 0 1-1 1h-3M8 20H5a1 1 0 0 1-1-1v-3M9 9h6v6H9z",
  note: "M5 4h14a1 1 0 0 1 1 1v9l-6 6H5a1 1 0 0 1-1-1V5a1 1 0 0 1 1-1z" + "M20 14h-6v6M8 9h8M8 13h3",
  arrange: "M3 5h6v5H3zM15 3h6v5h-6zM15 16h6v5h-6zM9 7.5h2.5V18.5H15M11.5 5.5H15",
  node: box(4, 6, 16, 12) + "M4 10h16",
  fit: "M4 9V4h5M15 4h5v5M20 15v5h-5M9 20H4v-5",
  "zoom-in": ring(11, 11, 7) + "M20 20l-4-4M11 8v6M8 11h6",
  "zoom-out": ring(11, 11, 7) + "M20 20l-4-4M8 11h6",
  map: "M4 6l5-2 6 2 5-2v14l-5 2-6-2-5 2zM9 4v14M15 6v14",
  list: "M9 6h11M9 12h11M9 18h11" + dot(4.5, 6) + dot(4.5, 12) + dot(4.5, 18),
  queue: "M4 6h16M4 11h16M4 16h9M17 14v6l4-3z",
  model: "M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9",
  settings: ring(15, 7, 2.5) + ring(9, 17, 2.5) + "M4 7h8.5M17.5 7H20M4 17h2.5M11.5 17H20",
  language: ring(12, 12, 9) + "M3 12h18M12 3c5 5.5 5 12.5 0 18c-5-5.5-5-12.5 0-18",
  keyboard: box(3, 6, 18, 12) + dot(7, 10) + dot(10.5, 10) + dot(14, 10) + dot(17, 10) + "M8 14h8",
  image: box(4, 4, 16, 16) + "M4 16l4.5-4.5L13 16l3-3 4 4" + dot(15, 9),
  video: box(3, 6, 13, 12) + "M16 10.5l5-3v9l-5-3",
  audio: "M4 9.5v5h3.5L12 18.5v-13L7.5 9.5zM15.5 9a4 4 0 0 1 0 6M18 6a8.5 8.5 0 0 1 0 12",
  compare: "M12 3v18M5 6h4v12H5a1 1 0 0 1-1-1V7a1 1 0 0 1 1-1zM15 6h4a1 1 0 0 1 1 1v10a1 1 0 0 1-1 1h-4",
  grid: "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z",
  more: dot(6, 12) + dot(12, 12) + dot(18, 12),
  lock: box(5, 11, 14, 9) + "M8 11V8a4 4 0 0 1 8 0v3",
  unlock: box(5, 11, 14, 9) + "M8 11V8a4 4 0 0 1 7.5-2",
  build: "M4 5h6v4H4zM14 15h6v4h-6zM10 7h3a2 2 0 0 1 2 2v3M17 15v-3",
  star: "M12 3.5l2.6 5.5 6 .8-4.4 4.2 1.1 6L12 17.1 6.7 20l1.1-6L3.4 9.8l6-.8z",
  tag: "M4 4h8l8 8-8 8-8-8z" + dot(8, 8),
  board: box(3, 5, 13, 14) + "M19 8v12a1 1 0 0 1-1 1H7",
  text: "M5 7V5h14v2M12 5v14M9 19h6",
  spark: "M12 3l2 7 7 2-7 2-2 7-2-7-7-2 7-2zM18.5 4v3M17 5.5h3",
  noise:
    dot(6, 6) +
    dot(12, 7.5) +
    dot(18, 6) +
    dot(8, 12) +
    dot(14, 12.5) +
    dot(19, 12) +
    dot(5, 17.5) +
    dot(11, 17.5) +
    dot(17, 18),
  encode: "M4 6h11M4 11h7M4 16h5M13 16h7M17 13l3 3-3 3",
  mask: ring(12, 12, 8) + "M12 4v16M12 8h6.5M12 12h8M12 16h6.5",
  puzzle: "M5 9h3.2a2.2 2.2 0 1 1 4.3 0H16v3.3a2.2 2.2 0 1 1 0 4.3V20H5z",
  offline:
    "M4 4l16 16M8.5 15.5a5 5 0 0 1 6-.8M5 12a10 10 0 0 1 4-2.4M13 9a10 10 0 0 1 6 3" +
    "M2 8.5A15 15 0 0 1 6 6M10.5 5A15 15 0 0 1 22 8.5" +
    dot(12, 19),
} as const;

export type IconName = keyof typeof PATHS;

const FILLED: ReadonlySet<IconName> = new Set(["play", "stop"]);

/** Decoration: the control around it says in words what it means. */
export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg className="ll-icon" viewBox="0 0 24 24" width={size} height={size} aria-hidden="true" focusable="false">
      <path d={PATHS[name]} className={FILLED.has(name) ? "ll-icon-filled" : undefined} />
    </svg>
  );
}

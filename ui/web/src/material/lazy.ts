/** The parts of this folder that are read when they are first opened. */

import { lazily } from "../frame/lazily";

export const MaskPainter = lazily(async () => (await import("./mask/MaskPainter")).MaskPainter);

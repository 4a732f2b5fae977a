/** The parts of this folder that are read when they are first opened. */

import { lazily } from "../frame/lazily";

export const FrameDialog = lazily(async () => (await import("./frame/FrameDialog")).FrameDialog);
export const MaskPainter = lazily(async () => (await import("./mask/MaskPainter")).MaskPainter);
export const SoundPlayer = lazily(async () => (await import("./sound/SoundPlayer")).SoundPlayer);
export const VideoPlayer = lazily(async () => (await import("./player/VideoPlayer")).VideoPlayer);

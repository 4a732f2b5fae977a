/** The outline of a sound: the lowest and the highest sample of each part, read in the page. */

/** Longer sounds are shown by the outline that the server draws: decoded they would take too much memory. */
const MOST_S = 30 * 60;
/** Enough for an outline; the browser resamples while it decodes. */
const RATE = 8000;
const PARTS = 2000;

export interface Peaks {
  low: Float32Array;
  high: Float32Array;
}

/** Of all channels together; the last part may be shorter. */
export function peaksOf(channels: readonly Float32Array[], parts: number): Peaks {
  const length = Math.max(0, ...channels.map((channel) => channel.length));
  const count = Math.min(parts, length);
  const [low, high] = [new Float32Array(count), new Float32Array(count)];
  for (let part = 0; part < count; part++) {
    const [first, end] = [Math.floor((part * length) / count), Math.floor(((part + 1) * length) / count)];
    for (const channel of channels) {
      for (let at = first; at < end; at++) {
        const value = channel[at] ?? 0;
        if (value < low[part]!) low[part] = value;
        if (value > high[part]!) high[part] = value;
      }
    }
  }
  return { low, high };
}

/** Null where the sound is too long, or the browser cannot decode it. */
export async function readPeaks(address: string, length_s: number): Promise<Peaks | null> {
  if (length_s > MOST_S) return null;
  try {
    const response = await fetch(address, { credentials: "same-origin" });
    if (!response.ok) return null;
    const decoder = new OfflineAudioContext(1, 1, RATE);
    const sound = await decoder.decodeAudioData(await response.arrayBuffer());
    const channels = Array.from({ length: sound.numberOfChannels }, (_, channel) => sound.getChannelData(channel));
    return peaksOf(channels, PARTS);
  } catch {
    return null;
  }
}

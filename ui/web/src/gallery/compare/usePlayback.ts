import { useCallback, useEffect, useRef, useState, type RefCallback } from "react";
import type { Result } from "../../types";
import { lengthOf } from "../resultWords";
import type { View } from "../stage/zoom";

export interface Playback {
  first: RefCallback<HTMLVideoElement>;
  second: RefCallback<HTMLVideoElement>;
  isPlaying: boolean;
  /** Seconds from the start; of both. */
  time: number;
  length: number;
  play: (isPlaying: boolean) => void;
  seek: (time: number) => void;
}

/** What each way to compare is given. */
export interface Pair {
  a: Result;
  b: Result;
  view: View;
  onView: (view: View) => void;
  playback: Playback;
}

const DRIFT_S = 0.08;

/** Two videos that run in step; pictures have no length and stand at 0. */
export function usePlayback(a: Result, b: Result): Playback {
  const videos = useRef<[HTMLVideoElement | null, HTMLVideoElement | null]>([null, null]);
  const [isPlaying, setPlaying] = useState(false);
  const [time, setTime] = useState(0);
  const now = useRef(time);
  now.current = time;
  const length = Math.max(lengthOf(a), lengthOf(b));

  const join = (at: 0 | 1) => (video: HTMLVideoElement | null) => {
    videos.current[at] = video;
    if (video) video.currentTime = now.current;
  };
  // Refs that stay the same: else each draw would seek.
  const [first] = useState(() => join(0));
  const [second] = useState(() => join(1));

  const seek = useCallback((to: number) => {
    setTime(to);
    for (const video of videos.current) if (video) video.currentTime = to;
  }, []);

  useEffect(() => {
    if (!isPlaying) return;
    for (const video of videos.current) void video?.play().catch(() => setPlaying(false));
    let frame = requestAnimationFrame(function follow() {
      const [one, two] = videos.current;
      if (one) {
        setTime(one.currentTime);
        if (two && Math.abs(one.currentTime - two.currentTime) > DRIFT_S) two.currentTime = one.currentTime;
      }
      frame = requestAnimationFrame(follow);
    });
    const playing = videos.current;
    return () => {
      cancelAnimationFrame(frame);
      for (const video of playing) video?.pause();
    };
  }, [isPlaying]);

  return { first, second, isPlaying, time, length, play: setPlaying, seek };
}

import { useCallback, useEffect, useRef, useState, type RefCallback } from "react";
import { marked, NO_MARKS, partOf, turnedBack, type Marks } from "./marks";

export interface Player {
  media: RefCallback<HTMLMediaElement>;
  /** The element itself, once it is drawn. */
  element: () => HTMLMediaElement | null;
  isPlaying: boolean;
  time: number;
  length: number;
  speed: number;
  isLooping: boolean;
  marks: Marks;
  play: (isPlaying: boolean) => void;
  seek: (time: number) => void;
  setSpeed: (speed: number) => void;
  setLooping: (isLooping: boolean) => void;
  mark: (which: "start" | "end", time: number) => void;
  clearMarks: () => void;
}

/** A video or sound that is played, wound and marked; `length` is known before the file is. */
export function usePlayer(length: number, { loops }: { loops: boolean }): Player {
  const held = useRef<HTMLMediaElement | null>(null);
  const [isPlaying, setPlaying] = useState(false);
  const [time, setTime] = useState(0);
  const [speed, setSpeed] = useState(1);
  const [isLooping, setLooping] = useState(loops);
  const [marks, setMarks] = useState(NO_MARKS);
  const now = useRef({ marks, isLooping });
  now.current = { marks, isLooping };

  const media: RefCallback<HTMLMediaElement> = useCallback((element) => {
    held.current = element;
    if (!element) return;
    const told = () => setTime(element.currentTime);
    const ends = new AbortController();
    const on = (event: string, act: () => void) => element.addEventListener(event, act, { signal: ends.signal });
    on("play", () => setPlaying(true));
    on("pause", () => setPlaying(false));
    on("ended", () => setPlaying(false));
    for (const event of ["seeked", "timeupdate"]) on(event, told);
    return () => ends.abort();
  }, []);
  const seek = useCallback((to: number) => {
    setTime(to);
    if (held.current) held.current.currentTime = to;
  }, []);

  useEffect(() => {
    if (!isPlaying) return;
    let frame = requestAnimationFrame(function follow() {
      const element = held.current;
      if (element) {
        setTime(element.currentTime);
        const back = turnedBack(now.current.marks, element.currentTime, length);
        if (back !== null) {
          if (now.current.isLooping) element.currentTime = back;
          else element.pause();
        }
      }
      frame = requestAnimationFrame(follow);
    });
    return () => cancelAnimationFrame(frame);
  }, [isPlaying, length]);
  useEffect(() => {
    if (held.current) held.current.playbackRate = speed;
  }, [speed]);

  const play = (starts: boolean) => {
    const element = held.current;
    if (!element) return;
    if (!starts) return element.pause();
    const { start, end } = partOf(marks, length);
    if (element.currentTime < start || element.currentTime >= end) seek(start);
    void element.play().catch(() => setPlaying(false));
  };
  const mark = (which: "start" | "end", at: number) => setMarks((last) => marked(last, which, at));
  const clearMarks = () => setMarks(NO_MARKS);
  const element = () => held.current;
  const state = { isPlaying, time: Math.min(time, length), length, speed, isLooping, marks };
  return { media, element, ...state, play, seek, setSpeed, setLooping, mark, clearMarks };
}

import { useEffect, useMemo, useRef, useState } from "react";
import { sentence } from "../../host";
import { t } from "../../i18n";
import { Notice } from "../../parts/Notice";
import { Spinner } from "../../parts/Spinner";
import { number } from "../resultWords";
import { pixelsOf } from "../stage/pixels";
import { Stage } from "../stage/Stage";
import type { Placement } from "../stage/zoom";
import { pixelDifference } from "./pixelDifference";
import type { Pair } from "./usePlayback";

const FACTORS = [1, 2, 4, 8, 16, 32, 64] as const;
const FIRST_FACTOR = 8;

interface Pixels {
  a: ImageData;
  b: ImageData;
}

/** Where the two differ, brightened by a factor, with the numbers. Of videos: the frame they stand at. */
export function ByDifference({ a, b, view, onView, playback }: Pair) {
  const [factor, setFactor] = useState(FIRST_FACTOR);
  const [pixels, setPixels] = useState<Pixels | null>(null);
  const [problem, setProblem] = useState("");
  const isSameSize = a.width === b.width && a.height === b.height;
  const { time } = playback;

  useEffect(() => {
    if (!isSameSize) return;
    let isWanted = true;
    setProblem("");
    Promise.all([pixelsOf(a, time), pixelsOf(b, time)]).then(
      ([first, second]) => isWanted && setPixels({ a: first, b: second }),
      (error: unknown) => isWanted && setProblem(sentence(error)),
    );
    return () => {
      isWanted = false;
    };
  }, [a, b, time, isSameSize]);

  if (!isSameSize) {
    const sizes = { a: `${a.width} x ${a.height}`, b: `${b.width} x ${b.height}` };
    return <Notice kind="warning">{t("gallery.other_sizes", sizes)}</Notice>;
  }
  if (problem) return <Notice kind="error">{problem}</Notice>;
  if (!pixels) return <Spinner label={t("gallery.loading")} isVisible />;
  return <Drawn pixels={pixels} factor={factor} onFactor={setFactor} {...{ view, onView }} />;
}

function Canvas({ data, placement: { left, top, width, height } }: { data: ImageData; placement: Placement }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => canvas.current?.getContext("2d")?.putImageData(data, 0, 0), [data]);
  return (
    <canvas
      ref={canvas}
      className="ll-shown ll-shown-pixels"
      width={data.width}
      height={data.height}
      style={{ left, top, width, height }}
    />
  );
}

type DrawnProps = Pick<Pair, "view" | "onView"> & {
  pixels: Pixels;
  factor: number;
  onFactor: (factor: number) => void;
};

function Drawn({ pixels, factor, onFactor, view, onView }: DrawnProps) {
  const { width, height } = pixels.a;
  const { pixels: drawn, ...facts } = useMemo(
    () => pixelDifference(pixels.a.data, pixels.b.data, factor),
    [pixels, factor],
  );
  const data = useMemo(() => new ImageData(drawn, width, height), [drawn, width, height]);

  return (
    <div className="ll-difference">
      <div className="ll-difference-head">
        <label>
          {t("gallery.factor")}{" "}
          <select className="ll-input" value={factor} onChange={(event) => onFactor(Number(event.target.value))}>
            {FACTORS.map((each) => (
              <option key={each} value={each}>
                × {each}
              </option>
            ))}
          </select>
        </label>
        <output data-testid="difference" data-max={facts.max}>
          {facts.max === 0
            ? t("gallery.same_pixels")
            : t("gallery.difference_facts", {
                max: facts.max,
                mean: number(facts.mean, 3),
                changed: number(facts.changed * 100, 1),
              })}
        </output>
      </div>
      <Stage label={t("gallery.difference_label")} picture={{ width, height }} view={view} onView={onView}>
        {(placement) => <Canvas data={data} placement={placement} />}
      </Stage>
    </div>
  );
}

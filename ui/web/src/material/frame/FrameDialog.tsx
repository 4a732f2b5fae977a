import { useEffect, useId, useRef, useState, type KeyboardEvent, type PointerEvent } from "react";
import { Stage } from "../../gallery/stage/Stage";
import { WHOLE, type Placement, type View } from "../../gallery/stage/zoom";
import { sentence } from "../../host";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { Notice } from "../../parts/Notice";
import { Dialog } from "../../parts/overlays/Dialog";
import { Spinner } from "../../parts/Spinner";
import { loadPicture, type Picture } from "../pixels";
import {
  dragged,
  frameFrom,
  GRIPS,
  held,
  MULTIPLES,
  SOCKETS,
  valuesOf,
  type Frame,
  type FrameKind,
  type Grip,
} from "./frame";

interface FrameDialogProps {
  kind: FrameKind;
  /** Address of the picture. */
  picture: string;
  /** What a socket of the node holds. */
  value: (socket: string) => number;
  onUse: (values: Record<string, number>) => void;
  onClose: () => void;
}

const USUAL_MULTIPLE = 16;
/** Around picture and frame, as a part of the picture's longer side. */
const ROOM = 0.35;
const names = Object.keys(GRIPS) as (keyof typeof GRIPS)[];
const ARROWS: Readonly<Record<string, readonly [number, number]>> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

/** The part of a picture that is cut out, or the canvas that it is painted on to: dragged, moved by keys, or typed. */
export function FrameDialog(props: FrameDialogProps) {
  const { kind, picture: address, onClose } = props;
  const [picture, setPicture] = useState<Picture | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(
    () => void loadPicture(address).then(setPicture, (error: unknown) => setProblem(sentence(error))),
    [address],
  );
  if (picture) return <Framing {...props} bitmap={picture} />;
  return (
    <Dialog title={t(`material.${kind}_title`)} size="full" onClose={onClose}>
      {problem ? <Notice kind="error">{problem}</Notice> : <Spinner label={t("material.loading")} isVisible />}
    </Dialog>
  );
}

function Framing({ kind, bitmap, value, onUse, onClose }: FrameDialogProps & { bitmap: Picture }) {
  const [frame, setFrame] = useState<Frame>(() => frameFrom(kind, bitmap, value));
  const [multiple, setMultiple] = useState(USUAL_MULTIPLE);
  const [view, setView] = useState<View>(WHOLE);
  const [world, setWorld] = useState(() => around(bitmap, frame));
  const take = (grip: Grip, by: readonly [number, number], from = frame) =>
    setFrame(dragged(kind, bitmap, from, { grip, by, multiple }));
  const values = valuesOf(kind, bitmap, frame);
  return (
    <Dialog
      title={t(`material.${kind}_title`)}
      description={t(`material.${kind}_text`)}
      size="full"
      onClose={onClose}
      footer={
        <>
          <p className="ll-paint-where" role="status">
            {t("material.frame_size", { width: frame.width, height: frame.height })}
          </p>
          <Button kind="ghost" onClick={() => setFrame(held(kind, bitmap, { left: 0, top: 0, ...sizeOf(bitmap) }))}>
            {t("material.whole_picture")}
          </Button>
          <Button
            kind="primary"
            icon="check"
            onClick={() => {
              onUse(values);
              onClose();
            }}
          >
            {t("material.use_frame")}
          </Button>
        </>
      }
    >
      <div className="ll-paint">
        <div className="ll-paint-tools" role="group" aria-label={t("material.frame")}>
          {SOCKETS[kind].map((name) => (
            <Typed
              key={name}
              label={t(`material.${name}`)}
              value={values[name] ?? 0}
              onChange={(next) => {
                const typed = { ...values, [name]: next };
                setFrame(frameFrom(kind, bitmap, (socket) => typed[socket] ?? 0));
              }}
            />
          ))}
          <label className="ll-paint-choice">
            <span>{t("material.multiple")}</span>
            <select className="ll-input" value={multiple} onChange={(event) => setMultiple(Number(event.target.value))}>
              {MULTIPLES.map((each) => (
                <option key={each} value={each}>
                  {each === 1 ? t("material.any_size") : t("material.pixels", { n: each })}
                </option>
              ))}
            </select>
          </label>
        </div>
        <div className="ll-paint-room">
          <Stage label={t("material.frame_stage", sizeOf(bitmap))} picture={world} view={view} onView={setView}>
            {(placement) => (
              <FrameOn
                placement={placement}
                origin={world}
                picture={bitmap}
                kind={kind}
                frame={frame}
                multiple={multiple}
                onTake={take}
                onDone={() => setWorld(around(bitmap, frame))}
              />
            )}
          </Stage>
        </div>
        <p className="ll-paint-keys">{t("material.frame_keys")}</p>
      </div>
    </Dialog>
  );
}

interface World {
  /** The picture's corner. */
  x: number;
  y: number;
  width: number;
  height: number;
}

/** What is shown: picture and frame, with room to draw it larger. */
function around({ width, height }: Picture, frame: Frame): World {
  const room = Math.max(width, height) * ROOM;
  const [x, y] = [room - Math.min(0, frame.left), room - Math.min(0, frame.top)];
  const beyond = (start: number, length: number, own: number) => Math.max(own, start + length);
  return {
    x,
    y,
    width: x + beyond(frame.left, frame.width, width) + room,
    height: y + beyond(frame.top, frame.height, height) + room,
  };
}

interface FrameOnProps {
  placement: Placement;
  origin: World;
  picture: Picture;
  kind: FrameKind;
  frame: Frame;
  multiple: number;
  onTake: (grip: Grip, by: readonly [number, number], from?: Frame) => void;
  onDone: () => void;
}

function FrameOn({ placement, origin, picture, kind, frame, multiple, onTake, onDone }: FrameOnProps) {
  const held = useRef<{ grip: Grip; x: number; y: number; from: Frame } | null>(null);
  const { scale } = placement;
  const place = (left: number, top: number, width: number, height: number) => ({
    left: placement.left + (origin.x + left) * scale,
    top: placement.top + (origin.y + top) * scale,
    width: width * scale,
    height: height * scale,
  });
  const hand = (grip: Grip) => ({
    onPointerDown: (event: PointerEvent<HTMLElement>) => {
      event.stopPropagation(); // the stage would move the picture
      event.currentTarget.setPointerCapture(event.pointerId);
      held.current = { grip, x: event.clientX, y: event.clientY, from: frame };
    },
    onPointerMove: (event: PointerEvent<HTMLElement>) => {
      const { current } = held;
      if (!current) return;
      onTake(current.grip, [(event.clientX - current.x) / scale, (event.clientY - current.y) / scale], current.from);
    },
    onPointerUp: () => {
      if (held.current) onDone();
      held.current = null;
    },
    onDoubleClick: (event: { stopPropagation: () => void }) => event.stopPropagation(),
    onKeyDown: (event: KeyboardEvent) => {
      const arrow = ARROWS[event.key];
      if (!arrow) return;
      event.preventDefault();
      event.stopPropagation();
      const step = (grip[0] === 0 && grip[1] === 0 ? 1 : multiple) * (event.shiftKey ? 8 : 1);
      onTake(grip, [arrow[0] * step, arrow[1] * step]);
    },
  });
  return (
    <>
      <Shown picture={picture} style={place(0, 0, picture.width, picture.height)} />
      <div className={`ll-frame ll-frame-${kind}`} style={place(frame.left, frame.top, frame.width, frame.height)}>
        <button type="button" className="ll-frame-move" aria-label={t("material.move_frame")} {...hand([0, 0])} />
        {names.map((name) => (
          <button
            key={name}
            type="button"
            className="ll-frame-grip"
            style={{ left: `${(GRIPS[name][0] + 1) * 50}%`, top: `${(GRIPS[name][1] + 1) * 50}%` }}
            aria-label={t(`material.grip_${name}`)}
            {...hand(GRIPS[name])}
          />
        ))}
      </div>
    </>
  );
}

function Shown({ picture, style }: { picture: Picture; style: Record<string, number> }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => canvas.current?.getContext("2d")?.drawImage(picture.bitmap, 0, 0), [picture]);
  return <canvas ref={canvas} className="ll-shown" width={picture.width} height={picture.height} style={style} />;
}

function Typed({ label, value, onChange }: { label: string; value: number; onChange: (value: number) => void }) {
  const id = useId();
  return (
    <div className="ll-paint-slider">
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        type="number"
        className="ll-input ll-frame-number"
        value={value}
        min={0}
        onChange={(event) => event.target.value && onChange(Math.max(0, Math.round(event.target.valueAsNumber)))}
      />
    </div>
  );
}

function sizeOf({ width, height }: Picture): { width: number; height: number } {
  return { width, height };
}

import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from "react";
import { actualSize, WHOLE, zoomed, type View } from "../../gallery/stage/zoom";
import { sentence } from "../../host";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { Notice } from "../../parts/Notice";
import { Dialog } from "../../parts/overlays/Dialog";
import { Spinner } from "../../parts/Spinner";
import { confirm, toast } from "../../store/page";
import { coloursOf, loadPicture, type Picture } from "../pixels";
import { formFor, maskOf, type Channel } from "./channel";
import { partPainted, type Spot } from "./coverage";
import { dropStrokes, keepStrokes, keptStrokes } from "./kept";
import { Painter } from "./painter";
import { PaintStage } from "./PaintStage";
import { PaintTools } from "./PaintTools";
import { pngOf } from "./png";
import { firstSettings, largestBrush, sized, type Settings } from "./tools";

interface MaskPainterProps {
  /** Address of the picture to paint on; "" where there is none: then the mask's own size counts. */
  picture: string;
  /** Address of a mask to go on with; "" for none. */
  mask: string;
  /** The channel that the mask is read from. */
  channel: Channel;
  /** Keeps the file; what it raises is shown, and nothing is lost. */
  onSave: (file: Blob) => Promise<void>;
  onClose: () => void;
}

/** What is painted on, once it is loaded. */
interface Canvas {
  picture: Picture | null;
  painter: Painter;
  /** Whether strokes came back that were in no file. */
  isRestored: boolean;
}

/** Paints a mask on a picture: where it is painted, a model paints anew. */
export function MaskPainter(props: MaskPainterProps) {
  const { picture, mask, channel, onClose } = props;
  const [canvas, setCanvas] = useState<Canvas | null>(null);
  const [problem, setProblem] = useState("");
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let isGone = false;
    openCanvas(picture, mask, channel).then(
      (opened) => !isGone && setCanvas(opened),
      (error: unknown) => !isGone && setProblem(sentence(error)),
    );
    return () => {
      isGone = true;
    };
  }, [picture, mask, channel, turn]);
  if (canvas) {
    const anew = () => {
      dropStrokes(whatOf(props));
      setCanvas(null);
      setTurn(turn + 1);
    };
    return <Paint key={turn} {...props} canvas={canvas} onAnew={anew} />;
  }
  return (
    <Dialog title={t("material.mask_title")} size="full" onClose={onClose}>
      {problem ? <Notice kind="error">{problem}</Notice> : <Spinner label={t("material.loading")} isVisible />}
    </Dialog>
  );
}

async function openCanvas(picture: string, mask: string, channel: Channel): Promise<Canvas> {
  const under = picture ? await loadPicture(picture) : null;
  const drawn = mask ? await loadPicture(mask) : null;
  const { width, height } = under ?? drawn ?? { width: 0, height: 0 };
  if (!width) throw new Error(t("material.no_picture"));
  const kept = keptStrokes(whatOf({ picture, mask }));
  const isRestored = kept !== null && kept.width === width && kept.height === height;
  const before = isRestored
    ? kept.data
    : drawn && maskOf(coloursOf(drawn, width, height).data, width, height, channel).data;
  const painter = new Painter(width, height, before ?? undefined);
  painter.isChanged = isRestored;
  return { picture: under, painter, isRestored };
}

/** Names the strokes that are kept until they are in a file. */
function whatOf({ picture, mask }: { picture: string; mask: string }): string {
  return `${new URL(picture || "none:", document.baseURI).pathname} ${mask}`;
}

interface PaintProps extends MaskPainterProps {
  canvas: Canvas;
  /** Begin again without the strokes that came back. */
  onAnew: () => void;
}

const KEEP_MS = 600;

function Paint({ canvas: { picture, painter, isRestored }, onAnew, onSave, onClose, ...asked }: PaintProps) {
  const { mask } = painter;
  const [settings, setSettings] = useState<Settings>(() => firstSettings(mask.width, mask.height));
  const [view, setView] = useState<View>(WHOLE);
  const [cursor, setCursor] = useState<{ spot: Spot; isDown: boolean } | null>(null);
  const [revision, setRevision] = useState(painter.revision);
  const [isSaving, setSaving] = useState(false);
  const [problem, setProblem] = useState("");
  const room = useRef<HTMLDivElement>(null);
  const what = whatOf(asked);
  const change = (some: Partial<Settings>) => setSettings((last) => ({ ...last, ...some }));
  const part = useMemo(() => partPainted(mask), [revision, mask]);

  useEffect(() => {
    const later = { timer: 0 };
    const unsubscribe = painter.subscribe(() => {
      window.clearTimeout(later.timer);
      later.timer = window.setTimeout(() => {
        setRevision(painter.revision);
        if (painter.isChanged && !painter.isDrawing) keepStrokes(what, mask);
      }, KEEP_MS);
      if (!painter.isDrawing) setRevision(painter.revision);
    });
    return () => {
      window.clearTimeout(later.timer);
      unsubscribe();
    };
  }, [painter, what]);

  const save = async () => {
    painter.up();
    setSaving(true);
    setProblem("");
    try {
      await onSave(await pngOf(mask, formFor(asked.channel)));
      painter.markSaved();
      dropStrokes(what);
      onClose();
    } catch (error) {
      setProblem(sentence(error));
      setSaving(false);
    }
  };
  const leave = () => {
    painter.up();
    if (painter.isChanged) {
      keepStrokes(what, mask);
      toast({ kind: "info", text: t("material.strokes_kept") });
    }
    onClose();
  };
  const discard = async () => {
    if (!(await confirm(t("material.confirm_discard"), t("material.discard")))) return;
    dropStrokes(what);
    onClose();
  };
  const zoomBy = (factor: number) => {
    const stage = room.current?.getBoundingClientRect() ?? { width: 1, height: 1 };
    setView(zoomed(view, factor, { picture: mask, stage }));
  };

  const onKeyDown = (event: KeyboardEvent) => {
    const key = event.key.toLowerCase();
    if (event.ctrlKey || event.metaKey) {
      if (key === "z" && !event.shiftKey) painter.undo();
      else if (key === "y" || key === "z") painter.redo();
      else if (key === "s" || key === "enter") void save();
      else return;
      event.preventDefault();
      return;
    }
    if ((event.target as HTMLElement).closest("input, select, textarea") || event.altKey) return;
    const most = largestBrush(mask.width, mask.height);
    const does: Record<string, () => void> = {
      b: () => change({ tool: "brush", isErasing: false }),
      e: () => change({ isErasing: !settings.isErasing }),
      l: () => change({ tool: "lasso" }),
      f: () => change({ tool: "fill" }),
      h: () => change({ tool: "hand" }),
      i: () => painter.invert(),
      "[": () => change({ size: sized(settings.size, -1, most) }),
      "]": () => change({ size: sized(settings.size, 1, most) }),
      "+": () => zoomBy(1.25),
      "=": () => zoomBy(1.25),
      "-": () => zoomBy(0.8),
      "0": () => setView(WHOLE),
      "1": () => setView(actualSize(view, mask, room.current?.getBoundingClientRect() ?? mask)),
    };
    const act = does[key];
    if (!act) return;
    act();
    event.preventDefault();
  };

  return (
    <Dialog
      title={t("material.mask_title")}
      description={t("material.mask_text")}
      size="full"
      onClose={leave}
      footer={
        <>
          <p className="ll-paint-where" role="status">
            {cursor && t("material.at", { x: Math.floor(cursor.spot.x), y: Math.floor(cursor.spot.y) })}
            {cursor?.isDown && `, ${t("material.pen_down")}`}
            {cursor && ". "}
            {t("material.part_painted", { percent: percent(part) })}
          </p>
          <Button kind="ghost" onClick={() => void discard()}>
            {t("material.discard")}
          </Button>
          <Button kind="primary" icon="check" isBusy={isSaving} onClick={() => void save()}>
            {t("material.use_mask")}
          </Button>
        </>
      }
    >
      <div className="ll-paint" onKeyDown={onKeyDown}>
        <PaintTools
          painter={painter}
          settings={settings}
          onChange={change}
          hasPicture={picture !== null}
          onZoom={(factor) => (factor ? zoomBy(factor) : setView(WHOLE))}
        />
        {isRestored && (
          <Notice>
            {t("material.strokes_back")}{" "}
            <Button kind="ghost" onClick={onAnew}>
              {t("material.begin_anew")}
            </Button>
          </Notice>
        )}
        {problem && <Notice kind="error">{problem}</Notice>}
        <div className="ll-paint-room" ref={room}>
          <PaintStage
            painter={painter}
            picture={picture}
            settings={settings}
            view={view}
            onView={setView}
            onCursor={(spot, isDown) => setCursor({ spot, isDown })}
          />
        </div>
        <p id="ll-paint-keys" className="ll-paint-keys">
          {t("material.keys")}
        </p>
      </div>
    </Dialog>
  );
}

/** Never 0 where something is painted. */
function percent(part: number): number {
  return part > 0 ? Math.max(1, Math.round(part * 100)) : 0;
}

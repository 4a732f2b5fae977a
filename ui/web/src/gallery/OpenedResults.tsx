import { usePage, type View } from "../store/page";
import type { Result } from "../types";
import { CanvasDifference } from "./compare/CanvasDifference";
import { Compare } from "./compare/Compare";
import { Detail } from "./detail/Detail";
import { useGallery, type Open } from "./galleryState";
import { SweepGrid } from "./sweeps/SweepGrid";

/** The results that are looked at, over the view where one asked for them: closing them leads back there. */
export function OpenedResults({ view, items }: { view: View; items: readonly Result[] }) {
  const isHere = usePage((state) => state.view === view);
  const opened = useGallery((state) => state.opened);
  if (!isHere) return null;
  return opened.map((open, index) => <Opened key={`${index} ${open.view}`} open={open} items={items} />);
}

function Opened({ open, items }: { open: Open; items: readonly Result[] }) {
  if (open.view === "detail") return <Detail result={open.result} among={open.among ?? items} />;
  if (open.view === "compare") return <Compare key={open.a.id} a={open.a} b={open.b} />;
  if (open.view === "canvas") return <CanvasDifference result={open.result} />;
  return <SweepGrid batch={open.batch} />;
}

import { useMemo, useState, type DragEvent } from "react";
import { openFile } from "../../panels/files/openFile";
import { onCanvas } from "../canvasUi";

/** A workflow file, or a picture, video or sound that carries one, dropped on the canvas opens it. */
export function useFileDrop() {
  const [isOver, setOver] = useState(false);
  const handlers = useMemo(
    () => ({
      onDragOver: (event: DragEvent) => {
        if (!event.dataTransfer.types.includes("Files")) return;
        event.preventDefault();
        setOver(true);
      },
      onDragLeave: (event: DragEvent) => {
        if (!(event.relatedTarget instanceof Node) || !event.currentTarget.contains(event.relatedTarget))
          setOver(false);
      },
      onDrop: (event: DragEvent) => {
        setOver(false);
        const file = event.dataTransfer.files[0];
        if (!file) return;
        event.preventDefault();
        void openFile(file, onCanvas({ x: event.clientX, y: event.clientY }));
      },
    }),
    [],
  );
  return { isOver, handlers };
}

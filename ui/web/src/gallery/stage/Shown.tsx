import { memo, useState, type Ref } from "react";
import { urls } from "../../host";
import { t } from "../../i18n";
import type { Result } from "../../types";
import { describe } from "../resultWords";
import type { Placement } from "./zoom";

interface ShownProps {
  result: Result;
  placement: Placement;
  videoRef?: Ref<HTMLVideoElement>;
}

/** Single pixels show as squares from here on. */
const PIXELS_SHOW = 12;

/** A result's picture, or its video without controls, where the stage puts it. */
export const Shown = memo(function Shown({ result, placement, videoRef }: ShownProps) {
  const [isBroken, setBroken] = useState(false);
  if (isBroken) return <p className="ll-shown-broken">{t("gallery.not_loaded", { name: result.name })}</p>;
  const { left, top, width, height, scale } = placement;
  const className = `ll-shown ${scale >= PIXELS_SHOW ? "ll-shown-pixels" : ""}`;
  const style = { left, top, width, height };
  return result.kind === "video" ? (
    <video
      ref={videoRef}
      className={className}
      style={style}
      src={urls.file(result.id)}
      aria-label={describe(result)}
      muted
      loop
      playsInline
      preload="auto"
      onError={() => setBroken(true)}
    />
  ) : (
    <img
      className={className}
      style={style}
      src={urls.file(result.id)}
      alt={describe(result)}
      draggable={false}
      onError={() => setBroken(true)}
    />
  );
});

interface SoundProps {
  /** Address of the sound. */
  src: string;
  /** Address of its outline, drawn. */
  outline?: string;
  label: string;
}

/** A sound to listen to, below its outline. */
export function Sound({ src, outline, label }: SoundProps) {
  return (
    <div className="ll-sound nodrag">
      {outline && <img src={outline} alt="" draggable={false} />}
      <audio src={src} aria-label={label} controls preload="metadata" />
    </div>
  );
}

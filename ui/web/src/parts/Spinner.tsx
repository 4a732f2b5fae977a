/** Turns while something is under way; `label` is read aloud once and shown where `isVisible`. */
export function Spinner({ label, isVisible = false }: { label: string; isVisible?: boolean }) {
  return (
    <span className="ll-spinner" role="status">
      <span className="ll-spinner-ring" aria-hidden="true" />
      <span className={isVisible ? "ll-spinner-label" : "ll-hidden"}>{label}</span>
    </span>
  );
}

import type { ReactNode } from "react";
import { Icon, type IconName } from "./icons";

interface EmptyProps {
  icon: IconName;
  title: string;
  /** What to do so that something appears here. */
  text?: string;
  /** A button that does it. */
  children?: ReactNode;
}

/** Stands where a list has nothing to show. */
export function Empty({ icon, title, text, children }: EmptyProps) {
  return (
    <div className="ll-empty">
      <span className="ll-empty-icon">
        <Icon name={icon} size={28} />
      </span>
      <p className="ll-empty-title">{title}</p>
      {text && <p className="ll-empty-text">{text}</p>}
      {children}
    </div>
  );
}

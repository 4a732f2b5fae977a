import type { ButtonHTMLAttributes, Ref } from "react";
import { Icon, type IconName } from "./icons";

interface IconButtonProps extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, "children"> {
  icon: IconName;
  /** What it does, in words: its accessible name and its tooltip. */
  label: string;
  /** Makes it a toggle button. */
  isPressed?: boolean;
  size?: number;
  ref?: Ref<HTMLButtonElement>;
}

/** A square button that shows an icon only. */
export function IconButton({ icon, label, isPressed, size = 16, className = "", ...rest }: IconButtonProps) {
  return (
    <button
      type="button"
      title={label}
      {...rest}
      className={`ll-icon-button ${className}`}
      aria-label={label}
      aria-pressed={isPressed}
    >
      <Icon name={icon} size={size} />
    </button>
  );
}

import type { AnchorHTMLAttributes, ButtonHTMLAttributes, Ref } from "react";
import { Icon, type IconName } from "./icons";

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  kind?: "plain" | "primary" | "ghost" | "danger";
  icon?: IconName;
  /** Shows a turning ring and takes no clicks; the button stays focused. */
  isBusy?: boolean;
  ref?: Ref<HTMLButtonElement>;
}

/** A button with words; `primary` at most once in a view. */
export function Button({
  kind = "plain",
  icon,
  isBusy = false,
  className = "",
  children,
  onClick,
  ...rest
}: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      className={`ll-button ll-button-${kind} ${className}`}
      aria-busy={isBusy || undefined}
      aria-disabled={isBusy || undefined}
      onClick={isBusy ? undefined : onClick}
    >
      {isBusy ? <span className="ll-spinner-ring" aria-hidden="true" /> : icon && <Icon name={icon} />}
      <span>{children}</span>
    </button>
  );
}

interface ButtonLinkProps extends AnchorHTMLAttributes<HTMLAnchorElement> {
  kind?: "plain" | "primary" | "ghost";
  icon?: IconName;
}

/** A link that looks like a button: for what has an address, such as a download. */
export function ButtonLink({ kind = "plain", icon, className = "", children, ...rest }: ButtonLinkProps) {
  return (
    <a {...rest} className={`ll-button ll-button-${kind} ${className}`}>
      {icon && <Icon name={icon} />}
      <span>{children}</span>
    </a>
  );
}

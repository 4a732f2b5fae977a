/** Catches what a view throws while it draws, and says so in its place. The draft is kept elsewhere. */

import { Component, type ReactNode } from "react";
import { t } from "../i18n";
import { Button } from "../parts/Button";
import { Notice } from "../parts/Notice";

interface BoundaryState {
  message: string | null;
}

/** A class, because React has no other way to catch errors. */
export class ErrorBoundary extends Component<{ children: ReactNode }, BoundaryState> {
  override state: BoundaryState = { message: null };

  static getDerivedStateFromError(error: unknown): BoundaryState {
    return { message: error instanceof Error ? error.message : String(error) };
  }

  override render(): ReactNode {
    if (this.state.message === null) return this.props.children;
    return (
      <div className="ll-frame-note">
        <Notice kind="error">{t("frame.broken", { message: this.state.message })}</Notice>
        <Button kind="primary" onClick={() => this.setState({ message: null })}>
          {t("frame.draw_again")}
        </Button>
      </div>
    );
  }
}

/** One view with what surrounds it: theme, language, loading, errors, toasts, questions. */

import type { ReactNode } from "react";
import { t } from "../i18n";
import { Button } from "../parts/Button";
import { Notice } from "../parts/Notice";
import { Spinner } from "../parts/Spinner";
import { usePage } from "../store/page";
import { start } from "../store/start";
import { ErrorBoundary } from "./ErrorBoundary";
import { Question } from "./Question";
import { Toasts } from "./Toasts";

export function Frame({ children }: { children: ReactNode }) {
  const language = usePage((state) => state.language);
  const isDark = usePage((state) => state.theme === "dark");
  // The key draws everything anew in another language: texts are read while drawing.
  return (
    <div className={isDark ? "ll-root ll-dark" : "ll-root"} lang={language} key={language}>
      <h1 className="ll-hidden">latentloom</h1>
      <ErrorBoundary>
        <Started>{children}</Started>
      </ErrorBoundary>
      <Question />
      <Toasts />
    </div>
  );
}

function Started({ children }: { children: ReactNode }) {
  const startup = usePage((state) => state.startup);
  if (startup.state === "ready") return <div className="ll-view">{children}</div>;
  return (
    <div className="ll-frame-note">
      {startup.state === "loading" ? (
        <Spinner label={t("frame.loading")} isVisible />
      ) : (
        <>
          <Notice kind="error">{startup.message}</Notice>
          <Button kind="primary" onClick={() => void start()}>
            {t("frame.try_again")}
          </Button>
        </>
      )}
    </div>
  );
}

import { t } from "../../i18n";

/** The star of inputs that must be given. */
export function Required() {
  return (
    <b className="ll-required" title={t("canvas.required")}>
      <span aria-hidden="true">*</span>
      <span className="ll-hidden">{t("canvas.required")}</span>
    </b>
  );
}

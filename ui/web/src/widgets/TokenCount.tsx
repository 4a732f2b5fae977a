import { t } from "../i18n";
import type { Count } from "../types";

interface TokenCountProps {
  id: string;
  /** The one with the least room first; none where nobody knows. */
  counts: readonly Count[];
  /** One figure, in the line of the label: for nodes, which keep their size. */
  compact: boolean;
}

/** How many tokens of a text its model reads, and which words it does not. */
export function TokenCount({ id, counts, compact }: TokenCountProps) {
  const [tightest] = counts;
  const cut = tightest?.cut ?? "";
  const title = tightest ? counts.map(explained).join("\n") : t("widgets.tokens_unknown_why");
  const text = !tightest ? t("widgets.tokens_unknown") : compact ? short(tightest) : counts.map(said).join(" · ");
  return (
    <div
      id={id}
      className={`ll-tokens ${cut ? "ll-tokens-cut" : ""}`}
      title={compact && cut ? `${title}\n${t("widgets.tokens_cut")} ${cut}` : title}
    >
      <span aria-hidden={compact || undefined}>{text}</span>
      {compact && <span className="ll-hidden">{tightest ? said(tightest) : ""}</span>}
      {!compact && cut && (
        <p>
          {t("widgets.tokens_cut")} <mark>{cut}</mark>
        </p>
      )}
    </div>
  );
}

function short({ num_tokens, limit }: Count): string {
  return limit ? `${num_tokens} / ${limit}` : t("widgets.tokens", { n: num_tokens });
}

function said({ num_tokens, limit }: Count): string {
  return limit ? t("widgets.tokens_of", { n: num_tokens, limit }) : t("widgets.tokens", { n: num_tokens });
}

function explained(count: Count): string {
  return t("widgets.tokens_by", { name: count.tokenizer, count: said(count), own: count.num_own });
}

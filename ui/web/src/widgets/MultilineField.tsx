import { useLayoutEffect, useRef } from "react";
import { keepTyping } from "../parts/keys";
import { useDraft } from "./useDraft";
import type { WidgetProps } from "./widget";

/** Where CSS does it (`field-sizing`), nothing is measured: that is slow with hundreds of nodes. */
const GROWS_BY_ITSELF = globalThis.CSS?.supports("field-sizing", "content") ?? false;

/** Text of several lines, as high as what it holds; settled with Ctrl+Enter or when it is left. Words that its model cannot
 * know are underlined. */
export function MultilineField({
  id,
  value,
  onChange,
  disabled,
  describedBy,
  isInvalid,
  placeholder,
  meant,
  unknown = [],
}: WidgetProps) {
  const draft = useDraft(value, onChange);
  const area = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    const element = area.current;
    if (!element || GROWS_BY_ITSELF) return;
    element.style.height = "auto";
    element.style.height = `${element.scrollHeight + element.offsetHeight - element.clientHeight}px`;
  }, [draft.text]);
  const field = (
    <textarea
      ref={area}
      id={id}
      rows={2}
      className="ll-input ll-multiline nodrag nowheel"
      aria-describedby={describedBy}
      aria-invalid={isInvalid || undefined}
      placeholder={meant ?? placeholder}
      disabled={disabled}
      value={draft.text}
      onChange={(event) => draft.type(event.target.value)}
      onBlur={draft.settle}
      onScroll={({ currentTarget }) => currentTarget.nextElementSibling?.scrollTo(0, currentTarget.scrollTop)}
      onKeyDown={(event) => {
        keepTyping(event);
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) draft.settle();
        else if (event.key === "Escape") draft.takeBack();
      }}
    />
  );
  return (
    <div className="ll-lettered">
      {field}
      {unknown.length > 0 && <Underlined text={draft.text} words={unknown} />}
    </div>
  );
}

/** The text once more, over the field, of which only the lines under some words are seen. */
function Underlined({ text, words }: { text: string; words: readonly string[] }) {
  const parts = text.split(/(\p{L}+)/u);
  return (
    <div className="ll-input ll-multiline ll-underlined" aria-hidden="true">
      {parts.map((part, index) => (words.includes(part) ? <u key={index}>{part}</u> : part))}
    </div>
  );
}

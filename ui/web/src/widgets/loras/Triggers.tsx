import { useContext } from "react";
import { addWord } from "../../graph/edits";
import { hasWord, promptText } from "../../graph/edits/triggers";
import { t } from "../../i18n";
import { Icon } from "../../parts/icons";
import { useEditor } from "../../store/editor";
import { ChangeOfFields, GraphOfFields } from "../graphOfFields";

interface TriggersProps {
  words: readonly string[];
  /** Where they go: "node.socket". */
  prompts: readonly string[];
  disabled: boolean;
}

/** The words that call a LoRA up: each a button that puts it into the prompts, marked where they have it. */
export function Triggers({ words, prompts, disabled }: TriggersProps) {
  useEditor(({ graph }) => graph); // drawn anew when a prompt changes
  const graph = useContext(GraphOfFields)();
  const { change, isOfForm } = useContext(ChangeOfFields);
  const open = prompts.filter((prompt) => promptText(graph, prompt, isOfForm) !== null);
  const texts = open.map((prompt) => promptText(graph, prompt) ?? "");
  if (words.length === 0) return null;
  const isShut = disabled || open.length === 0;
  return (
    <ul className="ll-triggers nowheel" aria-label={t("widgets.lora_words")}>
      {words.map((word) => {
        const isThere = open.length > 0 && texts.every((text) => hasWord(text, word));
        return (
          <li key={word}>
            <button
              type="button"
              className="ll-trigger nodrag"
              aria-pressed={isThere}
              aria-disabled={isShut || isThere || undefined}
              title={t(
                open.length === 0 ? "widgets.lora_no_prompt" : isThere ? "widgets.lora_has" : "widgets.lora_add",
              )}
              onClick={() =>
                !isShut && !isThere && change(t("widgets.lora_add_word", { word }), (last) => addWord(last, open, word))
              }
            >
              <Icon name={isThere ? "check" : "plus"} size={12} />
              {word}
            </button>
          </li>
        );
      })}
    </ul>
  );
}

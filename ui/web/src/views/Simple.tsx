import { useState } from "react";
import { t } from "../i18n";
import { Empty } from "../parts/Empty";
import { Notice } from "../parts/Notice";
import { Spinner } from "../parts/Spinner";
import { useCanvasChoice } from "../simple/canvasChoice";
import { Chooser } from "../simple/Chooser";
import { chosenBefore, rememberChosen } from "../simple/formMemory";
import { Maker } from "../simple/Maker";
import { useChoices } from "../simple/useChoices";
import { useOpened } from "../simple/useOpened";
import { useEditor } from "../store/editor";
import { worded } from "../worded";

/** A form made from a workflow, for people who only want the result: the same file, the same run. */
export function Simple() {
  return (
    <section className="ll-simple" aria-label={t("simple.title")}>
      <Content />
    </section>
  );
}

function Content() {
  const { choices, error } = useChoices();
  const canvas = useCanvasChoice();
  const onCanvas = useEditor(({ draftKey, opened }) => `${draftKey} ${opened}`);
  const [wanted, setWanted] = useState(() => ({ key: chosenBefore(), onCanvas: "" }));
  const all = canvas ? [canvas, ...(choices ?? [])] : (choices ?? []);
  // What is on the canvas comes first, until something else is chosen while it is there.
  const isMeant = !canvas || wanted.onCanvas === onCanvas;
  const chosen = (isMeant && all.find(({ key }) => key === wanted.key)) || (all[0] ?? null);
  const opened = useOpened(chosen);
  const catalog = useEditor((state) => state.catalog);

  const choose = (key: string) => {
    setWanted({ key, onCanvas });
    rememberChosen(key);
  };
  if (error) return <Notice kind="error">{error}</Notice>;
  if (!choices) return <Spinner label={t("simple.reading")} isVisible />;
  if (!chosen) return <Empty icon="build" title={t("simple.none")} text={t("simple.none_text")} />;
  return (
    <>
      <Chooser
        choices={all}
        chosen={chosen}
        about={worded(opened.graph?.description ?? chosen.description)}
        onChoose={choose}
      />
      {opened.error && <Notice kind="error">{opened.error}</Notice>}
      {opened.graph && <Maker key={opened.key} choice={chosen} graph={opened.graph} catalog={catalog} />}
    </>
  );
}

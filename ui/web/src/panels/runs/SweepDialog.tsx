import { useId, useState, type FormEvent } from "react";
import { asRead } from "../../exact";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { Empty } from "../../parts/Empty";
import { IconButton } from "../../parts/IconButton";
import { keepTyping } from "../../parts/keys";
import { Notice } from "../../parts/Notice";
import { Combobox } from "../../parts/overlays/Combobox";
import { Dialog } from "../../parts/overlays/Dialog";
import { useEditor } from "../../store/editor";
import { closeDialog } from "../../store/page";
import { runCount, runSweep } from "./runActions";
import { sweepables, type Sweepable } from "./sweepables";
import { numValues, sweepText, type SweepRow } from "./sweepText";

const MAX_RUNS = 10_000;

interface Row {
  name: string;
  text: string;
  /** The text was written by hand, and stays whatever is chosen. */
  isTyped?: boolean;
}

/** A run for every combination of some values. */
export function SweepDialog() {
  const id = useId();
  const graph = useEditor((state) => state.whole);
  const catalog = useEditor((state) => state.catalog);
  const choices = sweepables(graph, catalog);
  const [rows, setRows] = useState<Row[]>(() => [firstRow(choices)]);
  const [isBusy, setBusy] = useState(false);

  const filled = rows.map((row) => ({ ...row, type: typeOf(choices, row.name) }));
  const count = filled.reduce((product, row) => product * numValues(row), 1);
  const missing = missingOf(filled, count);
  const isReady = missing === "";
  const change = (index: number, part: Partial<Row>) => {
    setRows(rows.map((row, at) => (at === index ? { ...row, ...part } : row)));
  };
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (!isReady) return;
    setBusy(true);
    const isQueued = await runSweep(filled.map(sweepText));
    setBusy(false);
    if (isQueued) closeDialog();
  };
  return (
    <Dialog
      title={t("panels.sweep_title")}
      description={t("panels.sweep_text")}
      onClose={closeDialog}
      footer={
        <>
          <span className="ll-sweep-count" role="status">
            {choices.length > 0 && (missing || runCount(count))}
          </span>
          <Button kind="ghost" onClick={closeDialog}>
            {t("panels.cancel_dialog")}
          </Button>
          <Button
            kind="primary"
            icon="play"
            type="submit"
            form={id}
            disabled={!isReady}
            isBusy={isBusy}
            title={missing || undefined}
          >
            {t("panels.run")}
          </Button>
        </>
      }
    >
      {choices.length === 0 ? (
        <Empty icon="grid" title={t("panels.sweep_nothing")} text={t("panels.sweep_nothing_text")} />
      ) : (
        <form id={id} className="ll-sweep-form" onSubmit={(event) => void submit(event)}>
          {rows.map((row, index) => (
            <RowOfSweep
              key={index}
              row={row}
              choices={choices}
              onChange={(part) => change(index, part)}
              onRemove={rows.length > 1 ? () => setRows(rows.filter((_, at) => at !== index)) : undefined}
            />
          ))}
          <Button kind="ghost" icon="plus" onClick={() => setRows([...rows, { name: "", text: "" }])}>
            {t("panels.sweep_add")}
          </Button>
          <Notice>{t("panels.sweep_help")}</Notice>
        </form>
      )}
    </Dialog>
  );
}

interface SweepRowProps {
  row: Row;
  choices: readonly Sweepable[];
  onChange: (part: Partial<Row>) => void;
  onRemove?: () => void;
}

function RowOfSweep({ row, choices, onChange, onRemove }: SweepRowProps) {
  const id = useId();
  const chosen = choices.find((choice) => choice.name === row.name);
  return (
    <fieldset className="ll-sweep-row">
      <legend className="ll-hidden">{row.name || t("panels.sweep_what")}</legend>
      <Combobox
        label={t("panels.sweep_what")}
        value={row.name}
        options={choices.map(({ name, label, type }) => ({ value: name, label, detail: type }))}
        placeholder={t("panels.sweep_what")}
        onChange={(name) => onChange(row.isTyped ? { name } : { name, text: startText(choices, name) })}
      />
      <textarea
        id={id}
        className="ll-input"
        rows={2}
        aria-label={t("panels.sweep_values", { name: row.name })}
        value={row.text}
        placeholder={chosen?.choices.length ? chosen.choices.join(",") : t("panels.sweep_example")}
        spellCheck={false}
        onChange={(event) => onChange({ text: event.target.value, isTyped: event.target.value.trim() !== "" })}
        onKeyDown={keepTyping}
      />
      {onRemove && <IconButton icon="trash" label={t("panels.sweep_remove", { name: row.name })} onClick={onRemove} />}
    </fieldset>
  );
}

/** Why nothing can be run yet; "" where it can. */
function missingOf(rows: readonly SweepRow[], count: number): string {
  const unchosen = rows.findIndex((row) => row.name === "");
  if (unchosen >= 0) return t("panels.sweep_choose", { row: unchosen + 1 });
  const empty = rows.find((row) => numValues(row) === 0);
  if (empty) return t("panels.sweep_values_missing", { name: empty.name });
  return count > MAX_RUNS ? t("panels.sweep_many", { count, max: MAX_RUNS }) : "";
}

function typeOf(choices: readonly Sweepable[], name: string): string {
  return choices.find((choice) => choice.name === name)?.type ?? "string";
}

/** The seed where there is one, because that is what is swept most. */
function firstRow(choices: readonly Sweepable[]): Row {
  const name = (choices.find((choice) => /(^|\.)seed$/.test(choice.name)) ?? choices[0])?.name ?? "";
  return { name, text: startText(choices, name) };
}

function startText(choices: readonly Sweepable[], name: string): string {
  const chosen = choices.find((choice) => choice.name === name);
  if (!chosen) return "";
  if (chosen.choices.length > 0) return chosen.choices.join(",");
  return chosen.type === "int" && typeof chosen.value === "number"
    ? `${chosen.value}..${chosen.value + 3}`
    : asRead(chosen.value);
}

import { Fragment, type KeyboardEvent, type ReactNode } from "react";
import { t } from "../i18n";
import { Button } from "../parts/Button";
import { Notice } from "../parts/Notice";
import type { Count, InputSpec, Json, Problem } from "../types";
import { Field } from "../widgets/Field";
import { SizePicker } from "../widgets/numbers/SizePicker";
import type { FieldGroup } from "./formFields";
import type { Form } from "./useForm";
import type { Shape } from "./useMeant";
import { worded } from "../worded";

interface FormPanelProps {
  idPrefix: string;
  groups: readonly FieldGroup[];
  form: Form;
  problems: readonly Problem[];
  /** What values that stand for something else will be, by field. */
  meant: Readonly<Record<string, Json>>;
  /** What text encoders make of texts, by field. */
  tokens: Readonly<Record<string, readonly Count[]>>;
  shapes: Readonly<Record<string, Shape>>;
  isSending: boolean;
  seedKey: (name: string) => string;
  /** What the form could have besides. */
  offers: ReactNode;
  onRun: () => void;
}

/** The fields, what is wrong with them, and Run. */
export function FormPanel({
  idPrefix,
  groups,
  form,
  problems,
  meant,
  tokens,
  shapes,
  isSending,
  seedKey,
  offers,
  onRun,
}: FormPanelProps) {
  const fields = groups.flatMap((group) => group.fields);
  const names = new Set(fields.map(({ name }) => name));
  const isOfField = ({ node, socket }: Problem) => node === "" && names.has(socket);
  const others = problems.filter((problem) => !isOfField(problem));
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    onRun();
  };
  const draw = (spec: InputSpec) => (
    <Fragment key={spec.name}>
      <Field
        id={`${idPrefix}-${spec.name}`}
        spec={spec}
        value={form.values[spec.name]}
        meant={meant[spec.name]}
        tokens={tokens[spec.name]}
        problem={worded(problems.find((problem) => isOfField(problem) && problem.socket === spec.name)?.message ?? "")}
        seedKey={spec.widget === "seed" ? seedKey(spec.name) : undefined}
        place={`$${spec.name}`}
        onChange={(value, { commit }) => form.set(spec.name, value, commit)}
      />
      <FormSize height={spec.name} shape={shapes[spec.name]} form={form} />
    </Fragment>
  );
  return (
    <div className="ll-sheet ll-simple-form" role="form" aria-label={t("simple.form")} onKeyDown={onKeyDown}>
      {fields.length === 0 && <p className="ll-hint">{t("simple.no_fields")}</p>}
      {groups.map((group) =>
        group.title ? (
          <fieldset key={group.title} className="ll-simple-group">
            <legend>{group.title}</legend>
            {group.fields.map(draw)}
          </fieldset>
        ) : (
          group.fields.map(draw)
        ),
      )}
      {offers}
      {others.length > 0 && (
        <Notice kind="error">
          {others.map(({ node, message }, index) => (
            <p key={index}>{node ? `${node}: ${worded(message)}` : worded(message)}</p>
          ))}
        </Notice>
      )}
      <div className="ll-simple-run">
        <Button kind="primary" icon="play" isBusy={isSending} onClick={onRun}>
          {t("simple.run")}
        </Button>
        {fields.length > 0 && (
          <Button kind="ghost" icon="undo" onClick={form.reset}>
            {t("simple.reset")}
          </Button>
        )}
      </div>
    </div>
  );
}

/** The shape of what two fields are the sides of. */
function FormSize({ height, shape, form }: { height: string; shape: Shape | undefined; form: Form }) {
  if (!shape) return null;
  const side = (name: string) => Number(form.values[name] ?? 0) || 0;
  return (
    <SizePicker
      size={{ width: side(shape.width), height: side(height) }}
      sizes={shape.sizes}
      onPick={(size, isSettled) => {
        form.set(shape.width, size.width, isSettled);
        form.set(height, size.height, isSettled);
      }}
    />
  );
}

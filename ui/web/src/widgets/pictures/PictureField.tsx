import { useRef, useState, type ClipboardEvent, type DragEvent } from "react";
import { urls } from "../../host";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { IconButton } from "../../parts/IconButton";
import { Icon } from "../../parts/icons";
import { Meter } from "../../parts/Meter";
import { Sound } from "../../parts/Sound";
import { usePage } from "../../store/page";
import type { UploadKind } from "../../types";
import { asText, pictureName, SETTLED, UPLOADED, type WidgetProps } from "../widget";
import { UploadsDialog } from "./UploadsDialog";
import { useUpload } from "./useUpload";

export function PictureField(props: WidgetProps) {
  return <UploadField {...props} kind="image" />;
}

export function AudioField(props: WidgetProps) {
  return <UploadField {...props} kind="audio" />;
}

/** A picture or sound to work from: dropped, chosen or pasted, sent to the server, and shown. */
function UploadField({ id, label, value, onChange, disabled, describedBy, kind }: WidgetProps & { kind: UploadKind }) {
  const path = asText(value);
  const chooser = useRef<HTMLInputElement>(null);
  const [isOver, setOver] = useState(false);
  const [broken, setBroken] = useState("");
  const [isChoosing, setChoosing] = useState(false);
  const upload = useUpload(kind, (uploaded) => onChange(uploaded.path, SETTLED));

  const isOfTemplate = usePage(({ me }) => me?.template_files.includes(path) ?? false);
  const isSoundOfTemplate = isOfTemplate && kind === "audio"; // of which the server has no outline
  const isShown = (UPLOADED.test(path) || isOfTemplate) && broken !== path;
  const hint = t(path ? `widgets.not_here_${kind}` : `widgets.hint_${kind}`);

  const take = (files: FileList | null | undefined) => {
    const file = files?.[0];
    if (file && !disabled && upload.part === null) upload.send(file);
    return file !== undefined;
  };
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    event.stopPropagation(); // the canvas opens what is dropped on it
    setOver(false);
    take(event.dataTransfer.files);
  };
  const onPaste = (event: ClipboardEvent) => {
    if (!take(event.clipboardData.files)) return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      className={`ll-picture nodrag ${isOver ? "ll-picture-over" : ""}`}
      onDragOver={(event) => {
        event.preventDefault();
        event.stopPropagation();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={onDrop}
      onPaste={onPaste}
    >
      <button
        id={id}
        type="button"
        className="ll-picture-drop"
        aria-label={isShown ? t(`widgets.other_${kind}`, { name: label }) : `${label}: ${hint}`}
        aria-describedby={describedBy}
        disabled={disabled}
        onClick={() => chooser.current?.click()}
      >
        {isShown && !isSoundOfTemplate ? (
          <img
            src={isOfTemplate ? urls.templateFile(path) : urls.uploadThumb(path)}
            alt=""
            draggable={false}
            onError={() => setBroken(path)}
          />
        ) : (
          <>
            <Icon name={kind} size={24} />
            <span>{isShown ? pictureName(path) : hint}</span>
          </>
        )}
      </button>
      <input
        ref={chooser}
        type="file"
        accept={`${kind}/*`}
        hidden
        aria-label={label}
        onChange={(event) => {
          take(event.target.files);
          event.target.value = ""; // so that the same file can be chosen again
        }}
      />
      {isShown && kind === "audio" && (
        <Sound src={isOfTemplate ? urls.templateFile(path) : urls.upload(path)} label={pictureName(path)} />
      )}
      {upload.part !== null && <Meter label={t(`widgets.sending_${kind}`)} value={upload.part} max={1} />}
      {upload.refusal && (
        <p className="ll-field-problem" role="alert">
          {upload.refusal}
        </p>
      )}
      <Button kind="ghost" className="ll-picture-earlier" disabled={disabled} onClick={() => setChoosing(true)}>
        {t(`widgets.earlier_${kind}`)}
      </Button>
      {isChoosing && (
        <UploadsDialog
          kind={kind}
          onClose={() => setChoosing(false)}
          onChoose={(chosen) => {
            setChoosing(false);
            onChange(chosen, SETTLED);
          }}
        />
      )}
      {path && (
        <div className="ll-picture-file">
          <span title={path}>{pictureName(path)}</span>
          <IconButton
            icon="close"
            size={14}
            label={t(`widgets.take_out_${kind}`)}
            disabled={disabled}
            onClick={() => onChange("", SETTLED)}
          />
        </div>
      )}
    </div>
  );
}

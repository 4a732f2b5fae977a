import { TextBox } from "./TextBox";

interface NumberBoxProps {
  id: string;
  label: string;
  value: number | null;
  onSettle: (value: number | null) => void;
}

/** A number that may be left empty; what is no number changes nothing. */
export function NumberBox({ id, label, value, onSettle }: NumberBoxProps) {
  const settle = (text: string) => {
    const number = Number(text.replace(",", "."));
    if (text === "") onSettle(null);
    else if (Number.isFinite(number)) onSettle(number);
  };
  return <TextBox id={id} label={label} value={value === null ? "" : String(value)} onSettle={settle} />;
}

import { Handle, Position } from "@xyflow/react";
import { memo } from "react";
import { t } from "../../i18n";
import { spoken, spokenType } from "../../parts/format";
import { lookOf } from "../look";
import { TypeDot } from "./TypeDot";

interface SocketHandleProps {
  side: "input" | "output";
  name: string;
  type: string;
  help?: string;
  isRequired?: boolean;
  isLinked?: boolean;
}

/** The place where wires start and end: its colour and its shape both say the type. */
export const SocketHandle = memo(function SocketHandle(props: SocketHandleProps) {
  const { side, name, type, help = "", isRequired = false, isLinked = false } = props;
  const { tone } = lookOf(type);
  const label = t(side === "input" ? "canvas.input_socket" : "canvas.output_socket", {
    name: spoken(name),
    type: spokenType(type),
  });
  const note = isRequired ? `${label}, ${t("canvas.required")}` : label;
  return (
    <Handle
      id={name}
      type={side === "input" ? "target" : "source"}
      position={side === "input" ? Position.Left : Position.Right}
      className={`ll-handle ll-tone-${tone}`}
      role="button"
      tabIndex={-1}
      aria-label={note}
      title={help ? `${note}\n${help}` : note}
      data-type={type}
    >
      <TypeDot type={type} isLinked={isLinked} />
    </Handle>
  );
});

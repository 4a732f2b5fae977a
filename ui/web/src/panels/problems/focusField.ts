/** The keyboard's focus on the field of one input of a node. */

import { canvasUi } from "../../canvas/canvasUi";
import { itemKey } from "../../graph/items";

const TRIES = 30;

/** Once the node is drawn; an input without a field leaves the focus on its node. */
export function focusField(node: string, socket: string): void {
  const row = `[data-id="${CSS.escape(itemKey("node", node))}"] [data-socket="${CSS.escape(socket)}"]`;
  let tries = TRIES;
  const attempt = () => {
    const field = canvasUi.getState().box?.querySelector<HTMLElement>(`${row} :is(input, textarea, select, button)`);
    if (field) field.focus({ preventScroll: true });
    else if (tries-- > 0) requestAnimationFrame(attempt);
  };
  requestAnimationFrame(attempt);
}

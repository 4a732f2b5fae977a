import { t, type TextKey } from "../i18n";
import { Button } from "../parts/Button";
import { spokenType } from "../parts/format";
import { Dialog } from "../parts/overlays/Dialog";
import { closeDialog, openDialog } from "../store/page";
import { lookOf } from "../canvas/look";
import { TypeDot } from "../canvas/nodes/TypeDot";
import { useEditor } from "../store/editor";
import { keysText } from "./pageShortcuts";

type Line = readonly [keys: string, what: TextKey];

const RUNS: readonly Line[] = [
  ["Ctrl+Enter", "panels.run"],
  ["Ctrl+Shift+Enter", "panels.run_selected"],
  ["Ctrl+S", "panels.save"],
  ["Ctrl+Shift+S", "panels.save_as"],
  ["Ctrl+O", "panels.open"],
  ["Alt+N", "panels.new"],
  ["Alt+W", "panels.close"],
  ["Alt+PageUp, Alt+PageDown", "panels.key_tabs"],
  ["Alt+Shift+PageUp, Alt+Shift+PageDown", "panels.key_move_tab"],
  ["?", "panels.shortcuts"],
];

/** What is done in `canvas/gestures/`. */
const EDITS: readonly Line[] = [
  ["Tab, /", "panels.key_palette"],
  ["Ctrl+Z", "panels.undo"],
  ["Ctrl+Y, Ctrl+Shift+Z", "panels.redo"],
  ["Ctrl+C, Ctrl+X, Ctrl+V", "panels.key_clipboard"],
  ["Ctrl+D", "panels.key_duplicate"],
  ["Ctrl+A", "panels.key_all"],
  ["Ctrl+G", "panels.key_group"],
  ["Ctrl+Shift+G", "panels.key_sub_fold"],
  ["Shift+Enter", "panels.key_sub_open"],
  ["Ctrl+M", "panels.key_mute"],
  ["Ctrl+B", "panels.key_bypass"],
  ["Delete", "panels.key_delete"],
  ["F2", "panels.rename"],
  [".", "panels.key_fold"],
];

const MOVES: readonly Line[] = [
  ["Ctrl+F", "canvas.find"],
  ["Enter", "panels.key_wire"],
  ["←↑→↓", "panels.key_move"],
  ["Alt+←→", "panels.key_along"],
  ["Shift+F10", "panels.key_menu"],
  ["F1", "help.open"],
  ["F", "panels.key_fit"],
  ["L", "panels.arrange"],
  ["Ctrl+Shift+←→↑↓, Shift+C, Shift+R", "panels.key_align"],
  ["Shift+H, Shift+V", "panels.key_gaps"],
  ["O", "panels.key_outline"],
  ["Esc", "panels.key_escape"],
];

/** All keyboard shortcuts of the build view. */
export function ShortcutsDialog() {
  return (
    <Dialog title={t("panels.shortcuts")} size="large" onClose={closeDialog} footer={<ChangeKeys />}>
      {/* On a phone the list scrolls; nothing else in it takes the focus. */}
      <div className="ll-shortcuts" role="region" aria-label={t("panels.shortcuts")} tabIndex={0}>
        <Section title={t("panels.keys_runs")} lines={RUNS} />
        <Section title={t("panels.keys_edits")} lines={EDITS} />
        <Section title={t("panels.keys_moves")} lines={MOVES} />
        <Types />
      </div>
    </Dialog>
  );
}

function ChangeKeys() {
  return (
    <Button icon="settings" onClick={() => openDialog("settings")}>
      {t("settings.change_keys")}
    </Button>
  );
}

/** How sockets and wires tell what goes through them. */
function Types() {
  const types = useEditor((state) => state.catalog.types);
  return (
    <section>
      <h3>{t("panels.socket_types")}</h3>
      <ul className="ll-types">
        {types.map((type) => (
          <li key={type}>
            <span className={`ll-tone-${lookOf(type).tone} ll-search-dot`} aria-hidden="true">
              <TypeDot type={type} isLinked />
            </span>
            {spokenType(type)}
          </li>
        ))}
      </ul>
    </section>
  );
}

function Section({ title, lines }: { title: string; lines: readonly Line[] }) {
  return (
    <section>
      <h3>{title}</h3>
      <dl>
        {lines.map(([keys, what]) => (
          <div key={what}>
            <dt>
              {keys.split(", ").map((combination) => (
                <kbd key={combination}>{keysText(combination)}</kbd>
              ))}
            </dt>
            <dd>{t(what)}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

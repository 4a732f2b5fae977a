import { gallery, replaceResult } from "../../gallery/galleryState";
import { host, sentence } from "../../host";
import { t } from "../../i18n";
import { toast } from "../../store/page";
import type { Result } from "../../types";

/** The frame that stands for a video in lists, kept with it. */
export async function setPoster(result: Result, frame: number): Promise<void> {
  try {
    const changed = await host.setPoster(result.id, frame);
    gallery.setState(({ items }) => ({ items: items.map((item) => (item.id === changed.id ? changed : item)) }));
    replaceResult(changed);
    toast({ kind: "success", text: t("material.poster_set", { n: frame + 1 }) });
  } catch (error) {
    toast({ kind: "error", text: sentence(error) });
  }
}

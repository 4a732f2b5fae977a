/** What lies under a mask among an app's settings, by what the server says of it and the settings' values of this moment. */

import { own } from "../../graph/record";
import { channelOf } from "../../material/mask/channel";
import type { Under } from "../../material/mask/under";
import type { AppForm } from "../../types";
import { asText } from "../../widgets/widget";
import type { FormValues } from "../formFields";

export function underMaskOf({ masks }: Pick<AppForm, "masks">, place: string, values: FormValues): Under {
  const mask = own(masks, place.slice(1));
  const said = (at: { setting: string; value: string }) => (at.setting ? asText(own(values, at.setting)) : at.value);
  return {
    picture: mask ? said(mask.picture) : "",
    channel: channelOf(mask && said(mask.channel)),
  };
}

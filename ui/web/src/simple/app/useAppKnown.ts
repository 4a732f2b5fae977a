import { useEffect, useState } from "react";
import { host } from "../../host";
import type { FormValues } from "../formFields";
import { DELAY_MS, type MeantOfForm } from "../useMeant";

/** What the server knows of an app's settings before a run; asked anew after a change. */
export function useAppKnown(token: string, values: FormValues): MeantOfForm {
  const [known, setKnown] = useState<MeantOfForm>({ meant: {}, tokens: {}, shapes: {} });
  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(() => {
      const take = (found: Partial<MeantOfForm>) => setKnown((before) => ({ ...before, ...found }));
      const nothing = () => undefined; // a form works without
      host.checkApp(token, values, abort.signal).then(({ values: meant, shapes }) => take({ meant, shapes }), nothing);
      host.appTokens(token, values, abort.signal).then(({ tokens }) => take({ tokens }), nothing);
    }, DELAY_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [token, values]);
  return known;
}

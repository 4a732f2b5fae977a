/** What the page's head names: begins beside Gradio, which mounts the views once it is up. */

import { begin, mount } from "./mount";

begin(new URL(import.meta.url).searchParams.get("v") ?? "");

export { mount };

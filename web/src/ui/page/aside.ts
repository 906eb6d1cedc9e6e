// The worker for large text, one for the page.

import { Aside } from "../../render/aside";

export const aside = new Aside(() => new Worker(new URL("../../render/parser.ts", import.meta.url), { type: "module", name: "parser" }));

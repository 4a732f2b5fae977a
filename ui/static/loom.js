import{Bc as r,Cc as e}from"./loom.chunk.4LX2WXAW.js";r(new URL(import.meta.url).searchParams.get("v")??"");export{e as mount};

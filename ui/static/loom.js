import{Bc as r,Cc as e}from"./loom.chunk.HU5BL6XI.js";r(new URL(import.meta.url).searchParams.get("v")??"");export{e as mount};

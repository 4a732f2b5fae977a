import{Bc as r,Cc as e}from"./loom.chunk.SSRA2P45.js";r(new URL(import.meta.url).searchParams.get("v")??"");export{e as mount};

import{Bc as r,Cc as e}from"./loom.chunk.GIATSPGK.js";r(new URL(import.meta.url).searchParams.get("v")??"");export{e as mount};

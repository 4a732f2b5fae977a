import{Xb as r,Yb as e}from"./loom.chunk.FK6FF2IR.js";r(new URL(import.meta.url).searchParams.get("v")??"");export{e as mount};

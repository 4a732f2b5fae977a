import{$b as r,ac as e}from"./loom.chunk.DXKRGPZ4.js";r(new URL(import.meta.url).searchParams.get("v")??"");export{e as mount};

import{Zb as r,_b as e}from"./loom.chunk.KKVWFBBN.js";r(new URL(import.meta.url).searchParams.get("v")??"");export{e as mount};

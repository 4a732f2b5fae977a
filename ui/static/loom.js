import{Dc as r,Ec as e}from"./loom.chunk.MJOEXYHM.js";r(new URL(import.meta.url).searchParams.get("v")??"");export{e as mount};

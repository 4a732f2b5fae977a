import{xc as r,yc as e}from"./loom.chunk.JZTENCFN.js";r(new URL(import.meta.url).searchParams.get("v")??"");export{e as mount};

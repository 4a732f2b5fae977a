import{vc as r,wc as e}from"./loom.chunk.WNWLMHMR.js";r(new URL(import.meta.url).searchParams.get("v")??"");export{e as mount};

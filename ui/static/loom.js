import{Dc as r,Ec as e}from"./loom.chunk.3P7G3PVU.js";r(new URL(import.meta.url).searchParams.get("v")??"");export{e as mount};

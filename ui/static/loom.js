import{Dc as r,Ec as e}from"./loom.chunk.WRMUOKHJ.js";r(new URL(import.meta.url).searchParams.get("v")??"");export{e as mount};

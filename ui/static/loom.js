import{Dc as r,Ec as e}from"./loom.chunk.6NMBECXN.js";r(new URL(import.meta.url).searchParams.get("v")??"");export{e as mount};

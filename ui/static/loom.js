import{Dc as r,Ec as e}from"./loom.chunk.CZ6JXSX3.js";r(new URL(import.meta.url).searchParams.get("v")??"");export{e as mount};

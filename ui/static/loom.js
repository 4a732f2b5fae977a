import{Ac as r,Bc as e}from"./loom.chunk.QLNW26U2.js";r(new URL(import.meta.url).searchParams.get("v")??"");export{e as mount};

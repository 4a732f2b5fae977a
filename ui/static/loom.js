import{xc as r,yc as e}from"./loom.chunk.WD5XW3HO.js";r(new URL(import.meta.url).searchParams.get("v")??"");export{e as mount};

import{xc as r,yc as e}from"./loom.chunk.UM652BUN.js";r(new URL(import.meta.url).searchParams.get("v")??"");export{e as mount};

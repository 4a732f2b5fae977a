import{Xb as r,Yb as e}from"./loom.chunk.2HNVGS6U.js";r(new URL(import.meta.url).searchParams.get("v")??"");export{e as mount};

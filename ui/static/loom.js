import{Yb as r,Zb as e}from"./loom.chunk.CLHUOLRQ.js";r(new URL(import.meta.url).searchParams.get("v")??"");export{e as mount};

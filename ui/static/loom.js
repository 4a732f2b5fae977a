<<<<<<< HEAD
import{Yb as r,Zb as e}from"./loom.chunk.FJSD4Z24.js";r(new URL(import.meta.url).searchParams.get("v")??"");export{e as mount};
=======
import{Yb as r,Zb as e}from"./loom.chunk.NSJ7ZZH4.js";r(new URL(import.meta.url).searchParams.get("v")??"");export{e as mount};
>>>>>>> main

<<<<<<<< HEAD:ui/static/loom.chunk.MWJQYPPG.js
import{H as n,I as r,a as d,b as c}from"./loom.chunk.FJSD4Z24.js";var e=d(c(),1);function u(){let[s,t]=(0,e.useState)(null),[l,o]=(0,e.useState)([]),[p,a]=(0,e.useState)("");return(0,e.useEffect)(()=>{r.templates().then(t,m=>a(n(m))),r.templatesNeeds().then(o,()=>{})},[]),{templates:s,needs:l,error:p}}function T(s){let t=s.replaceAll("_"," ");return t.charAt(0).toUpperCase()+t.slice(1)}export{u as a,T as b};
========
import{I as n,J as r,a as d,b as c}from"./loom.chunk.NSJ7ZZH4.js";var e=d(c(),1);function u(){let[s,t]=(0,e.useState)(null),[l,o]=(0,e.useState)([]),[p,a]=(0,e.useState)("");return(0,e.useEffect)(()=>{r.templates().then(t,m=>a(n(m))),r.templatesNeeds().then(o,()=>{})},[]),{templates:s,needs:l,error:p}}function T(s){let t=s.replaceAll("_"," ");return t.charAt(0).toUpperCase()+t.slice(1)}export{u as a,T as b};
>>>>>>>> main:ui/static/loom.chunk.BTUL7PM6.js

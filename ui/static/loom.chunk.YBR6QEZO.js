import{b as e,l as c}from"./loom.chunk.66WP5632.js";var d=e(c(),1);function p({text:n}){return n.split("`").map((o,t)=>t%2===1?(0,d.jsx)("code",{children:o},t):o)}export{p as a};

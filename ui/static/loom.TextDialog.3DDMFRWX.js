<<<<<<<< HEAD:ui/static/loom.TextDialog.3DDMFRWX.js
import{a as l,da as e,f as o,h as c,na as p}from"./loom.chunk.FJSD4Z24.js";var a=l(c(),1);function y({form:t,text:s}){return(0,a.jsx)(p,{title:o(`canvas.copy_as_${t}`),description:o("canvas.copy_by_hand"),onClose:e,children:(0,a.jsx)("textarea",{className:"ll-input ll-text-to-copy",readOnly:!0,autoFocus:!0,rows:12,value:s,"aria-label":o(`canvas.copy_as_${t}`),onFocus:r=>r.target.select()})})}export{y as TextDialog};
========
import{a as l,ea as e,f as o,h as c,oa as p}from"./loom.chunk.NSJ7ZZH4.js";var a=l(c(),1);function y({form:t,text:s}){return(0,a.jsx)(p,{title:o(`canvas.copy_as_${t}`),description:o("canvas.copy_by_hand"),onClose:e,children:(0,a.jsx)("textarea",{className:"ll-input ll-text-to-copy",readOnly:!0,autoFocus:!0,rows:12,value:s,"aria-label":o(`canvas.copy_as_${t}`),onFocus:r=>r.target.select()})})}export{y as TextDialog};
>>>>>>>> main:ui/static/loom.TextDialog.ICRWKMSM.js

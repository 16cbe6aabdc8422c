__turbopack_load_page_chunks__("/campaign", [
  "static/chunks/2zrcoi81a983l.js",
  "static/chunks/0re77bklofj_a.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])

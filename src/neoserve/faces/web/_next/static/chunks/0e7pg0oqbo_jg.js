__turbopack_load_page_chunks__("/campaign", [
  "static/chunks/3_hywfuy9y1o4.js",
  "static/chunks/0re77bklofj_a.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])

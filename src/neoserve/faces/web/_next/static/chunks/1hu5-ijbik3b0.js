__turbopack_load_page_chunks__("/", [
  "static/chunks/1tqnexzshcycm.js",
  "static/chunks/0re77bklofj_a.js",
  "static/chunks/0recysnvlo8f5.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])

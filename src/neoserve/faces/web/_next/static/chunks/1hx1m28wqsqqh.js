__turbopack_load_page_chunks__("/cost", [
  "static/chunks/3mj6punnefyhb.js",
  "static/chunks/0re77bklofj_a.js",
  "static/chunks/2pw7o4_ve-cjo.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])

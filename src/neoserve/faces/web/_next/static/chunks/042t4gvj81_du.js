__turbopack_load_page_chunks__("/evidence", [
  "static/chunks/3kgzyt3m1ng3x.js",
  "static/chunks/0re77bklofj_a.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])

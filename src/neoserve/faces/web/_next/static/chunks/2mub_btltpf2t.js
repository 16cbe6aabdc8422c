__turbopack_load_page_chunks__("/evidence", [
  "static/chunks/3jbzn3q1h5p09.js",
  "static/chunks/0re77bklofj_a.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])

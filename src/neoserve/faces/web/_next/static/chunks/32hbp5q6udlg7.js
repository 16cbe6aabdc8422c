__turbopack_load_page_chunks__("/evidence", [
  "static/chunks/0g7cspwk3tqpx.js",
  "static/chunks/2gk8vc3avx17i.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])

__turbopack_load_page_chunks__("/agent", [
  "static/chunks/11errgapu5wpe.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])

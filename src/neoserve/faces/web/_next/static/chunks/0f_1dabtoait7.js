__turbopack_load_page_chunks__("/agent", [
  "static/chunks/2ir2h3jyoqean.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])

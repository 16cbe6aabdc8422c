__turbopack_load_page_chunks__("/agent", [
  "static/chunks/1ok5yqddgn3w5.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])

__turbopack_load_page_chunks__("/plan", [
  "static/chunks/1ghxk-stb1l5t.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])

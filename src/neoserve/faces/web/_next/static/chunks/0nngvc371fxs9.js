__turbopack_load_page_chunks__("/plan", [
  "static/chunks/33blcd2cy09wy.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])

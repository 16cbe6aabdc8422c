__turbopack_load_page_chunks__("/404", [
  "static/chunks/37poi6p2m-f2h.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])

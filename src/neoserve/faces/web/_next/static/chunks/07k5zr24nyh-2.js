__turbopack_load_page_chunks__("/hardware", [
  "static/chunks/2xqjty807wt4d.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])

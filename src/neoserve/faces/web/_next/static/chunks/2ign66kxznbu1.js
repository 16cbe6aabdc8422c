__turbopack_load_page_chunks__("/404", [
  "static/chunks/1muk0z5w29tqh.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])

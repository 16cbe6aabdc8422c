__turbopack_load_page_chunks__("/404", [
  "static/chunks/1bzd5j7jit8hn.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])

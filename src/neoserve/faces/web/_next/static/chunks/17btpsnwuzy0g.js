__turbopack_load_page_chunks__("/plan", [
  "static/chunks/0b39y9r1mg15a.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])

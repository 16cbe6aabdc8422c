__turbopack_load_page_chunks__("/agent", [
  "static/chunks/3oszr2gzo6pt3.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])

__turbopack_load_page_chunks__("/hardware", [
  "static/chunks/21w_d-tfji4ar.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])

__turbopack_load_page_chunks__("/ledger", [
  "static/chunks/2iod-0jz57z_a.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])

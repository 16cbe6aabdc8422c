__turbopack_load_page_chunks__("/ledger", [
  "static/chunks/14-2q0_snqt5g.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])
